// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl status, with and without an answer from weir-control. Without an answer, weirctl
// reads the segment of the dataplane. The test process simulates the dataplane: it creates a
// segment, and holds the lock of the run directory.
#include <time.h>

#include "cli_lab.h"
#include "handover.h"
#include "segment.h"
#include "status.h"

#define ATTACHED "\"dataplane\": {\"attached\": true, \"pid\": 7, \"workers\": 2, \"stalled\": []}"
#define COUNTS \
	"\"services\": 3, \"backends\": 8, \"eligible\": 7, \"not_eligible\": [], " \
	"\"unreachable\": [], \"panic\": []"
#define ANSWER(reasons, dataplane) \
	"{\"ok\": true, \"result\": {\"level\": \"ok\", \"reasons\": [" reasons "], " dataplane \
	", " COUNTS "}}"
#define REASON(level, text) "{\"level\": \"" level "\", \"text\": \"" text "\"}"

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void expect(struct outcome outcome, int status, const char *out) {
	assert_string_equal(outcome.out, out);
	assert_string_equal(outcome.err, "");
	assert_int_equal(outcome.status, status);
	free_outcome(&outcome);
}

TEST(status_prints_the_answer_of_control) {
	static const struct {
		const char *answer, *out;
		int status;
	} cases[] = {
		{ANSWER("", ATTACHED), "OK: workers: 2, services: 3, eligible backends: 7 of 8\n",
			0},
		{ANSWER(REASON("ok", "1 of 3 services drained: web"), ATTACHED),
			"OK: workers: 2, services: 3, eligible backends: 7 of 8; 1 of 3 services "
			"drained: web\n",
			0},
		{ANSWER(REASON("ok", "1 of 3 services drained: web") ", " REASON("warning", "dns"),
			 ATTACHED),
			"WARNING: dns; 1 of 3 services drained: web\n", 1},
		{ANSWER(REASON("warning", "no eligible backend in 1 of 3 services: web"), ATTACHED),
			"WARNING: no eligible backend in 1 of 3 services: web\n", 1},
		{ANSWER(REASON("warning", "not published yet: full") ", " REASON(
				"critical", "stalled \\u202e"),
			 ATTACHED),
			"CRITICAL: stalled \\xe2\\x80\\xae; not published yet: full\n", 2},
		{"{\"ok\": false, \"code\": \"not-found\", \"error\": \"no such service\"}",
			"UNKNOWN: no such service\n", 3},
		{"{\"ok\": true}", "UNKNOWN: invalid reply from weir-control\n", 3},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct server_answer answers[] = {{"status", cases[i].answer}, {0}};
		struct server *server = server_start(SERVER_ANSWER, answers);

		expect(RUN(server_folder(server), "status", "--service", "web"), cases[i].status,
			cases[i].out);
		assert_string_equal(
			server_request(server), "{\"command\":\"status\",\"service\":\"web\"}");
		server_stop(server);
	}
}

// --- without weir-control -------------------------------------------------------------------

struct dataplane {
	struct weir_segment *segment, *control;
	struct weir_handover_server *server;
};

static struct dataplane start_dataplane(const char *run_dir) {
	struct weir_port_info port = {.name = "wan"};
	struct weir_segment_params params = {.workers = 2,
		.ports = 1,
		.max_services = 1,
		.max_backends = 1,
		.heap_bytes = 1 << 20,
		.port_info = &port};
	struct weir_handover_params handover = {
		.run_dir = run_dir, .control_user = (uid_t)-1, .group = (gid_t)-1};
	struct dataplane dataplane = {0};

	assert_int_equal(weir_segment_create(&params, &dataplane.segment), 0);
	assert_int_equal(weir_segment_attach_own(dataplane.segment, &dataplane.control), 0);
	assert_int_equal(weir_handover_listen(&handover, &dataplane.server), 0);
	return dataplane;
}

static void stop_dataplane(struct dataplane *dataplane) {
	weir_handover_server_free(dataplane->server);
	weir_segment_free(dataplane->control);
	weir_segment_free(dataplane->segment);
}

// Set the heartbeats of both workers.
static void beat(struct dataplane *dataplane, uint64_t first_ms, uint64_t second_ms) {
	dataplane->segment->worker_counters[0].heartbeat_ns = first_ms * 1000000;
	dataplane->segment->worker_counters[1].heartbeat_ns = second_ms * 1000000;
}

// a heartbeat in the future, as if the worker had written it after the clock was read
#define LATER 60000

TEST(status_reads_the_dataplane_while_control_hangs) {
	static const struct server_answer none[] = {{0}};
	struct server *server = server_start(SERVER_HANG, none);
	const char *folder = server_folder(server);
	struct dataplane dataplane;
	char text[256];

	use_own_network();
	expect(RUN(folder, "status", "--timeout", "50"), 2,
		"CRITICAL: weir-dataplane is not running: no packet is forwarded; weir-control "
		"does not answer within 50 ms\n");
	dataplane = start_dataplane(folder);
	beat(&dataplane, now_ms() + LATER, now_ms() + LATER);
	snprintf(text, sizeof(text),
		"CRITICAL: weir-dataplane (pid %d) has no tables: no packet is forwarded; "
		"weir-control does not answer within 50 ms\n",
		(int)getpid());
	expect(RUN(folder, "status", "--timeout", "50"), 2, text);
	dataplane.control->roots->services = 1;
	expect(RUN(folder, "status", "--timeout", "50"), 1,
		"WARNING: weir-dataplane forwards with its last tables, without health checks; "
		"weir-control does not answer within 50 ms\n");
	beat(&dataplane, now_ms() + LATER, now_ms() - 1500);
	snprintf(text, sizeof(text),
		"CRITICAL: 1 of 2 workers of weir-dataplane (pid %d) stalled: the packets of their "
		"queues are lost; weir-control does not answer within 50 ms\n",
		(int)getpid());
	expect(RUN(folder, "status", "--timeout", "50"), 2, text);
	beat(&dataplane, now_ms() - 1500, now_ms() - 1500);
	snprintf(text, sizeof(text),
		"CRITICAL: weir-dataplane (pid %d) is stalled: no packet is forwarded; "
		"weir-control does not answer within 50 ms\n",
		(int)getpid());
	expect(RUN(folder, "status", "--timeout", "50"), 2, text);
	stop_dataplane(&dataplane);
	server_stop(server);
}

// Unknown values are null. A list without members is empty, not null.
TEST(unknown_values_of_status_are_null) {
	static const char *const unknown[] = {"not_published", "services", "backends", "eligible",
		"unchecked", "not_eligible", "unreachable", "below_quorum", "panic", "drained",
		"rejecting"};
	struct outcome outcome = RUN("/nonexistent", "status", "--json");
	json_t *status = json_loads(outcome.out, 0, NULL);
	const json_t *dataplane = json_object_get(status, "dataplane");

	assert_int_equal(outcome.status, 2);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		assert_true(json_is_null(json_object_get(status, unknown[i])));
	}
	assert_true(json_is_null(json_object_get(dataplane, "pid")));
	assert_true(json_is_null(json_object_get(dataplane, "workers")));
	assert_true(json_is_null(json_object_get(dataplane, "stalled")));
	json_decref(status);
	free_outcome(&outcome);
}

TEST(status_is_critical_with_neither) {
	use_own_network();
	expect(RUN("/nonexistent", "status"), 2,
		"CRITICAL: weir-dataplane is not running: no packet is forwarded; weir-control is "
		"not running\n");
}

// weir-control is running, but not attached to the dataplane, for example because their versions
// differ.
TEST(status_reads_a_dataplane_to_which_control_is_not_attached) {
	static const struct server_answer answers[] = {
		{"status",
			ANSWER(REASON("critical", "weir-control is not attached to weir-dataplane"),
				"\"dataplane\": {\"attached\": false, \"pid\": null, "
				"\"workers\": null, \"stalled\": []}")},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	const char *folder = server_folder(server);
	struct dataplane dataplane;
	struct outcome outcome;

	use_own_network();
	expect(RUN(folder, "status"), 2,
		"CRITICAL: weir-dataplane is not running: no packet is forwarded\n");
	dataplane = start_dataplane(folder);
	dataplane.control->roots->services = 1;
	beat(&dataplane, now_ms() + LATER, now_ms() + LATER);
	expect(RUN(folder, "status"), 1,
		"WARNING: weir-control is not attached to weir-dataplane, which forwards with its "
		"last tables: see the log of weir-control\n");
	beat(&dataplane, now_ms() + LATER, 1);
	outcome = RUN(folder, "status", "--json");
	assert_int_equal(outcome.status, 2);
	expect_contains(outcome.out, "\"level\": \"critical\"");
	expect_contains(outcome.out, "\"workers\": 2");
	expect_contains(outcome.out, "\"stalled\": [\n      1\n    ]");
	free_outcome(&outcome);
	stop_dataplane(&dataplane);
	server_stop(server);
}

// weir-control has the reason why it cannot attach.
TEST(status_has_the_reason_why_control_cannot_attach) {
	static const struct server_answer answers[] = {
		{"status", ANSWER(REASON("critical", "weir-control cannot attach"),
				   "\"dataplane\": {\"attached\": false, \"why\": \"too small\", "
				   "\"pid\": null, \"workers\": null, \"stalled\": []}")},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	const char *folder = server_folder(server);
	struct dataplane dataplane;
	struct outcome outcome;
	char text[256];

	use_own_network();
	dataplane = start_dataplane(folder);
	beat(&dataplane, now_ms() + LATER, now_ms() + LATER);
	snprintf(text, sizeof(text),
		"CRITICAL: weir-dataplane (pid %d) has no tables: no packet is forwarded; "
		"weir-control cannot attach to weir-dataplane: too small\n",
		(int)getpid());
	expect(RUN(folder, "status"), 2, text);
	dataplane.control->roots->services = 1;
	expect(RUN(folder, "status"), 1,
		"WARNING: weir-control is not attached to weir-dataplane, which forwards with its "
		"last tables: too small\n");
	outcome = RUN(folder, "status", "--json");
	expect_contains(outcome.out, "\"why\": \"too small\"");
	free_outcome(&outcome);
	stop_dataplane(&dataplane);
	server_stop(server);
}

// Scripts that announce routes run weirctl status, so it must not wait as long as other commands.
TEST(status_answers_within_its_limit) {
	static const struct server_answer none[] = {{0}};
	static const enum server_mode modes[] = {SERVER_HANG, SERVER_DEAF};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		struct server *server = server_start(modes[i], none);
		uint64_t began_ms = now_ms();
		struct outcome outcome = RUN(server_folder(server), "status", "--timeout", "60000");

		assert_true(now_ms() - began_ms < WEIR_STATUS_LIMIT_MS + 1000);
		assert_int_equal(outcome.status, 2);
		expect_contains(outcome.out, "weir-control does not answer within 1800 ms");
		free_outcome(&outcome);
		server_stop(server);
	}
}
