// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the state of a backend: backend.show after a report, service.waste, and commands for a
// removed backend.
#include "daemon_web.h"

#include <stdio.h>

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

TEST(nothing_is_shown_without_reports) {
	struct web *web = *state;
	json_t *holder = NULL, *result;
	json_t *row = lab_backend(&web->lab, &holder, "web", "w-1");

	assert_true(json_is_null(json_object_get(row, "report")));
	assert_true(json_is_null(json_object_get(row, "reported_weight")));
	assert_true(json_is_null(json_object_get(row, "own_weight")));
	assert_true(json_is_null(json_object_get(row, "auto_weight")));
	assert_true(json_is_false(json_object_get(row, "accept_queue_full")));
	assert_true(json_is_false(json_object_get(row, "at_limit")));
	assert_true(json_is_null(json_object_get(row, "max_active_flows")));
	assert_true(json_is_null(json_object_get(row, "counted_flows")));
	assert_string_equal(json_string_value(json_object_get(row, "verdict")), "unchecked");
	assert_string_equal(json_string_value(json_object_get(row, "word")), "nothing");
	assert_true(json_is_integer(json_object_get(row, "since_ms")));
	json_decref(holder);
	result = lab_result(&web->lab, JSON({"command": "service.waste", "service": "web"}));
	assert_int_equal(json_integer_value(json_object_get(result, "count")), 2);
	assert_int_equal(json_integer_value(json_object_get(result, "reporting")), 0);
	assert_true(json_is_null(json_object_get(result, "wasted")));
	assert_int_equal(json_array_size(json_object_get(result, "backends")), 2);
	// the service has no agents to wait for
	assert_true(json_is_null(json_object_get(result, "again_ms")));
	json_decref(result);
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "service.waste", "service": "x"})), "not-found");
}

// Returns the age in ms of the administrative state of w-1, or -1 if it is null.
static json_int_t admin_since_ms(struct web *web) {
	json_t *holder = NULL;
	json_t *age =
		json_object_get(lab_backend(&web->lab, &holder, "web", "w-1"), "admin_since_ms");
	json_int_t ms = json_is_integer(age) ? json_integer_value(age) : -1;

	assert_non_null(age);
	json_decref(holder);
	return ms;
}

TEST(age_of_the_administrative_state) {
	struct web *web = *state;
	json_int_t ms;

	assert_int_equal(admin_since_ms(web), -1);
	json_decref(lab_result(&web->lab,
		JSON({"command": "backend.maintenance", "service": "web", "backend": "w-1"})));
	ms = admin_since_ms(web);
	assert_true(ms >= 0 && ms < 60000);
	LAB_UNTIL(admin_since_ms(web) > ms + 100);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	assert_true(admin_since_ms(web) > ms + 100);
	json_decref(lab_result(
		&web->lab, JSON({"command": "backend.ready", "service": "web", "backend": "w-1"})));
}

static void expect_failure(
	struct web *web, const char *request, const char *code, const char *error) {
	json_t *answer = lab_ask(&web->lab, "%s", request);
	const char *got = json_string_value(json_object_get(answer, "code"));

	assert_string_equal(got != NULL ? got : "ok", code);
	assert_string_equal(json_string_value(json_object_get(answer, "error")), error);
	json_decref(answer);
}

// A page of a list of flows, or an answer about deleted flows.
static void expect_no_flows(struct web *web, const char *request) {
	json_t *result = lab_result(&web->lab, "%s", request);

	assert_true(json_is_false(json_object_get(result, "incomplete")));
	assert_int_equal(json_array_size(json_object_get(result, "flows")), 0);
	json_decref(result);
}

#define WEB_W1 \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 1009, \"backends\": [{\"name\": \"w-1\", \"address\": " \
	"\"10.0.1.11\", \"weight\": 100}]}"
// Both backends; w-2 has another address than in WEB_SERVICES.
#define WEB_MOVED \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 1009, \"backends\": [{\"name\": \"w-1\", \"address\": " \
	"\"10.0.1.11\", \"weight\": 100}, {\"name\": \"w-2\", \"address\": \"10.0.1.22\", " \
	"\"weight\": 300}]}"
#define REMOVED \
	"backend \"w-2\" of service \"web\" was removed from the configuration, and still has "

static void reload(struct web *web, const char *services) {
	lab_write_config(&web->lab, services);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
}

static uint64_t *active_flows_of(struct web *web, const char *backend) {
	json_t *holder = NULL;
	json_t *id = json_object_get(lab_backend(&web->lab, &holder, "web", backend), "id");
	uint64_t *flows = &weir_segment_backend_counters(
		lab_dataplane_segment(web->dataplane), 0, (uint16_t)json_integer_value(id))
				   ->active_flows;

	json_decref(holder);
	return flows;
}

// The flows of a removed backend can be listed and deleted, but nothing about it can be changed.
TEST(removed_backend_has_flows_but_takes_no_changes) {
	static const char *const refused[] = {
		JSON({"command": "backend.drain", "service": "web", "backend": "w-2"}),
			JSON({"command": "backend.ready", "backend": "w-2"}),
				JSON({"command": "backend.maintenance", "service": "web", "backend": "w-2"}),
					JSON({"command": "weight.set", "service": "web", "backend": "w-2", "weight": 1}),
				};
	struct web *web = *state;
	uint64_t *flows[2];

	flows[0] = active_flows_of(web, "w-2");
	__atomic_store_n(flows[0], 3, __ATOMIC_RELAXED);
	reload(web, WEB_W1 ", " DNS_SERVICE);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		expect_failure(web, refused[i], "not-found", REMOVED "3 active flows");
	}
	expect_no_flows(web, JSON({"command": "flow.list", "service": "web", "backend": "w-2"}));
	expect_no_flows(web, JSON({"command": "flow.list", "backend": "w-2"}));
	expect_no_flows(web, JSON({"command": "flow.clear", "service": "web", "backend": "w-2"}));
	// two removed backends of this name, both with flows
	reload(web, WEB_MOVED ", " DNS_SERVICE);
	flows[1] = active_flows_of(web, "w-2");
	__atomic_store_n(flows[1], 4, __ATOMIC_RELAXED);
	reload(web, WEB_W1 ", " DNS_SERVICE);
	expect_failure(web, refused[0], "not-found", REMOVED "7 active flows");
	expect_failure(web, JSON({"command": "flow.list", "service": "web", "backend": "w-2"}),
				    "ambiguous", "2 removed backends have the name \"w-2\"");
	__atomic_store_n(flows[0], 0, __ATOMIC_RELAXED);
	__atomic_store_n(flows[1], 0, __ATOMIC_RELAXED);
	reload(web, WEB_SERVICES ", " DNS_SERVICE);
}

static void report(struct web *web, const char *backend, double utilization) {
	json_decref(lab_result(
		&web->lab, JSON({"command": "backend.report", "service": "web", "backend": "%s",
			"requests_per_second": 100, "utilization": %g}),
				   backend, utilization));
}

TEST(last_report_is_shown_and_its_waste_computed) {
	struct web *web = *state;
	json_t *holder = NULL, *result, *row, *last;

	// A policy that uses reports.
	lab_write_config(&web->lab,
		JSON({"name": "web", "binds": [{"address": "198.51.100.10", "protocol": "tcp",
			"port": 80}], "policy": {"name": "weighted-round-robin",
			"weights": "reported"}, "backends": [{"name": "w-1",
			"address": "10.0.1.11"}, {"name": "w-2", "address": "10.0.1.12"},
			{"name": "w-3", "address": "10.0.1.13"}]}));
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	report(web, "w-1", 0.5);
	report(web, "w-1", 0.75);
	report(web, "w-2", 0.25);
	row = lab_backend(&web->lab, &holder, "web", "w-1");
	last = json_object_get(row, "report");
	assert_string_equal(json_string_value(json_object_get(last, "source")), "api");
	assert_float_equal(json_number_value(json_object_get(last, "utilization")), 0.75, 1e-9);
	assert_true(json_integer_value(json_object_get(last, "age_ms")) < 10000);
	assert_null(json_object_get(last, "cpus"));
	json_decref(holder);
	result = lab_result(&web->lab, JSON({"command": "service.waste", "service": "web"}));
	assert_int_equal(json_integer_value(json_object_get(result, "count")), 3);
	assert_int_equal(json_integer_value(json_object_get(result, "reporting")), 2);
	assert_float_equal(json_number_value(json_object_get(result, "most")), 0.75, 1e-9);
	assert_float_equal(json_number_value(json_object_get(result, "mean")), 0.5, 1e-9);
	assert_float_equal(json_number_value(json_object_get(result, "wasted")), 0.5, 1e-9);
	json_decref(result);
}

static json_int_t number(struct web *web, const char *key) {
	json_t *holder = NULL;
	json_int_t value = json_integer_value(
		json_object_get(lab_backend(&web->lab, &holder, "web", "w-1"), key));

	json_decref(holder);
	return value;
}

TEST(automatic_weight_is_shown_with_its_value) {
	struct web *web = *state;
	json_t *used, *result;

	lab_write_config(&web->lab,
		JSON({"name": "web", "binds": [{"address": "198.51.100.10", "protocol": "tcp",
			"port": 80}], "agent": {}, "backends": [{"name": "w-1",
			"address": "10.0.1.11", "weight": "auto"}]}));
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	assert_int_equal(number(web, "auto_weight"), 0);
	assert_int_equal(number(web, "weight"), 100);
	result = lab_result(&web->lab, JSON({"command": "service.waste", "service": "web"}));
	assert_in_range(json_integer_value(json_object_get(result, "again_ms")), 1, 1600);
	json_decref(result);
	used = lab_result(&web->lab, JSON({"command": "backend.report", "service": "web",
		"backend": "w-1", "cpus": 8, "cpu_mhz": 3000}));
	assert_int_equal(json_array_size(json_object_get(used, "used")), 2);
	json_decref(used);
	assert_int_equal(number(web, "auto_weight"), 240);
	assert_int_equal(number(web, "weight"), 240);
	assert_int_equal(number(web, "effective_weight"), 240);
}
