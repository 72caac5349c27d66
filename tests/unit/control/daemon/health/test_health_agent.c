// SPDX-License-Identifier: BSD-3-Clause
//
// Tests health checks of backends with agents. Checks of type agent use the agent's answers. Other
// checks run less often while the backend is idle.
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "health.h"
#include "test.h"
#include "watch_lab.h"

#define PORT 8089

struct lab {
	uv_loop_t loop;
	struct weir_health *health;
	struct weir_config_health_check check;
	int listener;
	unsigned int calls;
	enum weir_health_verdict verdict;
};

static void on_health(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail) {
	struct lab *lab = context;

	assert_int_equal(backend, 7);
	assert_true(detail[0] != '\0');
	lab->calls++;
	lab->verdict = verdict;
}

static void on_report(
	void *context, uint16_t backend, const struct weir_report *report, const char *source) {
	(void)context;
	(void)report;
	fail_msg("unexpected report of backend %u from %s", backend, source);
}

static int setup(void **state) {
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct lab *lab = calloc(1, sizeof(*lab));
	int one = 1;

	assert_non_null(lab);
	uv_loop_init(&lab->loop);
	assert_int_equal(
		weir_health_create(&lab->loop, on_health, on_report, lab, &lab->health), 0);
	lab->check = (struct weir_config_health_check){
		.interval_ms = 20, .timeout_ms = 15, .rise = 2, .fall = 3};
	lab->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(lab->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(lab->listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(lab->listener, 4096), 0);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_health_free(lab->health);
	watch_lab_close(&lab->loop);
	close(lab->listener);
	free(lab);
	return 0;
}

static void configure(struct lab *lab, enum weir_config_check type) {
	struct weir_health_target target = {.backend = 7,
		.port = PORT,
		.address = watch_lab_address("127.0.0.1"),
		.check = &lab->check,
		.initial = WEIR_HEALTH_VERDICT_UNKNOWN};

	lab->check.type = type;
	assert_int_equal(weir_health_configure(lab->health, &target, 1), 0);
}

static struct weir_health_status status_of(const struct lab *lab) {
	struct weir_health_status status;

	assert_int_equal(weir_health_status(lab->health, 7, false, &status), 0);
	return status;
}

TEST_GROUP(watch_lab_enter);
TEST_EACH(setup, teardown);

// A check of type agent uses the agent's answers and runs no probe. rise and fall apply as for
// other checks.
TEST(agent_answers_are_a_verdict) {
	static const struct {
		enum weir_probe_outcome outcome;
		unsigned int calls;
	} steps[] = {{WEIR_PROBE_PASSED, 0}, {WEIR_PROBE_FAILED, 0}, {WEIR_PROBE_PASSED, 0},
		{WEIR_PROBE_UNKNOWN, 0}, {WEIR_PROBE_PASSED, 1}, {WEIR_PROBE_FAILED, 1},
		{WEIR_PROBE_FAILED, 1}, {WEIR_PROBE_PASSED, 1}, {WEIR_PROBE_FAILED, 1},
		{WEIR_PROBE_FAILED, 1}, {WEIR_PROBE_FAILED, 2}, {WEIR_PROBE_FAILED, 2}};
	struct lab *lab = *state;

	configure(lab, WEIR_CHECK_AGENT);
	watch_lab_idle(&lab->loop, 100);
	assert_false(status_of(lab).checked);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		weir_health_agent_result(lab->health, 7, steps[i].outcome, "in time", 3);
		assert_int_equal(lab->calls, steps[i].calls);
		assert_int_equal(status_of(lab).duration_ms, 3);
	}
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_int_equal(status_of(lab).passes, 4);
	assert_int_equal(status_of(lab).type, WEIR_CHECK_AGENT);
	weir_health_agent_result(lab->health, 8, WEIR_PROBE_PASSED, "not checked", 0);
}

TEST(agent_answers_count_anew_after_a_restart) {
	struct lab *lab = *state;

	configure(lab, WEIR_CHECK_AGENT);
	weir_health_agent_result(lab->health, 7, WEIR_PROBE_PASSED, "in time", 3);
	// of the two required answers, one arrived before the restart and does not count
	weir_health_restart(lab->health, 7);
	weir_health_agent_result(lab->health, 7, WEIR_PROBE_PASSED, "in time", 3);
	assert_int_equal(lab->calls, 0);
	weir_health_agent_result(lab->health, 7, WEIR_PROBE_PASSED, "in time", 3);
	assert_int_equal(lab->calls, 1);
	weir_health_restart(lab->health, 7);
	assert_int_equal(status_of(lab).verdict, WEIR_HEALTH_VERDICT_UNKNOWN);
	weir_health_agent_result(lab->health, 7, WEIR_PROBE_PASSED, "in time", 3);
	assert_int_equal(lab->calls, 1);
	weir_health_agent_result(lab->health, 7, WEIR_PROBE_PASSED, "in time", 3);
	assert_int_equal(lab->calls, 2);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_PASSING);
}

// If the check has another type, the agent's answers do not affect its result.
TEST(other_checks_ignore_agent_answers) {
	struct lab *lab = *state;

	configure(lab, WEIR_CHECK_TCP);
	for (unsigned int i = 0; i < 5; i++) {
		weir_health_agent_result(lab->health, 7, WEIR_PROBE_FAILED, "in time", 3);
	}
	assert_int_equal(lab->calls, 0);
	configure(lab, WEIR_CHECK_AGENT); // the previous check ends
	watch_lab_idle(&lab->loop, 100);
	assert_false(status_of(lab).checked);
}

static bool is_settled(void *context) {
	return ((struct lab *)context)->verdict == WEIR_HEALTH_VERDICT_PASSING;
}

TEST(idle_backend_is_checked_at_its_own_pace) {
	struct lab *lab = *state;
	uint64_t passes;

	configure(lab, WEIR_CHECK_TCP);
	weir_health_set_idle(lab->health, 7, 1000);
	assert_int_equal(status_of(lab).interval_ms, 20); // the backend's verdict is not known yet
	watch_lab_run(&lab->loop, is_settled, lab, 5000, "healthy");
	assert_int_equal(status_of(lab).interval_ms, 1000);
	watch_lab_idle(&lab->loop, 50);
	passes = status_of(lab).passes;
	watch_lab_idle(&lab->loop, 900);
	assert_in_range(status_of(lab).passes - passes, 0, 2);
	weir_health_set_idle(lab->health, 7, 0);
	passes = status_of(lab).passes;
	watch_lab_idle(&lab->loop, 400);
	assert_in_range(status_of(lab).passes - passes, 8, 22);
	// this backend is not checked, so the call has no effect
	weir_health_set_idle(lab->health, 999, 1000);
}
