// SPDX-License-Identifier: BSD-3-Clause
//
// Tests host.show, host.drain, host.maintenance and host.ready, which apply to all backends with
// the same address, in all services.
#include "daemon_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST "10.0.1.11"
#define SERVICES 100

struct own {
	struct lab lab;
	struct lab_dataplane *dataplane;
};

#define SERVICE(name, last, then, backends) \
	"{\"name\": \"" name "\", \"binds\": [{\"address\": \"198.51.100." last "\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, \"drain\": " \
	"{\"at_deadline\": \"" then "\"}, \"backends\": [" backends "]}"
#define BACKEND(name, address) "{\"name\": \"" name "\", \"address\": \"" address "\"}"

static const char few[] = SERVICE("web", "1", "keep",
	BACKEND("w-1", HOST) ", " BACKEND("w-2", "10.0.1.12")) ", " SERVICE("mail", "2", "keep",
	BACKEND("m-1", HOST) ", " BACKEND("m-2", "10.0.1.12")) ", " SERVICE("alone", "3", "drop",
	BACKEND("a-1", HOST));

static int start(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	lab_init(&own->lab);
	lab_write_config(&own->lab, few);
	lab_start(&own->lab);
	own->dataplane = lab_dataplane_start_big(&own->lab, 2);
	LAB_UNTIL(lab_attached(&own->lab));
	*state = own;
	return 0;
}

static int stop(void **state) {
	struct own *own = *state;
	int status = lab_stop(&own->lab);

	lab_dataplane_stop(own->dataplane);
	lab_fini(&own->lab);
	free(own);
	return status;
}

static json_int_t number(const json_t *host, const char *key) {
	return json_integer_value(json_object_get(host, key));
}

static const char *drain_text(const json_t *host, const char *key) {
	const char *text = json_string_value(json_object_get(json_object_get(host, "drain"), key));

	return text != NULL ? text : "-";
}

static json_t *show(struct own *own) {
	return lab_result(&own->lab, JSON({"command": "host.show", "address": "10.0.1.11"}));
}

static bool drain_is(struct own *own, const char *state) {
	json_t *host = show(own);
	bool is = strcmp(drain_text(host, "state"), state) == 0;

	json_decref(host);
	return is;
}

static json_t *ready(struct own *own) {
	return lab_result(&own->lab, JSON({"command": "host.ready", "address": "10.0.1.11"}));
}

static uint16_t backend_id(struct own *own, const char *service, const char *backend) {
	json_t *holder = NULL;
	uint16_t id = (uint16_t)json_integer_value(
		json_object_get(lab_backend(&own->lab, &holder, service, backend), "id"));

	json_decref(holder);
	return id;
}

static uint64_t *open_flows(struct own *own, const char *service, const char *backend) {
	return &weir_segment_backend_counters(
		lab_dataplane_segment(own->dataplane), 0, backend_id(own, service, backend))
			->open_flows;
}

static bool admin_is(struct own *own, const char *service, const char *backend, const char *admin) {
	json_t *holder = NULL;
	const char *now = json_string_value(
		json_object_get(lab_backend(&own->lab, &holder, service, backend), "admin"));
	bool is = strcmp(now, admin) == 0;

	json_decref(holder);
	return is;
}

TEST_GROUP(lab_own_network);
TEST_GROUP(start, stop);

TEST(drain_takes_the_backends_of_all_services_out) {
	struct own *own = *state;
	uint64_t *open = open_flows(own, "mail", "m-1");
	json_t *host;

	*open += 2;
	host = lab_result(&own->lab,
		JSON({"command": "host.drain", "address": "10.0.1.11", "interval_ms": 600000}));
	assert_int_equal(number(host, "services"), 3);
	assert_int_equal(number(host, "backends"), 3);
	assert_int_equal(number(host, "draining"), 3);
	assert_int_equal(number(host, "open_flows"), 2);
	assert_string_equal(drain_text(host, "state"), "draining");
	// "-", because one service keeps its flows at the deadline, and another service drops
	// them
	assert_string_equal(drain_text(host, "at_deadline"), "-");
	// The service "alone" is in panic mode, so its only backend still gets new flows.
	assert_int_equal(json_array_size(json_object_get(host, "in_use")), 1);
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(host, "in_use"), 0)), "alone/a-1");
	assert_int_equal(json_array_size(json_object_get(host, "warnings")), 1);
	assert_string_equal(json_string_value(json_array_get(json_object_get(host, "warnings"), 0)),
		"no backend of service alone is ready: new flows still go to a-1");
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(host, "open"), 0)), "mail/m-1");
	json_decref(host);
	assert_true(admin_is(own, "web", "w-1", "drain") && admin_is(own, "mail", "m-1", "drain"));
	assert_true(admin_is(own, "web", "w-2", "ready") && admin_is(own, "mail", "m-2", "ready"));
	// The drain also continues after a restart, until the last flow has ended.
	lab_kill(&own->lab);
	lab_start(&own->lab);
	LAB_UNTIL(lab_attached(&own->lab));
	host = show(own);
	assert_string_equal(drain_text(host, "state"), "draining");
	assert_true(number(json_object_get(host, "drain"), "left_ms") > 500000);
	json_decref(host);
	*open -= 2;
	LAB_UNTIL(drain_is(own, "drained"));
	host = ready(own);
	assert_int_equal(number(host, "ready"), 3);
	assert_true(json_is_null(json_object_get(host, "drain")));
	json_decref(host);
}

TEST(drain_can_be_repeated_and_leaves_maintenance_alone) {
	struct own *own = *state;
	uint64_t *open = open_flows(own, "web", "w-1");
	json_t *host;

	*open += 1;
	json_decref(lab_result(&own->lab,
		JSON({"command": "backend.maintenance", "service": "mail", "backend": "m-1"})));
	for (int i = 0; i < 2; i++) { // first without a deadline, then with a deadline
		host = lab_result(&own->lab,
			i == 0 ? "{\"command\": \"host.drain\", \"address\": \"" HOST "\"}"
			       : "{\"command\": \"host.drain\", \"address\": \"" HOST "\", "
				 "\"interval_ms\": 200}");
		assert_int_equal(number(host, "maintenance"), 1);
		assert_int_equal(number(host, "draining") + number(host, "drained"), 2);
		json_decref(host);
	}
	LAB_UNTIL(drain_is(own, "kept"));
	assert_true(admin_is(own, "mail", "m-1", "maintenance"));
	json_decref(ready(own));
	assert_true(admin_is(own, "mail", "m-1", "maintenance"));
	assert_true(admin_is(own, "web", "w-1", "ready") && admin_is(own, "alone", "a-1", "ready"));
	json_decref(lab_result(
		&own->lab, JSON({"command": "backend.ready", "service": "mail", "backend": "m-1"})));
	*open -= 1;
}

TEST(maintenance_of_a_host_is_ended_as_a_whole) {
	struct own *own = *state;
	json_t *host =
		lab_result(&own->lab, JSON({"command": "host.maintenance", "address": "10.0.1.11"}));

	assert_int_equal(number(host, "maintenance"), 3);
	assert_int_equal(number(host, "ready"), 0);
	// a service without another backend has none for new flows
	assert_int_equal(json_array_size(json_object_get(host, "warnings")), 1);
	assert_int_equal(json_array_size(json_object_get(host, "in_use")), 0);
	json_decref(host);
	assert_true(admin_is(own, "web", "w-1", "maintenance"));
	assert_true(admin_is(own, "web", "w-2", "ready"));
	host = ready(own);
	assert_int_equal(number(host, "ready"), 3);
	json_decref(host);
	assert_true(admin_is(own, "alone", "a-1", "ready"));
}

// Soon after the deadline, the dropped flows are no longer open. The reply must still contain the
// numbers of flows that were kept and dropped at the deadline.
TEST(end_of_a_drain_counts_what_is_kept_and_what_is_dropped) {
	struct own *own = *state;
	uint64_t *kept = open_flows(own, "web", "w-1"), *dropped = open_flows(own, "alone", "a-1");
	json_t *host, *drain;

	*kept += 2;
	*dropped += 3;
	json_decref(lab_result(
		&own->lab, JSON({"command": "host.drain", "address": "10.0.1.11", "interval_ms": 100})));
	LAB_UNTIL(drain_is(own, "kept"));
	*kept -= 1;
	*dropped -= 3;
	host = show(own);
	drain = json_object_get(host, "drain");
	assert_int_equal(number(host, "open_flows"), 1);
	assert_int_equal(number(drain, "kept_flows"), 2);
	assert_int_equal(number(drain, "dropped_flows"), 3);
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(host, "dropped_from"), 0)),
		"alone/a-1");
	json_decref(host);
	// The drain ended in the previous process. The next process does not have the counts of
	// this drain.
	lab_kill(&own->lab);
	lab_start(&own->lab);
	LAB_UNTIL(lab_attached(&own->lab));
	host = show(own);
	drain = json_object_get(host, "drain");
	assert_string_equal(drain_text(host, "state"), "kept");
	assert_true(json_is_null(json_object_get(drain, "kept_flows")));
	assert_true(json_is_null(json_object_get(drain, "dropped_flows")));
	json_decref(host);
	json_decref(ready(own));
	*kept -= 1;
}

#define SERVICE_OF_OTHERS(name, last) SERVICE(name, last, "keep", BACKEND("x", "10.0.1.12"))

static json_t *drain(struct own *own, const char *interval) {
	return lab_result(
		&own->lab, "{\"command\": \"host.drain\", \"address\": \"" HOST "\"%s}", interval);
}

static void reload(struct own *own, const char *services) {
	lab_write_config(&own->lab, services);
	json_decref(lab_result(&own->lab, JSON({"command": "config.reload"})));
}

// Stopping the server breaks all its connections, including the connections of removed backends. A
// backend may have been removed before the drain, together with its service, or during the drain.
TEST(host_is_not_drained_while_removed_backends_have_flows) {
	struct own *own = *state;
	uint16_t mail = backend_id(own, "mail", "m-1"), web = backend_id(own, "web", "w-1");
	struct weir_segment *segment = lab_dataplane_segment(own->dataplane);
	struct weir_share_counters *of_mail = weir_segment_backend_counters(segment, 0, mail);
	struct weir_share_counters *of_web = weir_segment_backend_counters(segment, 0, web);
	json_t *host;

	of_mail->active_flows = of_mail->open_flows = 2;
	of_web->active_flows = of_web->open_flows = 1;
	reload(own, SERVICE("web", "1", "drop", BACKEND("w-1", HOST)) ", " SERVICE(
			    "post", "2", "keep", BACKEND("m-1", HOST)));
	host = show(own);
	assert_int_equal(number(host, "backends"), 2);
	assert_int_equal(number(host, "removed"), 1);
	assert_int_equal(number(host, "active_flows"), 3);
	// there is no drain, so only the flows of the removed backend count
	assert_int_equal(number(host, "open_flows"), 2);
	json_decref(host);
	host = drain(own, "");
	assert_int_equal(number(host, "open_flows"), 3);
	assert_int_equal(json_array_size(json_object_get(host, "open")), 2);
	json_decref(host);
	reload(own, SERVICE_OF_OTHERS("web", "1") ", " SERVICE_OF_OTHERS("post", "2"));
	lab_kill(&own->lab); // the next process continues the drains
	lab_start(&own->lab);
	LAB_UNTIL(lab_attached(&own->lab));
	host = show(own);
	assert_int_equal(number(host, "backends"), 0);
	assert_int_equal(number(host, "removed"), 2);
	assert_int_equal(number(host, "open_flows"), 3);
	assert_string_equal(drain_text(host, "state"), "draining");
	json_decref(host);
	of_mail->active_flows = of_mail->open_flows = 0;
	host = drain(own, ", \"interval_ms\": 100");
	assert_string_equal(drain_text(host, "state"), "draining");
	assert_string_equal(drain_text(host, "at_deadline"), "keep");
	json_decref(host);
	LAB_UNTIL(drain_is(own, "kept"));
	of_web->active_flows = 0; // the flow has ended, but still is in the flow table
	host = ready(own);
	assert_true(json_is_null(json_object_get(host, "drain")));
	assert_int_equal(number(host, "removed"), 1);
	json_decref(host);
	of_web->active_flows = of_web->open_flows = 0;
	LAB_UNTIL(strcmp(lab_code(&own->lab, JSON({"command": "host.show",
					 "address": "10.0.1.11"})),
						     "not-found") == 0);
	reload(own, few);
}

TEST(hosts_that_do_not_exist_are_refused) {
	struct own *own = *state;

	assert_string_equal(lab_code(
		&own->lab, JSON({"command": "host.drain", "address": "10.9.9.9"})), "not-found");
	assert_string_equal(lab_code(
		&own->lab, JSON({"command": "host.drain", "address": "10.0.1.0/24"})), "bad-request");
	assert_string_equal(
		lab_code(&own->lab, JSON({"command": "host.ready", "address": "web"})), "bad-request");
	assert_string_equal(lab_code(&own->lab,
		JSON({"command": "host.drain",
		"address": "10.0.1.11", "interval_ms": 1e12})),
		"bad-request");
}

static const char *text_of(const json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "-";
}

// A command for a host adds a single entry to the audit log, for any number of backends.
TEST(one_audit_entry_records_a_whole_host) {
	struct own *own = *state;
	json_t *before = lab_result(&own->lab, JSON({"command": "audit.show"})), *after;
	const json_t *entry;

	json_decref(lab_result(&own->lab,
		JSON({"command": "host.drain", "address": "10.0.1.11", "interval_ms": 600000})));
	after = lab_result(&own->lab, JSON({"command": "audit.show"}));
	assert_int_equal(json_array_size(after), json_array_size(before) + 1);
	entry = json_array_get(after, json_array_size(after) - 1);
	assert_string_equal(text_of(entry, "command"), "host.drain");
	assert_string_equal(text_of(entry, "object"), HOST);
	assert_string_equal(text_of(entry, "before"), "3 ready, 0 drain, 0 maintenance");
	assert_non_null(strstr(text_of(entry, "after"), "0 ready, 3 drain, 0 maintenance"));
	json_decref(before);
	json_decref(after);
	json_decref(ready(own));
}

// All backends are drained in one step; the reply is short, for any number of services.
TEST(host_in_a_hundred_services_is_drained_by_one_command) {
	struct own *own = *state;
	char *services = malloc(SERVICES * 512), *end = services;
	json_t *host;

	for (int i = 0; i < SERVICES; i++) {
		end += sprintf(end,
			"%s{\"name\": \"s%d\", \"binds\": [{\"address\": \"198.51.100.1\", "
			"\"protocol\": \"tcp\", \"port\": %d}], \"table_size\": 1009, "
			"\"backends\": [{\"name\": \"b\", \"address\": \"" HOST "\"}, "
			"{\"name\": \"c\", \"address\": \"10.0.1.12\"}]}",
			i > 0 ? ", " : "", i, 1000 + i);
	}
	lab_write_config(&own->lab, services);
	free(services);
	json_decref(lab_result(&own->lab, JSON({"command": "config.reload"})));
	host = lab_result(&own->lab, JSON({"command": "host.drain", "address": "10.0.1.11"}));
	assert_int_equal(number(host, "services"), SERVICES);
	assert_int_equal(number(host, "draining") + number(host, "drained"), SERVICES);
	json_decref(host);
	// Real workers skip drained backends at once. This simulated dataplane does not, so the
	// test waits for the new selections.
	for (int i = 0; i < SERVICES; i += 33) {
		char name[8];

		snprintf(name, sizeof(name), "s%d", i);
		LAB_UNTIL((lab_dataplane_flows(
				   own->dataplane, "198.51.100.1", (uint16_t)(1000 + i), 100),
			lab_dataplane_flows_of(own->dataplane, backend_id(own, name, "c")) == 100));
	}
}

// After a restart of the dataplane, one warning is about all connections of the host that move.
// This test is the last one: the recount lasts for a minute.
TEST(one_warning_is_about_all_connections_that_move) {
	struct own *own = *state;
	const json_t *warnings;
	json_t *host;

	lab_dataplane_stop(own->dataplane);
	LAB_UNTIL(!lab_attached(&own->lab));
	own->dataplane = lab_dataplane_start_big(&own->lab, 2);
	LAB_UNTIL(lab_attached(&own->lab));
	json_decref(ready(own));
	host = lab_result(&own->lab, JSON({"command": "host.drain", "address": "10.0.1.11"}));
	warnings = json_object_get(host, "warnings");
	assert_int_equal(number(host, "services"), SERVICES);
	assert_int_equal(json_array_size(warnings), 1);
	assert_non_null(strstr(json_string_value(json_array_get(warnings, 0)),
		": connections to 10.0.1.11 that have sent no packet since then move to other "));
	json_decref(host);
}
