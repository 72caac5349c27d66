// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the commands canary.plan, canary.start, canary.show and canary.stop, and the steps of a
// canary until it ends.
#include "daemon_web.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define WEB_WITH(weight, policy) \
	"{\"name\": \"web\", \"policy\": {\"name\": \"" policy \
	"\"}, \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": " \
	"80}], \"table_size\": 1009, \"backends\": [{\"name\": \"w-1\", \"address\": " \
	"\"10.0.1.11\", \"weight\": " weight "}, {\"name\": \"w-2\", \"address\": \"10.0.1.12\", " \
	"\"weight\": 300}]}"
#define WEB_WITHOUT_W1 \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, \"backends\": [" \
	"{\"name\": \"w-2\", \"address\": \"10.0.1.12\", \"weight\": 300}]}"
#define WEB_WITH_W3(weight) \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, \"backends\": [" \
	"{\"name\": \"w-1\", \"address\": \"10.0.1.11\", \"weight\": " weight "}, " \
	"{\"name\": \"w-2\", \"address\": \"10.0.1.12\", \"weight\": 300}, " \
	"{\"name\": \"w-3\", \"address\": \"10.0.1.14\"}]}, " DNS_SERVICE
#define WEB_W1_AT(address) \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, \"backends\": [" \
	"{\"name\": \"w-1\", \"address\": \"" address "\", \"weight\": 100}, " \
	"{\"name\": \"w-2\", \"address\": \"10.0.1.12\", \"weight\": 300}]}, " DNS_SERVICE
// Each step takes ten minutes, longer than the test.
#define START_LONG \
	JSON({"command": "canary.start", "service": "web", "backend": "w-1", \
		"steps": [1, 50], "every_ms": 600000})

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

static void release(json_t *result) {
	json_decref(result);
}

static json_int_t weight_of(struct web *web, const char *backend) {
	json_t *holder = NULL;
	json_int_t weight = json_integer_value(json_object_get(
		lab_backend(&web->lab, &holder, "web", backend), "effective_weight"));

	json_decref(holder);
	return weight;
}

// Returns whether backend.show has this state of the canary that has set the weight of a backend.
// NULL: no canary has.
static bool is_set_by(struct web *web, const char *backend, const char *wanted) {
	json_t *holder = NULL;
	const json_t *canary =
		json_object_get(lab_backend(&web->lab, &holder, "web", backend), "canary");
	bool is = wanted == NULL ? json_is_null(canary)
				 : json_is_string(canary) &&
					   strcmp(json_string_value(canary), wanted) == 0;

	json_decref(holder);
	return is;
}

// Returns the state of the canary, or "" if there is none.
static const char *state_of(struct web *web, char text[32]) {
	json_t *list = lab_result(&web->lab, JSON({"command": "canary.show"}));
	const char *name = json_string_value(json_object_get(json_array_get(list, 0), "state"));

	snprintf(text, 32, "%s", name != NULL ? name : "");
	json_decref(list);
	return text;
}

static bool is_in(struct web *web, const char *wanted) {
	char text[32];

	return strcmp(state_of(web, text), wanted) == 0;
}

static bool has_figures(struct web *web, const char *wanted) {
	json_t *list = lab_result(&web->lab, JSON({"command": "canary.show", "service": "web"}));
	const char *figures =
		json_string_value(json_object_get(json_array_get(list, 0), "figures"));
	bool same = figures != NULL && strcmp(figures, wanted) == 0;

	json_decref(list);
	return same;
}

static json_int_t step_of(struct web *web) {
	json_t *list = lab_result(&web->lab, JSON({"command": "canary.show", "service": "web"}));
	json_int_t step = json_integer_value(json_object_get(json_array_get(list, 0), "step"));

	json_decref(list);
	return step;
}

static void report(struct web *web, const char *backend, int errors, int latency_ms) {
	json_decref(lab_ask(&web->lab,
		"{\"command\": \"backend.report\", \"service\": \"web\", \"backend\": \"%s\", "
		"\"requests_per_second\": 400, \"errors_per_second\": %d, \"service_time_ms\": %d}",
		backend, errors, latency_ms));
}

// Send reports until the canary has ended.
static void report_until_ended(struct web *web, int errors, int latency_ms) {
	LAB_UNTIL((report(web, "w-1", errors, latency_ms), report(web, "w-2", 4, 10),
		!is_in(web, "running") && !is_in(web, "paused")));
}

static void reload(struct web *web, const char *services) {
	lab_write_config(&web->lab, services);
	release(lab_result(&web->lab, JSON({"command": "config.reload"})));
}

// Reload with these services. Check that config.diff and config.reload show a single change, with
// this text as its cost.
static void reload_with(struct web *web, const char *services, const char *wanted) {
	static const char *const commands[] = {"config.diff", "config.reload"};

	lab_write_config(&web->lab, services);
	for (size_t i = 0; i < 2; i++) {
		json_t *result = lab_result(&web->lab, JSON({"command": "%s"}), commands[i]);
		json_t *change = json_array_get(json_object_get(result, "changes"), 0);
		const char *text =
			json_string_value(json_object_get(json_object_get(change, "cost"), "text"));

		assert_non_null(text);
		assert_string_equal(text, wanted);
		release(result);
	}
}

// Returns whether the audit has a record of this command for web/w-1 whose reason contains `why`.
static bool audit_has(struct web *web, const char *command, const char *why) {
	json_t *list = lab_result(&web->lab, JSON({"command": "audit.show"})), *row;
	bool found = false;
	size_t i;

	json_array_foreach (list, i, row) {
		const char *text = json_string_value(json_object_get(row, "why"));

		found |= strcmp(json_string_value(json_object_get(row, "command")), command) == 0 &&
			 text != NULL && strstr(text, why) != NULL &&
			 json_is_integer(json_object_get(row, "uid")) &&
			 strcmp(json_string_value(json_object_get(row, "object")), "web/w-1") == 0;
	}
	json_decref(list);
	return found;
}

// Adds to the counter of new flows of web/w-2.
static void add_new_flows(struct web *web, uint64_t flows) {
	json_t *holder = NULL;

	weir_segment_backend_counters(lab_dataplane_segment(web->dataplane), 0,
		(uint32_t)json_integer_value(
			json_object_get(lab_backend(&web->lab, &holder, "web", "w-2"), "id")))
		->new_flows += flows;
	json_decref(holder);
}

TEST(plan_shows_weights_and_replayed_flows) {
	struct web *web = *state;
	json_t *plan, *steps;
	double percent;

	add_new_flows(web, 4000);
	plan = lab_result(&web->lab,
		JSON({"command": "canary.plan", "service": "web", "backend": "w-1",
			"steps": [1, 5, 50]}));
	steps = json_object_get(plan, "steps");
	assert_int_equal(json_integer_value(json_object_get(plan, "others_weight")), 300);
	assert_int_equal(json_integer_value(json_object_get(plan, "flows")), 4000);
	assert_int_equal(json_array_size(steps), 3);
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(steps, 0), "weight")), 3);
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(steps, 2), "weight")), 300);
	percent = (double)json_integer_value(json_object_get(json_array_get(steps, 2), "flows")) /
		  4000;
	assert_true(fabs(percent - 0.5) < 0.05);
	json_decref(plan);
	assert_int_equal(weight_of(web, "w-1"), 100); // the weight has not changed
	assert_true(is_in(web, ""));
}

// The plan replays fewer flows than a busy service has, and shows the numbers of all flows.
TEST(plan_shows_all_new_flows_of_a_busy_service) {
	static const uint64_t added[] = {700000, 3000000000000};
	struct web *web = *state;
	json_int_t before = 0;

	for (size_t i = 0; i < 2; i++) {
		json_t *plan, *step;
		json_int_t flows;

		add_new_flows(web, added[i]);
		plan = lab_result(&web->lab, JSON({"command": "canary.plan", "service": "web", "backend": "w-1",
				"steps": [50]}));
		flows = json_integer_value(json_object_get(plan, "flows"));
		assert_true(flows >= before + (json_int_t)added[i]);
		assert_true(flows < before + (json_int_t)added[i] + 100000);
		step = json_array_get(json_object_get(plan, "steps"), 0);
		assert_true(fabs((double)json_integer_value(json_object_get(step, "flows")) /
					    (double)flows -
				    0.5) < 0.05);
		json_decref(plan);
		before = flows;
	}
}

// A hostile process could write any value to the counter.
TEST(plan_with_an_impossible_number_of_new_flows) {
	struct web *web = *state;
	json_t *plan;

	add_new_flows(web, UINT64_MAX / 2);
	plan = lab_result(
		&web->lab, JSON({"command": "canary.plan", "service": "web", "backend": "w-1"}));
	assert_true(json_integer_value(json_object_get(plan, "flows")) >= 0);
	json_decref(plan);
	add_new_flows(web, -(UINT64_MAX / 2));
}

static void refuse(struct web *web, const char *code, const char *text, const char *request) {
	json_t *answer = lab_ask(&web->lab, "%s", request);
	const char *error = json_string_value(json_object_get(answer, "error"));

	if (error == NULL ||
		strcmp(json_string_value(json_object_get(answer, "code")), code) != 0 ||
		strstr(error, text) == NULL) {
		fail_msg("%s: %s", request, error != NULL ? error : "accepted");
	}
	json_decref(answer);
}

TEST(invalid_canaries_are_refused_with_the_remedy) {
	struct web *web = *state;

	refuse(web, "bad-request", "must ascend",
		JSON({"command": "canary.start", "backend": "w-2", "steps": [5, 5]}));
	refuse(web, "bad-request", "1 to 16",
		JSON({"command": "canary.start", "service": "web", "backend": "w-1",
			"steps": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}));
	refuse(web, "bad-request", "array of numbers",
		JSON({"command": "canary.start", "service": "web", "backend": "w-1",
			"steps": "1,5"}));
	refuse(web, "bad-request", "max_error_ratio",
		JSON({"command": "canary.start", "service": "web", "backend": "w-1",
			"max_error_ratio": 0.5}));
	refuse(web, "not-found", "has no backend",
		JSON({"command": "canary.start", "service": "web", "backend": "w-9"}));
	refuse(web, "refused", "nothing to compare the canary with",
		JSON({"command": "canary.start", "service": "dns", "backend": "w-1"}));
	refuse(web, "refused", "use larger weights",
		JSON({"command": "canary.start", "service": "web", "backend": "w-1",
			"steps": [0.1, 5]}));
	refuse(web, "not-found", "no running canary",
		JSON({"command": "canary.stop", "service": "web"}));
	refuse(web, "not-found", "service \"web\" has no canary",
		JSON({"command": "canary.show", "service": "web"}));
	refuse(web, "not-found", "no such service: \"wbe\"",
		JSON({"command": "canary.stop", "service": "wbe"}));
	refuse(web, "not-found", "no such service: \"wbe\"",
		JSON({"command": "canary.show", "service": "wbe"}));
	refuse(web, "bad-request", "promote",
		JSON({"command": "canary.stop", "service": "web", "outcome": "end"}));
	release(lab_result(&web->lab,
		JSON({"command": "service.set", "service": "web", "policy": "least-loaded"})));
	refuse(web, "refused", "maglev or weighted-round-robin",
		JSON({"command": "canary.start", "service": "web", "backend": "w-1"}));
	release(lab_result(
		&web->lab, JSON({"command": "service.set", "service": "web", "policy": null})));
	release(lab_result(
		&web->lab, JSON({"command": "backend.drain", "service": "web", "backend": "w-1"})));
	refuse(web, "refused", "weirctl backend ready web/w-1",
		JSON({"command": "canary.start", "service": "web", "backend": "w-1"}));
	release(lab_result(
		&web->lab, JSON({"command": "backend.ready", "service": "web", "backend": "w-1"})));
	assert_true(is_in(web, ""));
}

TEST(running_canary_owns_its_weight_until_it_is_stopped) {
	struct web *web = *state;

	release(lab_result(&web->lab, START_LONG));
	assert_int_equal(weight_of(web, "w-1"), 3);
	LAB_UNTIL(is_set_by(web, "w-1", "running"));
	assert_true(is_set_by(web, "w-2", NULL));
	refuse(web, "refused", "weirctl canary stop web",
		JSON({"command": "weight.set", "service": "web", "backend": "w-1", "weight": 9}));
	refuse(web, "refused", "weirctl canary stop web",
		JSON({"command": "service.set", "service": "web", "policy": "random"}));
	refuse(web, "refused", "weirctl canary stop web",
		JSON({"command": "canary.start", "service": "web", "backend": "w-2"}));
	// When the weight of another backend changes, the weight of the canary is adapted, so that
	// the share of the canary stays the same.
	release(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "web", "backend": "w-2", "weight": 900})));
	LAB_UNTIL(weight_of(web, "w-1") == 9);
	release(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "web", "backend": "w-2", "weight": null})));
	LAB_UNTIL(weight_of(web, "w-1") == 3);
	// A configured weight takes effect only when the canary has ended.
	reload_with(web, WEB_WITH("200", "maglev") ", " DNS_SERVICE,
		"the running canary keeps weight 3 until it ends");
	assert_int_equal(weight_of(web, "w-1"), 3);
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
	release(lab_result(&web->lab, JSON({"command": "canary.stop", "service": "web"})));
	assert_true(is_in(web, "stopped"));
	assert_int_equal(weight_of(web, "w-1"), 3);
	assert_true(is_set_by(web, "w-1", NULL));
	release(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "web", "backend": "w-1", "weight": null})));
	assert_int_equal(weight_of(web, "w-1"), 100);
	assert_true(is_in(web, ""));
}

TEST(failing_canary_is_rolled_back_and_stays_so) {
	struct web *web = *state;

	release(lab_result(&web->lab, JSON({"command": "canary.start", "service": "web", "backend": "w-1",
			"steps": [5, 50], "every_ms": 600000})));
	report_until_ended(web, 200, 10);
	assert_true(is_in(web, "rolled-back"));
	assert_true(has_figures(web, "report"));
	assert_int_equal(weight_of(web, "w-1"), 0);
	assert_true(is_set_by(web, "w-1", "rolled-back"));
	assert_true(audit_has(web, "canary.rollback", "errors: 50.00 %"));
	assert_true(lab_log_has(&web->lab, "canary web/w-1: rolled back: errors: 50.00 %"));
	reload_with(web, WEB_WITH("200", "maglev") ", " DNS_SERVICE,
		"the rolled-back canary keeps weight 0; to end this, run \"weirctl weight set "
		"web/w-1 configured\"");
	assert_int_equal(weight_of(web, "w-1"), 0);
	lab_kill(&web->lab);
	lab_start(&web->lab);
	LAB_UNTIL(lab_attached(&web->lab));
	assert_int_equal(weight_of(web, "w-1"), 0);
	assert_true(is_in(web, "rolled-back"));
	assert_true(!has_figures(web, "report")); // values of the killed process are not used
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
	release(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "web", "backend": "w-1", "weight": null})));
	assert_int_equal(weight_of(web, "w-1"), 100);
}

TEST(rolled_back_backend_stays_so_while_another_is_the_canary) {
	struct web *web = *state;

	reload(web, WEB_WITH_W3("100"));
	release(lab_result(&web->lab, START_LONG));
	release(lab_result(
		&web->lab, JSON({"command": "canary.stop", "service": "web", "outcome": "rollback"})));
	release(lab_result(
		&web->lab, JSON({"command": "canary.start", "service": "web", "backend": "w-3"})));
	assert_true(is_set_by(web, "w-1", "rolled-back"));
	assert_true(is_set_by(web, "w-3", "running"));
	lab_kill(&web->lab);
	lab_start(&web->lab);
	LAB_UNTIL(lab_attached(&web->lab));
	reload(web, WEB_WITH_W3("200"));
	assert_int_equal(weight_of(web, "w-1"), 0);
	assert_int_equal(weight_of(web, "w-3"), 3);
	release(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "web", "backend": "w-1", "weight": null})));
	assert_int_equal(weight_of(web, "w-1"), 200);
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
	assert_true(is_in(web, ""));
}

TEST(slow_canary_is_rolled_back) {
	struct web *web = *state;

	release(lab_result(&web->lab, JSON({"command": "canary.start", "service": "web", "backend": "w-1",
			"steps": [50], "every_ms": 1000})));
	report_until_ended(web, 4, 14);
	assert_true(is_in(web, "rolled-back"));
	assert_true(audit_has(web, "canary.rollback", "latency: 14.00 ms"));
}

// weir-control is killed in every step of the canary, and a new process continues the canary.
TEST(good_canary_is_promoted_across_restarts) {
	struct web *web = *state;
	json_t *result =
		lab_result(&web->lab, JSON({"command": "canary.start", "service": "web", "backend": "w-1",
			"steps": [1, 5, 50], "every_ms": 1000}));

	json_decref(result);
	for (int step = 1; step <= 3; step++) {
		LAB_UNTIL((report(web, "w-1", 4, 10), report(web, "w-2", 4, 10),
			step_of(web) == step));
		lab_kill(&web->lab);
		lab_start(&web->lab);
		LAB_UNTIL(lab_attached(&web->lab));
		assert_true(step_of(web) == step);
		assert_int_equal(weight_of(web, "w-1"), step == 1 ? 3 : step == 2 ? 16 : 300);
	}
	report_until_ended(web, 4, 10);
	assert_true(is_in(web, "promoted"));
	assert_int_equal(weight_of(web, "w-1"), 100);
	assert_true(audit_has(web, "canary.promote", "errors: 1.00 %"));
}

TEST(few_requests_prolong_a_step) {
	struct web *web = *state;
	json_t *list;

	release(lab_result(&web->lab, JSON({"command": "canary.start", "service": "web", "backend": "w-1",
			"steps": [1], "every_ms": 1000})));
	LAB_UNTIL(lab_log_has(&web->lab,
		"canary web/w-1: step 1 is prolonged: 0 of 50 required new flows so far (canary)"));
	assert_true(has_figures(web, "passive"));
	list = lab_result(&web->lab, JSON({"command": "canary.show"}));
	assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "why")),
		"0 of 50 required new flows so far (canary)");
	release(list);
	// The policy maglev does not use reports, but the canary uses two of the reported fields.
	list = lab_result(&web->lab,
		JSON({"command": "backend.report", "service": "web", "backend": "w-1",
			"requests_per_second": 10, "errors_per_second": 1, "utilization": 0.5}));
	assert_int_equal(json_array_size(json_object_get(list, "used")), 2);
	assert_int_equal(json_array_size(json_object_get(list, "not_used")), 1);
	release(list);
	assert_int_equal(step_of(web), 1);
	release(lab_result(
		&web->lab, JSON({"command": "canary.stop", "service": "web", "outcome": "promote"})));
	assert_int_equal(weight_of(web, "w-1"), 100);
	assert_true(is_in(web, "promoted"));
}

TEST(drained_canary_is_paused) {
	struct web *web = *state;

	release(lab_result(&web->lab, START_LONG));
	release(lab_result(
		&web->lab, JSON({"command": "backend.drain", "service": "web", "backend": "w-1"})));
	LAB_UNTIL(is_in(web, "paused"));
	release(lab_result(
		&web->lab, JSON({"command": "backend.ready", "service": "web", "backend": "w-1"})));
	LAB_UNTIL(is_in(web, "running"));
	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(is_in(web, "paused"));
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	assert_int_equal(weight_of(web, "w-1"), 3);
	LAB_UNTIL(is_in(web, "running"));
	release(lab_result(
		&web->lab, JSON({"command": "canary.stop", "service": "web", "outcome": "rollback"})));
	assert_int_equal(weight_of(web, "w-1"), 0);
	release(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "web", "backend": "w-1", "weight": null})));
}

// Returns the time until the end of the step; 0 = it has not begun.
static json_int_t left_ms(struct web *web) {
	json_t *list = lab_result(&web->lab, JSON({"command": "canary.show", "service": "web"}));
	json_int_t left = json_integer_value(json_object_get(json_array_get(list, 0), "left_ms"));

	json_decref(list);
	return left;
}

// A reload gives the backend another address: the step begins again with the new server.
TEST(step_begins_again_with_another_address) {
	struct web *web = *state;

	release(lab_result(&web->lab, START_LONG));
	LAB_UNTIL(left_ms(web) > 0 && left_ms(web) < 597000);
	reload(web, WEB_W1_AT("10.0.1.14"));
	assert_true(left_ms(web) == 0 || left_ms(web) > 598000);
	assert_true(is_in(web, "running"));
	release(lab_result(
		&web->lab, JSON({"command": "canary.stop", "service": "web", "outcome": "promote"})));
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
}

TEST(reload_ends_a_canary_that_it_removes) {
	struct web *web = *state;

	release(lab_result(&web->lab, START_LONG));
	reload(web, WEB_WITHOUT_W1 ", " DNS_SERVICE);
	assert_true(is_in(web, ""));
	assert_true(audit_has(web, "canary.end", "no longer configured"));
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
	assert_int_equal(weight_of(web, "w-1"), 100);
}

TEST(reload_with_a_policy_without_weights_rolls_back) {
	struct web *web = *state;

	release(lab_result(&web->lab, START_LONG));
	reload(web, WEB_WITH("100", "least-loaded") ", " DNS_SERVICE);
	assert_true(is_in(web, "rolled-back"));
	assert_int_equal(weight_of(web, "w-1"), 0);
	assert_true(audit_has(web, "canary.rollback", "policy least-loaded"));
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
	release(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "web", "backend": "w-1", "weight": null})));
}

// If the configured weight of the backend is 0, the backend keeps the weight of the last step
// after the canary has ended.
TEST(canary_without_a_configured_weight) {
	struct web *web = *state;

	reload(web, WEB_WITH("0", "maglev") ", " DNS_SERVICE);
	release(lab_result(&web->lab, JSON({"command": "canary.start", "service": "web", "backend": "w-1",
			"steps": [50], "every_ms": 1000})));
	report_until_ended(web, 4, 10);
	assert_true(is_in(web, "promoted"));
	assert_int_equal(weight_of(web, "w-1"), 300);
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
}

TEST(file_that_cannot_be_written_refuses_a_start) {
	struct web *web = *state;
	char path[128];

	snprintf(path, sizeof(path), "%s/control/canaries.json.new", web->lab.run_dir);
	assert_int_equal(mkdir(path, 0700), 0);
	refuse(web, "refused", "the canary was not started, because it cannot be saved in",
		START_LONG);
	assert_int_equal(weight_of(web, "w-1"), 100);
	assert_int_equal(rmdir(path), 0);
	release(lab_result(&web->lab, START_LONG));
	release(lab_result(
		&web->lab, JSON({"command": "canary.stop", "service": "web", "outcome": "promote"})));
}
