// SPDX-License-Identifier: BSD-3-Clause
//
// Tests bind.show, bind.drain and bind.ready for one of the two VIPs of a service.
#include "daemon_web.h"

#include <stdio.h>

TEST_GROUP(lab_own_network);
TEST_EACH(web_start, web_stop);

#define V4 "198.51.100.11"
#define V6 "2001:db8::11"

static json_t *bind(const struct web *web, const char *verb, const char *address) {
	return lab_result(
		&web->lab, "{\"command\": \"bind.%s\", \"address\": \"%s\"}", verb, address);
}

static json_int_t number(const json_t *object, const char *key) {
	return json_integer_value(json_object_get(object, key));
}

static void expect(
	const struct web *web, const char *address, json_int_t drained, json_int_t others) {
	json_t *binds = bind(web, "show", address);

	assert_int_equal(number(binds, "binds"), 1);
	assert_int_equal(number(binds, "drained_binds"), drained);
	assert_int_equal(number(binds, "other_binds"), others);
	assert_int_equal(json_is_null(json_object_get(binds, "drain")), drained == 0);
	json_decref(binds);
}

TEST(vip_is_ready_while_another_one_of_its_service_is_drained) {
	const struct web *web = *state;
	json_t *binds;

	json_decref(bind(web, "drain", V6));
	expect(web, V6, 1, 1);
	expect(web, V4, 0, 0);
	binds = bind(web, "drain", V4);
	// the other bind is drained
	assert_int_equal(number(binds, "other_drained_binds"), 1);
	json_decref(binds);
	expect(web, V6, 1, 0);
	expect(web, V4, 1, 0);
	json_decref(bind(web, "ready", V4));
	expect(web, V6, 1, 1);
	expect(web, V4, 0, 0);
}

TEST(audit_records_what_changed_of_the_vip) {
	const struct web *web = *state;
	json_t *list;
	const json_t *entry;

	json_decref(bind(web, "drain", V6));
	json_decref(bind(web, "drain", V4));
	json_decref(bind(web, "ready", "2001:DB8:0::0:11"));
	list = lab_result(&web->lab, JSON({"command": "audit.show"}));
	entry = json_array_get(list, json_array_size(list) - 1);
	assert_string_equal(json_string_value(json_object_get(entry, "command")), "vip.ready");
	assert_string_equal(
		json_string_value(json_object_get(entry, "before")), "1 of 1 bind drained");
	assert_string_equal(
		json_string_value(json_object_get(entry, "after")), "0 of 1 bind drained");
	json_decref(list);
	json_decref(lab_result(&web->lab, JSON({"command": "bind.drain", "service": "web"})));
	list = lab_result(&web->lab, JSON({"command": "audit.show"}));
	entry = json_array_get(list, json_array_size(list) - 1);
	assert_string_equal(json_string_value(json_object_get(entry, "command")), "service.drain");
	json_decref(list);
}

TEST(removed_vip_is_shown_as_removed_while_it_drains) {
	const struct web *web = *state;
	uint64_t *open = &weir_segment_service_counters(lab_dataplane_segment(web->dataplane), 0, 0)
				  ->open_flows;
	const char *error;
	json_t *answer;

	*open = 3;
	lab_write_config(&web->lab, DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	answer = lab_ask(&web->lab, JSON({"command": "bind.show", "address": "198.51.100.10"}));
	assert_non_null(strstr(json_string_value(json_object_get(answer, "error")),
		"no service has the VIP 198.51.100.10: removed from service web; new "
		"flows are refused for another "));
	json_decref(answer);
	answer = lab_ask(&web->lab, JSON({"command": "service.show", "service": "web"}));
	error = json_string_value(json_object_get(answer, "error"));
	assert_non_null(strstr(error,
		"no such service: \"web\": the service was removed, and drains for at most "));
	assert_non_null(strstr(error,
		"s; \"weirctl backend show\" and \"weirctl flow list\" without a service include "
		"its backends and flows"));
	json_decref(answer);
	*open = 0;
}

#define MOVED(name, removed_ms) \
	"{\"name\": \"" name "\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, \"drain\": " \
	"{\"removed_ms\": " removed_ms "}, \"backends\": [{\"name\": \"w-1\", \"address\": " \
	"\"10.0.1.11\"}]}"

static bool is_drain(const struct web *web, const char *state, json_int_t removed) {
	json_t *binds = bind(web, "show", "198.51.100.10");
	const char *now =
		json_string_value(json_object_get(json_object_get(binds, "drain"), "state"));
	bool is = now != NULL && strcmp(now, state) == 0 &&
		  number(binds, "removed_services") == removed;

	json_decref(binds);
	return is;
}

static bool has_noted(const struct web *web) {
	return lab_log_has(&web->lab, "removed service old: drain deadline reached");
}

// The service of the VIP was renamed. If the VIP moves to another machine, flows of the former
// service also break. So the drain of the VIP waits for these flows, even if they were kept at the
// removal deadline.
TEST(vip_is_not_drained_while_a_renamed_service_has_flows) {
	const struct web *web = *state;
	struct weir_share_counters *of_old;
	json_t *binds;
	uint32_t id;

	lab_write_config(&web->lab, MOVED("old", "300") ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	binds = lab_result(&web->lab, JSON({"command": "service.show", "service": "old"}));
	id = (uint32_t)number(json_array_get(binds, 0), "id");
	json_decref(binds);
	of_old = weir_segment_service_counters(lab_dataplane_segment(web->dataplane), 0, id);
	of_old->active_flows = of_old->open_flows = 3;
	lab_write_config(&web->lab, MOVED("new", "300") ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	binds = bind(web, "drain", "198.51.100.10");
	assert_int_equal(number(binds, "binds"), 1);
	assert_int_equal(number(binds, "removed_services"), 1);
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(binds, "removed_from"), 0)),
		"old");
	assert_int_equal(number(binds, "open_flows"), 3);
	json_decref(binds);
	assert_true(is_drain(web, "draining", 1));
	LAB_UNTIL(has_noted(web));
	binds = lab_ask(&web->lab, JSON({"command": "service.show", "service": "old"}));
	assert_non_null(strstr(json_string_value(json_object_get(binds, "error")),
		"no such service: \"old\": the service was removed, and is listed until its flows "
		"have ended"));
	json_decref(binds);
	assert_true(is_drain(web, "draining", 1));
	json_decref(lab_result(&web->lab,
		JSON({"command": "bind.drain", "address": "198.51.100.10", "interval_ms": 100})));
	LAB_UNTIL(is_drain(web, "kept", 1));
	json_decref(
		lab_result(&web->lab, JSON({"command": "bind.drain", "address": "198.51.100.10"})));
	of_old->active_flows = of_old->open_flows = 0;
	LAB_UNTIL(is_drain(web, "drained", 0));
}

#define WEB_FOR(removed_ms) \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, " \
	"\"on_backend_down\": \"reset\", \"drain\": {\"removed_ms\": " removed_ms "}, " \
	"\"backends\": [{\"name\": \"w-1\", \"address\": \"10.0.1.11\"}]}"

// Returns whether backend w-1 of the removed service "web" has the field binds_refuse_ms.
static bool has_refuse_time(const struct web *web) {
	json_t *rows = lab_result(&web->lab, JSON({"command": "backend.show"})), *row;
	bool found = false, has = false;
	size_t i;

	json_array_foreach (rows, i, row) {
		const json_t *left = json_object_get(row, "binds_refuse_ms");

		assert_non_null(left);
		if (strcmp(json_string_value(json_object_get(row, "service")), "web") == 0 &&
			strcmp(json_string_value(json_object_get(row, "name")), "w-1") == 0) {
			assert_true(json_is_true(json_object_get(row, "leaving")));
			found = true;
			has = json_is_integer(left) && json_integer_value(left) > 0;
		} else {
			assert_true(json_is_null(left) ||
				    json_is_true(json_object_get(row, "leaving")));
		}
	}
	assert_true(found);
	json_decref(rows);
	return has;
}

static void remove_after(const struct web *web, const char *services) {
	lab_write_config(&web->lab, services);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	lab_write_config(&web->lab, DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
}

// A removed service drains until its deadline, and its flows end at the deadline. Its backends
// remain for some time, in which packets from clients are still answered with an RST.
TEST(removed_backends_have_the_time_for_which_their_binds_refuse) {
	const struct web *web = *state;
	uint64_t *open = &weir_segment_service_counters(lab_dataplane_segment(web->dataplane), 0, 0)
				  ->open_flows;

	*open = 3;
	remove_after(web, WEB_FOR("600000") ", " DNS_SERVICE);
	assert_false(has_refuse_time(web));
	remove_after(web, WEB_FOR("1") ", " DNS_SERVICE);
	LAB_UNTIL(has_refuse_time(web));
	*open = 0;
}

#define WEB_MOVED \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.12\", " \
	"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, " \
	"\"on_backend_down\": \"reset\", \"backends\": [" \
	"{\"name\": \"w-1\", \"address\": \"10.0.1.11\"}]}"

// The service has one VIP left. The number of its flows includes the flows of the removed binds.
TEST(vip_has_the_number_of_removed_binds_of_its_service) {
	const struct web *web = *state;
	uint64_t *open = &weir_segment_service_counters(lab_dataplane_segment(web->dataplane), 0, 0)
				  ->open_flows;
	json_t *binds, *services;
	const char *warning;

	*open = 3;
	lab_write_config(&web->lab, WEB_MOVED ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	binds = bind(web, "show", "198.51.100.12");
	assert_int_equal(number(binds, "open_flows"), 3);
	assert_int_equal(number(binds, "other_binds"), 0);
	assert_int_equal(number(binds, "other_removed_binds"), 1);
	assert_true(json_is_true(json_object_get(binds, "lost_binds")));
	json_decref(binds);
	binds = bind(web, "show", V4); // a VIP of another service
	assert_int_equal(number(binds, "other_removed_binds"), 0);
	assert_true(json_is_false(json_object_get(binds, "lost_binds")));
	json_decref(binds);
	services = lab_result(&web->lab, JSON({"command": "service.show", "service": "web"}));
	warning = json_string_value(
		json_array_get(json_object_get(json_array_get(services, 0), "warnings"), 0));
	assert_non_null(warning);
	assert_int_equal(strncmp(warning, "removed: 1 bind drains for another ", 35), 0);
	assert_non_null(strstr(warning, ", then its TCP flows are reset"));
	json_decref(services);
	*open = 0;
}

// Check that these members of the result are null. keys: their names, terminated by NULL.
static void expect_unknown(const struct web *web, const char *request, const char *const *keys) {
	json_t *result = lab_result(&web->lab, "%s", request);
	const json_t *row = json_is_array(result) ? json_array_get(result, 0) : result;

	for (size_t i = 0; keys[i] != NULL; i++) {
		if (!json_is_null(json_object_get(row, keys[i]))) {
			fail_msg("%s: %s is known", request, keys[i]);
		}
	}
	json_decref(result);
}

// Without a dataplane, the numbers of flows are null, so that a script that waits for 0 does not
// continue.
TEST(without_a_dataplane_flows_are_unknown) {
	static const char *const of_host[] = {
		"active_flows", "open_flows", "removed", "open", NULL};
	static const char *const flows[] = {"open_flows", "active_flows", NULL};
	struct web *web = *state;

	lab_dataplane_stop(web->dataplane);
	LAB_UNTIL(!lab_attached(&web->lab));
	expect_unknown(web, JSON({"command": "host.drain", "address": "10.0.1.11"}), of_host);
	expect_unknown(web, JSON({"command": "host.show", "address": "10.0.1.11"}), of_host);
	expect_unknown(web, JSON({"command": "bind.drain", "address": "198.51.100.10"}), flows);
	expect_unknown(web, JSON({"command": "bind.show", "service": "web"}), flows);
	expect_unknown(web, JSON({"command": "backend.drain", "backend": "w-2"}), flows);
	expect_unknown(web, JSON({"command": "backend.show", "backend": "w-2"}), flows);
	expect_unknown(web, JSON({"command": "service.show", "service": "web"}), &flows[1]);
	web->dataplane = lab_dataplane_start(&web->lab, 2);
	LAB_UNTIL(lab_attached(&web->lab));
}
