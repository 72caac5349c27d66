// SPDX-License-Identifier: BSD-3-Clause
//
// Tests backend.drain, backend.ready, backend.maintenance and weight.set.
#include "daemon_web.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tables.h"

static uint16_t id_of(struct web *web, const char *backend) {
	json_t *holder = NULL;
	uint16_t id = (uint16_t)json_integer_value(
		json_object_get(lab_backend(&web->lab, &holder, "web", backend), "id"));

	json_decref(holder);
	return id;
}

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

TEST(drain_has_reached_the_workers_before_its_answer) {
	struct web *web = *state;
	uint16_t id = id_of(web, "w-2");
	uint32_t before;

	lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 500);
	before = lab_dataplane_flows_of(web->dataplane, id);
	assert_true(before > 0);
	for (int i = 0; i < 20; i++) {
		json_t *result = lab_result(&web->lab,
			JSON({"command": "backend.drain", "service": "web", "backend": "w-2"}));

		assert_string_equal(json_string_value(json_object_get(result, "admin")), "drain");
		assert_true(json_integer_value(json_object_get(result, "active_flows")) >= before);
		json_decref(result);
		lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 100);
		assert_int_equal(lab_dataplane_flows_of(web->dataplane, id), 0);
		json_decref(
			lab_result(&web->lab, JSON({"command": "backend.ready", "backend": "w-2"})));
		lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 100);
		assert_true(lab_dataplane_flows_of(web->dataplane, id) > 0);
	}
}

static const char *drain_state(struct web *web, json_t **holder) {
	const json_t *drain =
		json_object_get(lab_backend(&web->lab, holder, "web", "w-2"), "drain");

	return json_is_null(drain) ? "-" : json_string_value(json_object_get(drain, "state"));
}

// The drain ends at its deadline, even if control was restarted in the meantime.
TEST(drain_ends_at_its_deadline_also_after_a_restart) {
	struct web *web = *state;
	uint64_t *open = &weir_segment_backend_counters(
		lab_dataplane_segment(web->dataplane), 0, id_of(web, "w-2"))
				  ->open_flows;
	json_t *holder = NULL, *result;

	__atomic_store_n(open, *open + 3, __ATOMIC_RELAXED);
	result = lab_result(
		&web->lab, JSON({"command": "backend.drain", "backend": "w-2",
			"interval_ms": 1500}));
	assert_true(json_integer_value(
			    json_object_get(json_object_get(result, "drain"), "left_ms")) > 1000);
	assert_int_equal(json_integer_value(json_object_get(result, "open_flows")), 3);
	json_decref(result);
	assert_string_equal(drain_state(web, &holder), "draining");
	lab_kill(&web->lab);
	lab_start(&web->lab);
	LAB_UNTIL(lab_attached(&web->lab));
	LAB_UNTIL(strcmp(drain_state(web, &holder), "kept") == 0);
	assert_true(lab_log_has(
		&web->lab, "backend web/w-2: drain deadline reached: 3 open flows kept"));
	result = lab_result(&web->lab, JSON({"command": "backend.drain", "backend": "w-2"}));
	json_decref(result);
	assert_string_equal(drain_state(web, &holder), "draining");
	__atomic_store_n(open, *open - 3, __ATOMIC_RELAXED);
	LAB_UNTIL(strcmp(drain_state(web, &holder), "drained") == 0);
	json_decref(lab_result(&web->lab, JSON({"command": "backend.ready", "backend": "w-2"})));
	assert_string_equal(drain_state(web, &holder), "-");
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "backend.drain", "backend": "w-2", "interval_ms": 1e12})),
		"bad-request");
	json_decref(holder);
}

// Returns whether a row of backend w-2 of service web is removed and has a drain.
static bool drains_former(struct web *web) {
	json_t *rows = lab_result(&web->lab,
		       JSON({"command": "backend.show", "service": "web", "backend": "w-2"})), *row;
	uint32_t former = 0, drains = 0;
	size_t i;

	json_array_foreach (rows, i, row) {
		if (json_is_true(json_object_get(row, "leaving"))) {
			former++;
			drains += json_is_object(json_object_get(row, "drain"));
		}
	}
	json_decref(rows);
	assert_int_equal(former, 1);
	return drains > 0;
}

#define WEB_MOVED \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 1009, \"backends\": [{\"name\": \"w-1\", \"address\": " \
	"\"10.0.1.11\", \"weight\": 100}, {\"name\": \"w-2\", \"address\": \"10.0.1.22\", " \
	"\"weight\": 300}]}"

// A drain also drains the former address of the backend, and "ready" ends both drains.
TEST(ready_also_ends_the_drain_of_a_former_address) {
	struct web *web = *state;
	struct weir_share_counters *flows = weir_segment_backend_counters(
		lab_dataplane_segment(web->dataplane), 0, id_of(web, "w-2"));

	__atomic_store_n(&flows->open_flows, flows->open_flows + 3, __ATOMIC_RELAXED);
	__atomic_store_n(&flows->active_flows, flows->active_flows + 3, __ATOMIC_RELAXED);
	lab_write_config(&web->lab, WEB_MOVED ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	json_decref(lab_result(
		&web->lab, JSON({"command": "backend.drain", "service": "web", "backend": "w-2"})));
	assert_true(drains_former(web));
	json_decref(lab_result(
		&web->lab, JSON({"command": "backend.ready", "service": "web", "backend": "w-2"})));
	assert_false(drains_former(web));
	__atomic_store_n(&flows->open_flows, flows->open_flows - 3, __ATOMIC_RELAXED);
	__atomic_store_n(&flows->active_flows, flows->active_flows - 3, __ATOMIC_RELAXED);
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
}

TEST(maintenance_takes_no_new_flows) {
	struct web *web = *state;
	uint16_t id = id_of(web, "w-2");

	json_decref(lab_result(&web->lab, JSON({"command": "backend.maintenance", "backend": "w-2"})));
	lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 100);
	assert_int_equal(lab_dataplane_flows_of(web->dataplane, id), 0);
	json_decref(lab_result(&web->lab, JSON({"command": "backend.ready", "backend": "w-2"})));
}

// Check the only warning in the answer to a request; NULL = no warning.
static void assert_warning(struct web *web, const char *request, const char *warning) {
	json_t *result = lab_result(&web->lab, "%s", request);
	const json_t *warnings = json_object_get(result, "warnings");

	assert_int_equal(json_array_size(warnings), warning != NULL ? 1 : 0);
	if (warning != NULL) {
		assert_string_equal(json_string_value(json_array_get(warnings, 0)), warning);
	}
	json_decref(result);
}

TEST(last_ready_backend_out_of_use_is_a_warning) {
	struct web *web = *state;
	const char *first = JSON({"command": "backend.drain", "service": "web", "backend": "w-1"});

	assert_warning(web, first, NULL);
	assert_warning(web,
		JSON({"command": "backend.drain", "backend": "w-2"}),
			"no backend of service web is ready: new flows still go to w-1 and 1 more");
	assert_warning(
		web, JSON({"command": "weight.set", "backend": "w-2", "weight": 0}),
			     "no backend of service web is ready: new flows still go to w-1");
	assert_warning(web, JSON({"command": "weight.set", "backend": "w-2", "weight": null}), NULL);
	assert_warning(web, JSON({"command": "backend.ready", "backend": "w-2"}), NULL);
	assert_warning(web, first, NULL);
	assert_warning(
		web, JSON({"command": "backend.maintenance", "service": "web", "backend": "w-1"}), NULL);
	assert_warning(web, JSON({"command": "backend.maintenance", "backend": "w-2"}),
				    "service web has no backend for new flows");
	assert_warning(
		web, JSON({"command": "backend.ready", "service": "web", "backend": "w-1"}), NULL);
	assert_warning(web, JSON({"command": "backend.ready", "backend": "w-2"}), NULL);
}

TEST(weight_set_changes_the_share_and_null_restores_it) {
	struct web *web = *state;
	json_t *holder = NULL, *one, *result;

	result = lab_result(&web->lab, JSON({"command": "weight.set", "backend": "w-2", "weight": 100}));
	assert_int_equal(json_integer_value(json_object_get(result, "weight")), 100);
	assert_int_equal(json_integer_value(json_object_get(result, "effective_weight")), 100);
	json_decref(result);
	one = lab_backend(&web->lab, &holder, "web", "w-2");
	assert_true(json_real_value(json_object_get(one, "share_percent")) > 49.5);
	assert_true(json_real_value(json_object_get(one, "share_percent")) < 50.5);
	result =
		lab_result(&web->lab, JSON({"command": "weight.set", "backend": "w-2", "weight": null}));
	assert_true(json_is_null(json_object_get(result, "weight")));
	assert_int_equal(json_integer_value(json_object_get(result, "effective_weight")), 300);
	json_decref(result);
	one = lab_backend(&web->lab, &holder, "web", "w-2");
	assert_true(json_real_value(json_object_get(one, "share_percent")) > 74.5);
	assert_true(json_is_null(json_object_get(one, "runtime_weight")));
	json_decref(holder);
}

TEST(names_that_do_not_match_give_different_errors) {
	struct web *web = *state;
	json_t *answer = lab_ask(&web->lab, JSON({"command": "backend.drain", "backend": "w-1"}));

	assert_string_equal(json_string_value(json_object_get(answer, "code")), "ambiguous");
	assert_non_null(strstr(json_string_value(json_object_get(answer, "error")), "(web, dns)"));
	json_decref(answer);
	answer = lab_ask(
		&web->lab, JSON({"command": "backend.drain", "service": "web", "backend": "w-9"}));
	assert_string_equal(json_string_value(json_object_get(answer, "error")),
		"service \"web\" has no backend \"w-9\"");
	json_decref(answer);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "backend.drain", "backend": "w-9"})),
		"not-found");
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "weight.set", "service": "x", "backend": "w-1", "weight": 1})),
		"not-found");
}

// Guarantee S6, for control: a burst of 400 changes is published completely.
TEST(many_changes_at_once_are_all_published) {
	struct web *web = *state;
	int fd = lab_connect(&web->lab);
	json_t *holder = NULL, *one;
	char line[128];

	for (int i = 1; i <= 400; i++) {
		int n = snprintf(line, sizeof(line),
			"{\"command\": \"weight.set\", \"backend\": \"w-2\", \"weight\": %d}\n", i);
		json_t *answer;

		lab_send(fd, line, (size_t)n);
		answer = lab_read_answer(fd);
		assert_true(json_is_true(json_object_get(answer, "ok")));
		json_decref(answer);
	}
	close(fd);
	one = lab_backend(&web->lab, &holder, "web", "w-2");
	assert_int_equal(json_integer_value(json_object_get(one, "effective_weight")), 400);
	assert_true(json_real_value(json_object_get(one, "share_percent")) > 79.5);
	json_decref(holder);
	json_decref(lab_result(
		&web->lab, JSON({"command": "weight.set", "backend": "w-2", "weight": null})));
}

// Returns whether w-2 is draining and its drain waits for `what`.
static bool waits_for(struct web *web, const char *what, bool recounted) {
	json_t *holder = NULL;
	const json_t *drain =
		json_object_get(lab_backend(&web->lab, &holder, "web", "w-2"), "drain");
	const json_t *recount = json_object_get(drain, "recount_ms");
	const char *waits = json_string_value(json_object_get(drain, "waits_for"));
	json_int_t ms = json_integer_value(recount);
	bool is = waits != NULL && strcmp(waits, what) == 0 &&
		  (recounted ? ms > 0 && ms <= WEIR_TABLES_RECOUNT_MS : json_is_null(recount));

	json_decref(holder);
	return is;
}

// After its start, a dataplane has not counted the flows yet. The drain must not end because the
// count is 0. This test is the last one: the recount lasts for a minute.
TEST(drain_waits_for_the_dataplane_and_its_recount) {
	struct web *web = *state;
	uint64_t *open = &weir_segment_backend_counters(
		lab_dataplane_segment(web->dataplane), 0, id_of(web, "w-2"))
				  ->open_flows;

	json_t *holder = NULL, *result;
	const json_t *drain;

	__atomic_store_n(open, *open + 1, __ATOMIC_RELAXED);
	json_decref(lab_result(&web->lab, JSON({"command": "backend.drain", "backend": "w-2"})));
	assert_true(waits_for(web, "flows", false));
	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(waits_for(web, "dataplane", false));
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
	assert_true(waits_for(web, "recount", true));
	assert_warning(web,
		JSON({"command": "backend.drain", "backend": "w-2", "interval_ms": 1}),
			"weir-dataplane was restarted less than a minute ago: connections to "
			"web/w-2 "
			"that have sent no packet since then move to other backends, which reset "
			"them, unless it gets new flows again before their next packet");
	LAB_UNTIL(strcmp(drain_state(web, &holder), "kept") == 0);
	drain = json_object_get(lab_backend(&web->lab, &holder, "web", "w-2"), "drain");
	assert_true(json_is_null(json_object_get(drain, "kept_flows")));
	json_decref(holder);
	result = lab_result(&web->lab, JSON({"command": "config.waiting"}));
	assert_true(json_integer_value(
			    json_object_get(json_object_get(result, "restart"), "recount_ms")) > 0);
	json_decref(result);
	json_decref(lab_result(&web->lab, JSON({"command": "backend.ready", "backend": "w-2"})));
}
