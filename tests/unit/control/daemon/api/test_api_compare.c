// SPDX-License-Identifier: BSD-3-Clause
//
// Tests policy.compare, with a simulated dataplane whose samples the test writes.
#include "daemon_web.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define FLOWS 3000
#define WEB_WITHOUT_W1 \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, \"backends\": [" \
	"{\"name\": \"w-2\", \"address\": \"10.0.1.12\", \"weight\": 300}]}"
#define DNS_WITH_W9 \
	"{\"name\": \"dns\", \"binds\": [{\"address\": \"198.51.100.11\", " \
	"\"protocol\": \"udp\", \"port\": 0}], \"table_size\": 251, \"backends\": [" \
	"{\"name\": \"w-1\", \"address\": \"10.0.1.13\"}, " \
	"{\"name\": \"w-9\", \"address\": \"10.0.1.19\"}]}"

static uint64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint16_t id_of(struct web *web, const char *service, const char *backend) {
	json_t *holder = NULL;
	uint16_t id = (uint16_t)json_integer_value(
		json_object_get(lab_backend(&web->lab, &holder, service, backend), "id"));

	json_decref(holder);
	return id;
}

static void write_sample(struct web *web, uint32_t worker, uint16_t backend, uint64_t service_ns) {
	struct weir_sample_ring *ring =
		&lab_dataplane_segment(web->dataplane)->worker_boxes[worker].samples;

	ring->sample[ring->tail % WEIR_SAMPLES] = (struct weir_sample){.service_ns = service_ns,
		.backend = backend,
		.end = (uint32_t)(now_ns() / WEIR_SAMPLE_TICK_NS)};
	__atomic_store_n(&ring->tail, ring->tail + 1, __ATOMIC_RELEASE);
}

static const json_t *row_of(const json_t *list, const char *key, const char *name) {
	json_t *row;
	size_t i;

	json_array_foreach (list, i, row) {
		if (strcmp(json_string_value(json_object_get(row, key)), name) == 0) {
			return row;
		}
	}
	fail_msg("no %s %s", key, name);
	return NULL;
}

static double share(const json_t *result, const char *backend, const char *policy) {
	const json_t *row = row_of(json_object_get(result, "backends"), "backend", backend);

	return json_number_value(json_object_get(json_object_get(row, "shares"), policy));
}

static void ask(int fd, const char *line) {
	lab_send(fd, line, strlen(line));
}

// Write samples of 3,000 flows of 2 ms each; w-1 has a third of them. Also write samples that must
// be ignored.
static void write_flows(struct web *web) {
	uint16_t w1 = id_of(web, "web", "w-1"), w2 = id_of(web, "web", "w-2");
	uint16_t dns = id_of(web, "dns", "w-1");

	lab_pause();
	for (int i = 0; i < FLOWS; i++) {
		if (i % 10 == 0) {
			lab_pause();
		}
		write_sample(web, (uint32_t)(i / 3 % 2), i % 3 == 0 ? w1 : w2, 2000000);
		if (i % 100 == 0) {
			write_sample(web, 0, dns, 1000000); // a flow of another service
			write_sample(web, 0, 60000, 1000000); // a flow of an unused id
			// a flow that began before the recording
			write_sample(web, 0, w1, 3600000000000ull);
		}
	}
}

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

TEST(flows_are_recorded_and_replayed_through_every_policy) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_t *answer, *result;

	ask(fd, "{\"command\": \"policy.compare\", \"service\": \"web\", \"for_ms\": 3000}\n");
	LAB_UNTIL(strcmp(lab_code(
		&web->lab, JSON({"command": "policy.compare", "service": "dns", "for_ms": 100})),
				   "refused") == 0); // only one comparison at a time is allowed
	write_flows(web);
	answer = lab_read_answer(fd);
	close(fd);
	assert_true(json_is_true(json_object_get(answer, "ok")));
	result = json_object_get(answer, "result");
	assert_in_range(json_integer_value(json_object_get(result, "flows")), FLOWS - 300, FLOWS);
	// The counters of this dataplane do not have the flows of its samples.
	assert_true(json_integer_value(json_object_get(result, "began")) >=
		    json_integer_value(json_object_get(result, "flows")));
	assert_in_range(json_integer_value(json_object_get(result, "recorded_ms")), 2990, 60000);
	assert_string_equal(json_string_value(json_object_get(result, "durations")), "scaled");
	assert_int_equal(json_array_size(json_object_get(result, "backends")), 2);
	assert_float_equal(share(result, "w-1", "recorded"), 33.3, 1);
	assert_float_equal(share(result, "w-1", "round-robin"), 50, 1);
	assert_float_equal(share(result, "w-1", "weighted-round-robin"), 25, 1);
	assert_float_equal(share(result, "w-1", "maglev"), 25, 4);
	assert_true(json_is_true(json_object_get(
		row_of(json_object_get(result, "policies"), "policy", "maglev"), "in_use")));
	assert_int_equal(json_integer_value(json_object_get(
				 row_of(json_object_get(result, "policies"), "policy", "recorded"),
				 "rejected")),
		0);
	assert_float_equal(
		json_number_value(json_object_get(
			row_of(json_object_get(result, "backends"), "backend", "w-1"), "time_ms")),
		2, 0.001);
	json_decref(answer);
}

static bool has_backends(struct web *web, size_t wanted) {
	json_t *list = lab_result(&web->lab, JSON({"command": "backend.show"}));
	size_t size = json_array_size(list);

	json_decref(list);
	return size == wanted;
}

static void reload(struct web *web, const char *services) {
	lab_write_config(&web->lab, services);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
}

// During the recording, another service gets the id of a removed backend.
TEST(reused_id_does_not_count_as_the_removed_backend) {
	struct web *web = *state;
	uint16_t id = id_of(web, "web", "w-1");
	uint64_t *new_flows =
		&weir_segment_service_counters(lab_dataplane_segment(web->dataplane), 0, 0)
			 ->new_flows;
	int fd = lab_connect(&web->lab);
	json_t *answer;

	*new_flows += 5;
	ask(fd, "{\"command\": \"policy.compare\", \"service\": \"web\", \"for_ms\": 3000}\n");
	LAB_UNTIL(strcmp(lab_code(&web->lab,
		JSON({"command": "policy.compare", "service": "dns", "for_ms": 100})), "refused") == 0);
	reload(web, WEB_WITHOUT_W1 ", " DNS_SERVICE);
	LAB_UNTIL(has_backends(web, 2)); // the id is free
	reload(web, WEB_WITHOUT_W1 ", " DNS_WITH_W9);
	assert_int_equal(id_of(web, "dns", "w-9"), id);
	*new_flows -= 5; // as if the id of the service had been reused, too
	lab_pause();
	write_sample(web, 0, id, 1000000);
	write_sample(web, 0, id_of(web, "web", "w-2"), 1000000);
	answer = lab_read_answer(fd);
	close(fd);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(answer, "result"), "flows")), 1);
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(answer, "result"), "began")), 1);
	json_decref(answer);
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
	LAB_UNTIL(has_backends(web, 3));
}

TEST(nothing_is_recorded_without_flows) {
	struct web *web = *state;
	json_t *result = lab_result(&web->lab, JSON({"command": "policy.compare", "service": "dns",
		"for_ms": 100, "durations": "measured"}));

	assert_int_equal(json_integer_value(json_object_get(result, "flows")), 0);
	assert_true(json_is_null(json_object_get(
		row_of(json_object_get(result, "backends"), "backend", "w-1"), "time_ms")));
	json_decref(result);
}

TEST(invalid_arguments_are_refused) {
	static const char *const wrong[] = {"\"service\": \"web\", \"for_ms\": 1",
		"\"service\": \"web\", \"for_ms\": 1e9",
		"\"service\": \"web\", \"durations\": \"long\""};
	struct web *web = *state;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_string_equal(lab_code(
			&web->lab, JSON({"command": "policy.compare", %s}), wrong[i]), "bad-request");
	}
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "policy.compare", "service": "x"})), "not-found");
}

// No memory is leaked if a client disconnects, or if the dataplane or weir-control ends, during a
// comparison.
TEST(clients_and_dataplanes_may_disconnect_meanwhile) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_t *answer;

	ask(fd, "{\"command\": \"policy.compare\", \"service\": \"web\", \"for_ms\": 200}\n");
	close(fd);
	LAB_UNTIL(strcmp(lab_code(&web->lab,
		JSON({"command": "policy.compare", "service": "dns",
			"for_ms": 100})), "refused") != 0);
	fd = lab_connect(&web->lab);
	ask(fd, "{\"command\": \"policy.compare\", \"service\": \"web\", \"for_ms\": 600000}\n");
	LAB_UNTIL(strcmp(lab_code(&web->lab,
		JSON({"command": "policy.compare", "service": "dns",
			"for_ms": 100})), "refused") == 0);
	close(fd); // disconnect before the comparison ends
	LAB_UNTIL(strcmp(lab_code(&web->lab,
		JSON({"command": "policy.compare", "service": "dns",
			"for_ms": 100})), "refused") != 0);
	fd = lab_connect(&web->lab);
	ask(fd, "{\"command\": \"policy.compare\", \"service\": \"web\", \"for_ms\": 60000}\n");
	lab_pause();
	lab_dataplane_stop(web->dataplane);
	answer = lab_read_answer(fd);
	assert_string_equal(json_string_value(json_object_get(answer, "code")), "no-dataplane");
	json_decref(answer);
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "policy.compare", "service": "web",
			"for_ms": 100})), "no-dataplane");
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	ask(fd, "{\"command\": \"policy.compare\", \"service\": \"web\", \"for_ms\": 60000}\n");
	LAB_UNTIL(strcmp(lab_code(&web->lab,
		JSON({"command": "policy.compare", "service": "dns",
			"for_ms": 100})), "refused") == 0);
	close(fd); // the test ends while a comparison is in progress
}
