// SPDX-License-Identifier: BSD-3-Clause
//
// Tests version, service.show, backend.show, flow.count, health.show and port.show.
#include "daemon_web.h"

static const char *text_of(const json_t *object, const char *name) {
	const char *text = json_string_value(json_object_get(object, name));

	return text != NULL ? text : "(no text)";
}

static json_int_t number_of(const json_t *object, const char *name) {
	const json_t *value = json_object_get(object, name);

	if (json_is_boolean(value)) {
		return json_is_true(value);
	}
	if (!json_is_integer(value)) {
		fail_msg("%s is no integer", name);
	}
	return json_integer_value(value);
}

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

TEST(version_shows_attached_processes) {
	struct web *web = *state;
	json_t *version = lab_result(&web->lab, JSON({"command": "version"}));
	json_t *dataplane = json_object_get(version, "dataplane");

	assert_int_equal(number_of(version, "pid"), web->lab.control);
	assert_string_equal(text_of(version, "config"), web->lab.config);
	assert_int_equal(number_of(dataplane, "attached"), 1);
	assert_int_equal(number_of(dataplane, "workers"), 2);
	assert_int_equal(number_of(dataplane, "ports"), 1);
	assert_int_equal(strlen(text_of(dataplane, "epoch")), 16);
	json_decref(version);
}

TEST(service_show_shows_configured_and_published_state) {
	struct web *web = *state;
	json_t *list = lab_result(&web->lab, JSON({"command": "service.show"}));
	json_t *one = json_array_get(list, 0);

	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(text_of(one, "name"), "web");
	assert_string_equal(text_of(one, "policy"), "maglev");
	assert_string_equal(text_of(one, "forwarding"), "ipip");
	assert_string_equal(json_string_value(json_array_get(json_object_get(one, "binds"), 0)),
		"tcp 198.51.100.10:80");
	assert_int_equal(number_of(one, "table_size"), 1009);
	assert_int_equal(number_of(one, "slots"), 1009);
	assert_int_equal(number_of(one, "backends"), 2);
	assert_int_equal(number_of(one, "eligible"), 2);
	assert_int_equal(number_of(one, "panic"), 0);
	assert_true(number_of(one, "generation") > 0);
	one = json_array_get(list, 1);
	assert_string_equal(json_string_value(json_array_get(json_object_get(one, "binds"), 0)),
		"udp 198.51.100.11:*");
	assert_string_equal(json_string_value(json_array_get(json_object_get(one, "binds"), 1)),
		"udp [2001:db8::11]:53-54");
	json_decref(list);
	list = lab_result(&web->lab, JSON({"command": "service.show", "service": "dns"}));
	assert_int_equal(json_array_size(list), 1);
	assert_string_equal(text_of(json_array_get(list, 0), "name"), "dns");
	json_decref(list);
	assert_string_equal(
		lab_code(&web->lab, JSON({"command": "service.show", "service": "x"})), "not-found");
}

TEST(backend_show_shows_shares_and_counters) {
	struct web *web = *state;
	json_t *holder = NULL, *one;
	uint32_t went;

	lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 1000);
	one = lab_backend(&web->lab, &holder, "web", "w-1");
	went = lab_dataplane_flows_of(web->dataplane, (uint16_t)number_of(one, "id"));
	assert_string_equal(text_of(one, "service"), "web");
	assert_string_equal(text_of(one, "address"), "10.0.1.11");
	assert_string_equal(text_of(one, "forwarding"), "ipip");
	assert_string_equal(text_of(one, "admin"), "ready");
	assert_string_equal(text_of(one, "health"), "healthy");
	assert_int_equal(number_of(one, "leaving"), 0);
	assert_int_equal(number_of(one, "in_selection"), 1);
	assert_int_equal(number_of(one, "weight"), 100);
	assert_true(json_is_null(json_object_get(one, "runtime_weight")));
	assert_int_equal(number_of(one, "effective_weight"), 100);
	assert_int_equal(number_of(one, "new_flows"), went);
	assert_int_equal(number_of(one, "active_flows"), went);
	// w-1 has a quarter of the total weight, so it has a quarter of the slots, and about a
	// quarter of the flows.
	assert_true(json_real_value(json_object_get(one, "share_percent")) > 24.5);
	assert_true(json_real_value(json_object_get(one, "share_percent")) < 25.5);
	assert_true(json_real_value(json_object_get(one, "achieved_percent")) == went / 10.0);
	LAB_UNTIL(number_of(lab_backend(&web->lab, &holder, "web", "w-1"), "resolved") == 1);
	json_decref(holder);
}

// With 30,000 backends each share is small, but must not be shown as 0.
TEST(a_small_share_is_not_0) {
	static const char *const requests[] = {
		"{\"command\": \"service.set\", \"service\": \"web\", "
		"\"policy\": \"weighted-round-robin\"}",
		"{\"command\": \"weight.set\", \"service\": \"web\", \"backend\": \"w-1\", "
		"\"weight\": 1}",
		"{\"command\": \"weight.set\", \"service\": \"web\", \"backend\": \"w-2\", "
		"\"weight\": 29999}",
	};
	static const char *const back[] = {
		"{\"command\": \"service.set\", \"service\": \"web\", \"policy\": null}",
		"{\"command\": \"weight.set\", \"service\": \"web\", \"backend\": \"w-1\", "
		"\"weight\": null}",
		"{\"command\": \"weight.set\", \"service\": \"web\", \"backend\": \"w-2\", "
		"\"weight\": null}",
	};
	struct web *web = *state;
	json_t *holder = NULL, *one;

	for (int i = 0; i < 3; i++) {
		json_decref(lab_result(&web->lab, "%s", requests[i]));
	}
	one = lab_backend(&web->lab, &holder, "web", "w-1");
	assert_true(json_real_value(json_object_get(one, "share_percent")) > 0.003);
	assert_true(json_real_value(json_object_get(one, "share_percent")) < 0.0035);
	for (int i = 0; i < 3; i++) {
		json_decref(lab_result(&web->lab, "%s", back[i]));
	}
	json_decref(holder);
}

TEST(backend_show_selects) {
	struct web *web = *state;
	json_t *list = lab_result(&web->lab, JSON({"command": "backend.show"}));

	assert_int_equal(json_array_size(list), 3);
	json_decref(list);
	list = lab_result(&web->lab, JSON({"command": "backend.show", "backend": "w-1"}));
	assert_int_equal(json_array_size(list), 2);
	json_decref(list);
	list = lab_result(
		&web->lab, JSON({"command": "backend.show", "service": "web", "backend": null}));
	assert_int_equal(json_array_size(list), 2);
	json_decref(list);
	assert_string_equal(lab_code(&web->lab,
		JSON({"command": "backend.show", "service": "dns",
			"backend": "w-2"})), "not-found");
}

#define BACKEND(name, host) "{\"name\": \"" name "\", \"address\": \"10.0.1." #host "\"}"

static void reload_with(struct web *web, const char *services) {
	lab_write_config(&web->lab, services);
	json_decref(lab_result(&web->lab, JSON({"command": "config.reload"})));
}

// Check the rows of an answer. expected: "service/name " for each row.
static void expect_rows(const struct web *web, const char *command, const char *outer,
	const char *key, const char *expected) {
	json_t *result = lab_result(&web->lab, JSON({"command": "%s"}), command), *row;
	char text[512] = "";
	size_t i, used = 0;

	json_array_foreach (outer != NULL ? json_object_get(result, outer) : result, i, row) {
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s/%s ",
			text_of(row, "service"), text_of(row, key));
	}
	assert_string_equal(text, expected);
	json_decref(result);
}

// Check the rows of metrics.show. expected: "service " for a service, "service/name " for a
// backend.
static void expect_metrics(const struct web *web, const char *expected) {
	json_t *result = lab_result(&web->lab, JSON({"command": "metrics.show"})), *row;
	char text[512] = "";
	size_t i, used = 0;

	json_array_foreach (json_object_get(result, "rows"), i, row) {
		const char *name = json_string_value(json_array_get(row, 1));
		bool is_service = strcmp(json_string_value(json_array_get(row, 0)), "service") == 0;

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s%s ", name,
			is_service ? "" : "/",
			is_service ? "" : json_string_value(json_array_get(row, 2)));
	}
	assert_string_equal(text, expected);
	json_decref(result);
}

static size_t count_backends(const struct web *web) {
	json_t *list = lab_result(&web->lab, JSON({"command": "backend.show"}));
	size_t count = json_array_size(list);

	json_decref(list);
	return count;
}

// Objects are listed in the order of the file, even if a reload has added them. Removed objects
// that still drain come last.
TEST(lists_have_the_order_of_the_file) {
	static const char expected[] = "new/n-1 web/w-3 web/w-2 web/w-1 dns/w-1 ";
	struct web *web = *state;

	weir_segment_backend_counters(lab_dataplane_segment(web->dataplane), 0, 0)->open_flows = 1;
	reload_with(web, "{\"name\": \"new\", \"binds\": [{\"address\": \"198.51.100.12\", "
			 "\"protocol\": \"tcp\", \"port\": 80}], \"backends\": [" BACKEND(
				 "n-1", 21) "]}, {\"name\": \"web\", \"binds\": [{\"address\": "
					    "\"198.51.100.10\", \"protocol\": \"tcp\", "
					    "\"port\": 80}], \"table_size\": 1009, "
					    "\"backends\": [" BACKEND("w-3", 14) ", " BACKEND(
						    "w-2", 12) "]}, " DNS_SERVICE);
	expect_rows(web, "backend.show", NULL, "name", expected);
	expect_rows(web, "health.show", NULL, "backend", "new/n-1 web/w-3 web/w-2 dns/w-1 ");
	expect_rows(web, "stats.show", "backends", "name", expected);
	expect_rows(
		web, "service.show", NULL, "name", "(no text)/new (no text)/web (no text)/dns ");
	expect_metrics(web, "new web dns new/n-1 web/w-3 web/w-2 web/w-1 dns/w-1 ");
	weir_segment_backend_counters(lab_dataplane_segment(web->dataplane), 0, 0)->open_flows = 0;
	reload_with(web, WEB_SERVICES ", " DNS_SERVICE);
	LAB_UNTIL(count_backends(web) == 3); // the removed backends are no longer listed
}

TEST(flow_count_is_per_backend) {
	struct web *web = *state;
	json_t *list;
	json_int_t sum;

	lab_dataplane_flows(web->dataplane, "198.51.100.10", 80, 10);
	list = lab_result(&web->lab, JSON({"command": "flow.count", "service": "web"}));
	assert_int_equal(json_array_size(list), 2);
	sum = number_of(json_array_get(list, 0), "active_flows") +
	      number_of(json_array_get(list, 1), "active_flows");
	assert_true(sum >= 10);
	json_decref(list);
}

TEST(health_show_without_checks_says_none) {
	struct web *web = *state;
	json_t *list = lab_result(&web->lab, JSON({"command": "health.show"}));
	json_t *one = json_array_get(list, 0);

	assert_int_equal(json_array_size(list), 3);
	assert_string_equal(text_of(one, "check"), "none");
	assert_true(json_is_null(json_object_get(one, "via")));
	assert_string_equal(text_of(one, "health"), "healthy");
	assert_true(json_is_null(json_object_get(one, "last")));
	json_decref(list);
}

TEST(port_show_shows_the_ports_of_the_dataplane) {
	struct web *web = *state;
	struct weir_port_counters *counters =
		&lab_dataplane_segment(web->dataplane)->port_counters[0];
	json_t *list, *one;

	counters->ipackets = 100;
	counters->imissed = 7;
	counters->xdp_ring_full = 20;
	counters->frame_too_long = 3;
	counters->xstats = 3;
	counters->link = WEIR_DEVICE_LINK_DOWN;
	strcpy(counters->xstat[0].name, "rx_good_packets");
	strcpy(counters->xstat[1].name, "rx_crc_errors");
	counters->xstat[1].value = 9;
	// the name has no final NUL
	memset(counters->xstat[2].name, 'x', sizeof(counters->xstat[2].name));
	counters->xstat[2].value = 1;
	list = lab_result(&web->lab, JSON({"command": "port.show", "port": "wan"}));
	one = json_array_get(list, 0);
	assert_int_equal(json_array_size(list), 1);
	assert_int_equal(number_of(one, "ipackets"), 100);
	assert_int_equal(number_of(one, "lost"), 30);
	assert_int_equal(json_object_size(json_object_get(one, "xstats")), 2);
	assert_int_equal(number_of(json_object_get(one, "xstats"), "rx_crc_errors"), 9);
	assert_string_equal(text_of(one, "name"), "wan");
	assert_string_equal(text_of(one, "mac"), "02:00:00:00:00:02");
	assert_int_equal(number_of(one, "mtu"), 1500);
	assert_true(json_is_null(json_object_get(one, "vlan")));
	assert_true(json_is_null(json_object_get(one, "kernel_interface")));
	assert_string_equal(text_of(one, "link"), "no-carrier");
	assert_int_equal(number_of(one, "steered"), 0);
	json_decref(list);
	list = lab_ask(&web->lab, JSON({"command": "port.show", "port": "lan"}));
	assert_string_equal(text_of(list, "code"), "not-found");
	json_decref(list);
}
