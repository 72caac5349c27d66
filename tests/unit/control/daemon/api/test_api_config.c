// SPDX-License-Identifier: BSD-3-Clause
//
// Tests config.diff and config.reload.
#include "daemon_web.h"

#include <stdio.h>
#include <unistd.h>

static const char *text_of(const json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "(no text)";
}

static json_t *change(json_t *result, size_t i) {
	return json_array_get(json_object_get(result, "changes"), i);
}

static size_t changes(json_t *result) {
	return json_array_size(json_object_get(result, "changes"));
}

static size_t backends(const struct web *web) {
	json_t *list = lab_result(&web->lab, JSON({"command": "backend.show"}));
	size_t count = json_array_size(list);

	json_decref(list);
	return count;
}

static int fresh(void **state) {
	struct web *web = *state;

	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(
		&web->lab, JSON({"command": "config.reload", "path": "%s"}), web->lab.config));
	// The backends that were removed by the previous test no longer exist
	LAB_UNTIL(backends(web) == 3);
	return 0;
}

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);
TEST_EACH(fresh);

TEST(diff_shows_differences_and_changes_nothing) {
	struct web *web = *state;
	json_t *result;

	lab_write_config(&web->lab, WEB_SERVICES);
	for (int i = 0; i < 2; i++) {
		result = lab_result(&web->lab, JSON({"command": "config.diff"}));
		assert_int_equal(changes(result), 1);
		assert_string_equal(text_of(change(result, 0), "kind"), "remove");
		assert_string_equal(text_of(change(result, 0), "what"), "service dns");
		json_decref(result);
	}
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "service.show", "service": "dns"})), "ok");
}

TEST(reload_applies_what_differs_and_keeps_states) {
	struct web *web = *state;
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	json_t *holder = NULL, *one, *result;
	weir_ref selection;
	int web_id, dns_id;

	result = lab_result(&web->lab, JSON({"command": "service.show"}));
	web_id = (int)json_integer_value(json_object_get(json_array_get(result, 0), "id"));
	dns_id = (int)json_integer_value(json_object_get(json_array_get(result, 1), "id"));
	json_decref(result);
	json_decref(lab_result(&web->lab, JSON({"command": "backend.drain", "backend": "w-2"})));
	json_decref(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "web", "backend": "w-1", "weight": 5})));
	selection = segment->roots->selection[web_id];
	lab_write_config(&web->lab, WEB_SERVICES
		", {\"name\": \"dns\", \"binds\": [{\"address\": \"198.51.100.11\", "
		"\"protocol\": \"udp\", \"port\": 53}], \"table_size\": 251, \"backends\": "
		"[{\"name\": \"w-1\", \"address\": \"10.0.1.13\", \"weight\": 7}, "
		"{\"name\": \"w-3\", \"address\": \"10.0.1.14\"}]}");
	result = lab_result(&web->lab, JSON({"command": "config.reload"}));
	assert_int_equal(changes(result), 5);
	json_decref(result);
	one = lab_backend(&web->lab, &holder, "web", "w-2");
	assert_string_equal(text_of(one, "admin"), "drain");
	one = lab_backend(&web->lab, &holder, "web", "w-1");
	assert_int_equal(json_integer_value(json_object_get(one, "effective_weight")), 5);
	one = lab_backend(&web->lab, &holder, "dns", "w-3");
	assert_string_equal(text_of(one, "address"), "10.0.1.14");
	// the selection of web was not published again
	assert_true(segment->roots->selection[web_id] == selection);
	assert_int_equal(dns_id, web_id == 0 ? 1 : 0);
	json_decref(holder);
	result = lab_result(&web->lab, JSON({"command": "config.diff"}));
	assert_int_equal(changes(result), 0);
	json_decref(result);
}

// A weight that was set at run time stays in effect until the configured weight changes.
TEST(reload_says_which_weights_set_by_hand_it_replaces) {
	static const char *const commands[] = {"config.diff", "config.reload"};
	struct web *web = *state;
	json_t *holder = NULL, *one, *result;

	json_decref(lab_result(&web->lab,
		JSON({"command": "weight.set", "service": "dns", "backend": "w-1", "weight": 0})));
	lab_write_config(&web->lab, WEB_SERVICES
		", {\"name\": \"dns\", \"binds\": [{\"address\": \"198.51.100.11\", "
		"\"protocol\": \"udp\", \"port\": 53}], \"table_size\": 251, \"backends\": "
		"[{\"name\": \"w-1\", \"address\": \"10.0.1.13\", \"weight\": 7}]}");
	for (size_t i = 0; i < 2; i++) {
		result = lab_result(&web->lab, JSON({"command": "%s"}), commands[i]);
		one = change(result, changes(result) - 1);
		assert_string_equal(text_of(one, "what"), "service dns backend w-1 weight");
		assert_string_equal(text_of(json_object_get(one, "cost"), "text"),
			"replaces the weight set by hand: 0 -> 7");
		json_decref(result);
	}
	LAB_UNTIL(lab_log_has(&web->lab, "(replaces the weight set by hand: 0 -> 7)"));
	one = lab_backend(&web->lab, &holder, "dns", "w-1");
	assert_int_equal(json_integer_value(json_object_get(one, "effective_weight")), 7);
	json_decref(holder);
}

// A backend in maintenance is renamed. Under its new name it would get new flows, so there is a
// warning.
TEST(renamed_backend_that_took_no_new_flows_is_warned_of) {
	static const char *const commands[] = {"config.diff", "config.reload"};
	struct web *web = *state;
	size_t j, found = 0;

	json_decref(lab_result(&web->lab,
		JSON({"command": "backend.maintenance", "service": "dns", "backend": "w-1"})));
	lab_write_config(&web->lab, WEB_SERVICES
		", {\"name\": \"names\", \"binds\": [{\"address\": \"198.51.100.11\", "
		"\"protocol\": \"udp\", \"port\": 53}], \"table_size\": 251, \"backends\": "
		"[{\"name\": \"w-1\", \"address\": \"10.0.1.13\"}]}");
	for (size_t i = 0; i < 2; i++) {
		json_t *result = lab_result(&web->lab, JSON({"command": "%s"}), commands[i]);
		json_t *warning;

		json_array_foreach (json_object_get(result, "warnings"), j, warning) {
			found += strstr(text_of(warning, "reason"),
					 "weirctl backend maintenance names/w-1") != NULL;
		}
		json_decref(result);
	}
	assert_int_equal(found, 2);
	assert_true(
		lab_log_has(&web->lab, "the maintenance of dns/w-1, which has the same address"));
}

static void expect_reason(struct web *web, const char *command, const char *reason) {
	json_t *result = lab_result(&web->lab, JSON({"command": "%s"}), command), *warning;
	bool found = false;
	size_t i;

	json_array_foreach (json_object_get(result, "warnings"), i, warning) {
		found |= strcmp(text_of(warning, "reason"), reason) == 0;
	}
	assert_true(found);
	json_decref(result);
}

// A backend of a drained host is removed and added again, while it has a flow. The drain goes on
// until the second reload, which shows that it ends.
TEST(returning_backend_of_a_drained_host_is_warned_of) {
	static const char reason[] =
		"gets new flows, because its drain ends when it returns to the configuration; to "
		"prevent this, set \"weight\": 0 here, or run weirctl backend drain web/w-2 after "
		"the "
		"reload";
	struct web *web = *state;
	json_t *holder = NULL;
	struct weir_share_counters *flows;

	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	flows = weir_segment_backend_counters(lab_dataplane_segment(web->dataplane), 0,
		(uint16_t)json_integer_value(
			json_object_get(lab_backend(&web->lab, &holder, "web", "w-2"), "id")));
	flows->active_flows = flows->open_flows = 1;
	json_decref(lab_result(&web->lab, JSON({"command": "host.drain", "address": "10.0.1.12"})));
	lab_write_config(&web->lab,
		"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", "
		"\"protocol\": \"tcp\", \"port\": 80}], \"table_size\": 1009, \"backends\": "
		"[{\"name\": \"w-1\", \"address\": \"10.0.1.11\", \"weight\": "
		"100}]}, " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	expect_reason(web, "config.diff", reason);
	expect_reason(web, "config.reload", reason);
	flows->active_flows = flows->open_flows = 0;
	json_decref(holder);
}

TEST(changes_that_need_a_restart_are_listed_and_not_applied) {
	struct web *web = *state;

	lab_write_config_with(&web->lab, ", \"mtu\": 9000", WEB_SERVICES ", " DNS_SERVICE);
	for (int i = 0; i < 2; i++) {
		json_t *result = lab_result(&web->lab, JSON({"command": "config.reload"}));

		assert_int_equal(changes(result), 1);
		assert_string_equal(text_of(change(result, 0), "what"), "port wan mtu");
		assert_string_equal(
			text_of(change(result, 0), "note"), "needs a restart of weir-dataplane");
		json_decref(result);
	}
	LAB_UNTIL(lab_log_has(&web->lab,
		"reload: change port wan mtu: 1500 -> 9000 (needs a restart of weir-dataplane; no "
		"open flows)"));
}

TEST(waiting_changes_are_listed_with_their_cost) {
	struct web *web = *state;
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	json_t *result, *cost;
	int dns;

	result = lab_result(&web->lab, JSON({"command": "service.show", "service": "dns"}));
	dns = (int)json_integer_value(json_object_get(json_array_get(result, 0), "id"));
	json_decref(result);
	weir_segment_service_counters(segment, 0, (uint32_t)dns)->open_flows = 5;
	lab_write_config_with(&web->lab, ", \"mtu\": 9000", WEB_SERVICES);
	result = lab_result(&web->lab, JSON({"command": "config.diff"}));
	assert_int_equal(changes(result), 2);
	cost = json_object_get(change(result, 0), "cost");
	assert_string_equal(text_of(cost, "text"), "no open flows");
	assert_string_equal(text_of(change(result, 1), "what"), "service dns");
	cost = json_object_get(change(result, 1), "cost");
	assert_string_equal(text_of(cost, "effect"), "break");
	assert_int_equal(json_integer_value(json_object_get(cost, "flows")), 5);
	assert_string_equal(text_of(cost, "text"), "5 open flows: UDP flows end: the next datagram "
						   "goes to the service that then has its "
						   "address and port; if no service has them, "
						   "closed_ports applies; if no bind has the "
						   "address, the kernel gets the datagram");
	json_decref(result);
	weir_segment_service_counters(segment, 0, (uint32_t)dns)->open_flows = 0;
	result = lab_result(&web->lab, JSON({"command": "config.waiting"}));
	assert_int_equal(changes(result), 0); // the configuration was not reloaded
	json_decref(result);
	lab_write_config_with(&web->lab, ", \"mtu\": 9000", WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	result = lab_result(&web->lab, JSON({"command": "config.waiting"}));
	assert_int_equal(changes(result), 1);
	assert_string_equal(text_of(change(result, 0), "what"), "port wan mtu");
	cost = json_object_get(result, "restart");
	assert_true(json_is_integer(json_object_get(cost, "open_flows")));
	assert_true(json_is_integer(json_object_get(cost, "breaks")));
	assert_true(json_is_integer(json_object_get(cost, "older")));
	json_decref(result);
}

// A change is pending until a restart of weir-dataplane. Without a restart, the file is changed
// back to the running value. config.diff and config.reload show that the pending change is
// cancelled.
TEST(change_that_waits_is_taken_back) {
	static const char *const commands[] = {"config.diff", "config.reload", "config.diff"};
	struct web *web = *state;
	json_t *result;

	lab_write_config_with(&web->lab, ", \"mtu\": 9000", WEB_SERVICES ", " DNS_SERVICE);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
	lab_write_config(&web->lab, WEB_SERVICES ", " DNS_SERVICE);
	for (size_t i = 0; i < 3; i++) {
		result = lab_result(&web->lab, JSON({"command": "%s"}), commands[i]);
		assert_int_equal(changes(result), i < 2 ? 1 : 0);
		if (i < 2) {
			assert_string_equal(text_of(change(result, 0), "what"), "port wan mtu");
			assert_string_equal(text_of(change(result, 0), "from"), "9000");
			assert_string_equal(text_of(change(result, 0), "to"), "1500");
			assert_string_equal(text_of(change(result, 0), "note"),
				"cancels a change that was pending until a restart of "
				"weir-dataplane");
		}
		json_decref(result);
	}
	LAB_UNTIL(lab_log_has(&web->lab, "reload: change port wan mtu: 9000 -> 1500 (cancels a "
					 "change that was pending until a restart of "
					 "weir-dataplane)"));
	result = lab_result(&web->lab, JSON({"command": "config.waiting"}));
	assert_int_equal(changes(result), 0);
	json_decref(result);
}

TEST(warnings_are_in_both_answers) {
	static const char *const commands[] = {"config.diff", "config.reload"};
	struct web *web = *state;

	for (size_t i = 0; i < 2; i++) {
		json_t *result = lab_result(&web->lab, JSON({"command": "%s"}), commands[i]);
		const json_t *warnings = json_object_get(result, "warnings");
		const json_t *first = json_array_get(warnings, 0);

		assert_int_equal(changes(result), 0);
		assert_int_equal(json_array_size(warnings), 2);
		assert_string_equal(text_of(first, "path"), "instance.hash_seed");
		assert_string_equal(
			// the service has no health check
			text_of(json_array_get(warnings, 1), "path"), "services[0]");
		assert_true(json_integer_value(json_object_get(first, "line")) > 0);
		assert_non_null(strstr(text_of(first, "reason"), " (open flows now: "));
		json_decref(result);
	}
}

TEST(interface_that_does_not_exist_is_in_both_answers) {
	static const char *const commands[] = {"config.diff", "config.reload"};
	struct web *web = *state;
	bool found = false;

	lab_write(web->lab.config,
		"{\"ports\": [{\"name\": \"wan\", \"device\": \"net_af_xdp0,iface=none-7\"}], "
		"\"services\": [" WEB_SERVICES "]}");
	for (size_t i = 0; i < 2; i++) {
		json_t *result = lab_result(&web->lab, JSON({"command": "%s"}), commands[i]);
		json_t *warnings = json_object_get(result, "warnings"), *warning;
		size_t j;

		found = false;
		json_array_foreach (warnings, j, warning) {
			found |= strcmp(text_of(warning, "path"), "ports[0].device") == 0 &&
				 strstr(text_of(warning, "reason"), "interface none-7 does not "
								    "exist on this host") != NULL;
		}
		assert_true(found);
		json_decref(result);
	}
	LAB_UNTIL(lab_log_has(&web->lab, "ports[0].device: interface none-7 does not exist"));
}

TEST(unreadable_ca_file_is_in_both_answers) {
	static const char *const commands[] = {"config.diff", "config.reload"};
	struct web *web = *state;

	lab_write_config(&web->lab,
		"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": "
		"\"tcp\", \"port\": 443}], \"table_size\": 1009, \"health_check\": {\"type\": "
		"\"https\", \"ca_file\": \"/nonexistent/ca.pem\"}, \"backends\": [{\"name\": "
		"\"w-1\", \"address\": \"10.0.1.11\"}]}");
	for (size_t i = 0; i < 2; i++) {
		json_t *result = lab_result(&web->lab, JSON({"command": "%s"}), commands[i]);
		json_t *warnings = json_object_get(result, "warnings"), *warning;
		bool found = false;
		size_t j;

		json_array_foreach (warnings, j, warning) {
			found |= strcmp(text_of(warning, "path"),
					 "services[0].health_check.ca_file") == 0 &&
				 strcmp(text_of(warning, "reason"),
					 "cannot read CA certificates from /nonexistent/ca.pem: "
					 "No such file or directory; health checks with this file "
					 "have no result") == 0;
		}
		assert_true(found);
		json_decref(result);
	}
	LAB_UNTIL(lab_log_has(&web->lab,
		"services[0].health_check.ca_file: cannot read CA certificates from "
		"/nonexistent/ca.pem"));
}

TEST(invalid_file_is_refused_with_every_error) {
	static const char *const commands[] = {"config.diff", "config.reload"};
	struct web *web = *state;

	lab_write(web->lab.config, "{\"ports\": [],\n\"colour\": 1,\n\"services\": [{}]}");
	for (size_t i = 0; i < 2; i++) {
		json_t *answer = lab_ask(&web->lab, JSON({"command": "%s"}), commands[i]);
		json_t *errors = json_object_get(answer, "errors");
		json_t *first = json_array_get(errors, 0);

		assert_string_equal(text_of(answer, "code"), "refused");
		assert_string_equal(text_of(answer, "file"), web->lab.config);
		assert_non_null(strstr(text_of(answer, "error"), web->lab.config));
		assert_non_null(strstr(text_of(answer, "error"), " errors, the first in line "));
		assert_true(json_array_size(errors) >= 3);
		assert_true(json_integer_value(json_object_get(first, "line")) > 0);
		assert_true(json_integer_value(json_object_get(first, "column")) > 0);
		assert_true(json_is_string(json_object_get(first, "path")));
		assert_true(strlen(text_of(first, "reason")) > 0);
		json_decref(answer);
	}
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "service.show", "service": "dns"})), "ok");
}

// Returns the reason of the warning about this setting, or "".
static const char *warning_of(const json_t *answer, const char *path) {
	json_t *warning;
	size_t i;

	json_array_foreach (json_object_get(answer, "warnings"), i, warning) {
		if (strcmp(text_of(warning, "path"), path) == 0) {
			return text_of(warning, "reason");
		}
	}
	return "";
}

// If the file is valid, but does not fit into the segment, the reload is refused and nothing
// changes. The file allows more backends than the segment: the reason names the restart that helps.
TEST(configuration_that_does_not_fit_is_refused) {
	struct web *web = *state;
	size_t room = 256 * 1024, used = 0;
	char *services = malloc(room);
	json_t *answer;

	used += (size_t)snprintf(services + used, room - used,
		"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": "
		"\"tcp\", \"port\": 80}], \"table_size\": 65537, \"backends\": [");
	for (int i = 0; i < 1100; i++) { // the lab's segment has room for 1024 backends
		used += (size_t)snprintf(services + used, room - used,
			"%s{\"name\": \"w-%d\", \"address\": \"10.1.%d.%d\"}", i > 0 ? ", " : "",
			i + 1, i / 250, i % 250 + 1);
	}
	snprintf(services + used, room - used, "]}");
	lab_write_config(&web->lab, services);
	free(services);
	answer = lab_result(&web->lab, JSON({"command": "config.diff"}));
	assert_non_null(strstr(warning_of(answer, "segment"),
		"a reload of this file is refused: service \"web\" backend \"w-"));
	assert_non_null(strstr(warning_of(answer, "segment"),
		": no free backend id: the maximum is 1024 (segment.max_backends; "));
	json_decref(answer);
	answer = lab_ask(&web->lab, JSON({"command": "config.reload"}));
	assert_string_equal(text_of(answer, "code"), "refused");
	assert_ptr_equal(
		strstr(text_of(answer, "error"), web->lab.config), text_of(answer, "error"));
	assert_non_null(strstr(
		text_of(answer, "error"), "the file has larger limits: restart weir-dataplane"));
	json_decref(answer);
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "service.show", "service": "dns"})), "ok");
	assert_int_equal(backends(web), 3);
}

TEST(other_file_needs_an_absolute_path) {
	struct web *web = *state;
	char other[128];
	json_t *version;

	snprintf(other, sizeof(other), "%s/other.json", web->lab.dir);
	assert_int_equal(rename(web->lab.config, other), 0);
	assert_string_equal(lab_code(
		&web->lab, JSON({"command": "config.reload", "path": "other.json"})), "bad-request");
	assert_string_equal(lab_code(&web->lab, JSON({"command": "config.reload"})), "refused");
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "config.reload", "path": "%s"}), other), "ok");
	version = lab_result(&web->lab, JSON({"command": "version"}));
	assert_string_equal(text_of(version, "config"), other);
	json_decref(version);
}
