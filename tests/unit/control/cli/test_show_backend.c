// SPDX-License-Identifier: BSD-3-Clause
//
// Backends: the list and its notes on terminals of any width, details of one backend, and weights.
#include "show_lab.h"
#include "stats.h"

TEST(notes_of_backends) {
	expect_shown(weir_show_backends, "web/",
		JSON([{"service": "web", "name": "a", "leaving": true, "resolved": false},
			{"service": "web", "name": "b", "leaving": false, "resolved": true,
			"since_ms": 2000, "word": "lame-duck", "accept_queue_full": true,
			"drain": {"state": "draining", "left_ms": 1500}, "report": {"age_ms": 98},
			"agent": "silent", "agent_age_ms": 12400},
			{"service": "web", "name": "c", "since_ms": 61000, "weight": 100,
			"auto_weight": 0, "runtime_weight": 7, "effective_weight": 7,
			"agent": "silent", "agent_age_ms": null,
			"unchecked_ms": 45000, "unchecked_why": "permission denied",
			"slow_start_percent": 43.2, "max_active_flows": 10, "counted_flows": 10},
			{"service": "web", "name": "d", "agent": "no-keys"}]),
					"SERVICE  BACKEND  ADDRESS  ADMIN  HEALTH  SINCE  WEIGHT  "
					"USED  "
					"SHARE-%  NEW-%  "
					"ACTIVE  NEW  CLIENT-RST  DROPPED  REPORT\n"
					"web      a        -        -      -           -       -   "
					"  -     "
					"   -      -  "
					"     -    -           -        -       -\n"
					"web      b        -        -      -        2.0s       -   "
					"  -     "
					"   -      -  "
					"     -    -           -        -    0.1s\n"
					"web      c        -        -      -       1m01s    auto   "
					"  7     "
					"   -      -  "
					"     -    -           -        -       -\n"
					"web      d        -        -      -           -       -   "
					"  -     "
					"   -      -  "
					"     -    -           -        -       -\n"
					"\n"
					"BACKEND  NOTES\n"
					"web/a    leaving, no next hop\n"
					"web/b    draining, 1.5s left, reports lame-duck, accept "
					"queue "
					"full, agent has not answered for 12.4s\n"
					"web/c    at the limit of 10 active flows, agent does not "
					"answer, "
					"CPUs not reported, weight set to "
					"7, slow "
					"start 43 %, no result of health checks for 45.0s: "
					"permission "
					"denied\n"
					"web/d    agent not probed: no keys\n");
}

static char *within(const char *json, uint32_t width) {
	json_t *rows = json_loads(json, 0, NULL);
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(rows);
	weir_show_backends_within(out, rows, width);
	fclose(out);
	json_decref(rows);
	return text;
}

TEST(note_of_a_limit_of_one_flow) {
	char *text = within(JSON([{"service": "web", "name": "a", "agent": null, "max_active_flows": 1,
		"counted_flows": 1}]),
		0);

	assert_non_null(strstr(text, "\nweb/a    at the limit of 1 active flow\n"));
	free(text);
}

TEST(notes_of_backends_used_in_panic_mode) {
	char *text = within(JSON([
		{"service": "web", "name": "a", "admin": "ready", "health": "refusing",
			"in_selection": true},
		{"service": "web", "name": "b", "admin": "ready", "health": "healthy",
			"in_selection": true, "ejected": true},
		{"service": "web", "name": "c", "admin": "ready", "health": "healthy",
			"in_selection": true},
		{"service": "web", "name": "d", "admin": "ready", "health": "refusing",
			"in_selection": false}]),
			0);

	assert_non_null(strstr(text, "\nweb/a    gets new flows: panic mode\n"
				     "web/b    ejected, gets new flows: panic mode\n"));
	assert_null(strstr(text, "\nweb/c  "));
	assert_null(strstr(text, "\nweb/d  "));
	free(text);
}

// A backup that gets no new flows is nothing unusual, but its note explains why.
TEST(notes_of_backups) {
	char *text = within(JSON([{"service": "web", "name": "a", "backup": true, "in_selection": false},
		{"service": "web", "name": "b", "admin": "ready", "health": "healthy", "backup": true,
			"in_selection": true},
		{"service": "web", "name": "c", "admin": "ready", "health": "healthy", "backup": false,
			"in_selection": true}]),
		0);

	assert_non_null(strstr(text, "\nweb/a    backup\n"));
	assert_non_null(strstr(text, "\nweb/b    backup in use\n"));
	assert_null(strstr(text, "\nweb/c  "));
	free(text);
}

TEST(notes_of_weights_that_a_canary_has_set) {
	static const struct {
		const char *canary, *note;
	} cases[] = {
		{"null", "weight set to 22\n"},
		{"\"running\"", "weight set to 22 by the canary\n"},
		{"\"paused\"", "weight set to 22 by the canary, which is paused\n"},
		{"\"rolled-back\"", "weight set to 22 by the canary, which was rolled back\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char rows[256], *text;

		snprintf(rows, sizeof(rows),
			"[{\"service\": \"web\", \"name\": \"a\", \"runtime_weight\": 22, "
			"\"canary\": %s}]",
			cases[i].canary);
		text = within(rows, 0);
		if (strstr(text, cases[i].note) == NULL) {
			fail_msg("%s: %s", cases[i].note, text);
		}
		free(text);
	}
}

#define REMOVED(name, flows) \
	"{\"service\": \"web\", \"name\": \"" name "\", \"leaving\": true, " \
	"\"binds_refuse_ms\": 270000, \"open_flows\": " flows "}"

TEST(backends_of_a_removed_service_after_its_deadline) {
	char *text = within(
		"[" REMOVED("a", "0") ", " REMOVED("b", "3") ", " REMOVED("c", "null") "]", 0);

	assert_non_null(strstr(text, "\nweb/a    leaving, no open flow, removed binds refuse "
				     "packets for another 4m30s\n"));
	assert_non_null(strstr(text, "\nweb/b    leaving, open flows are reset, removed binds "
				     "refuse packets for another 4m30s\n"));
	assert_non_null(strstr(
		text, "\nweb/c    leaving, removed binds refuse packets for another 4m30s\n"));
	free(text);
}

TEST(words_of_ports_of_one_backend) {
	expect_shown(weir_show_backends, "web/a",
		JSON([{"service": "web", "name": "a", "id": 1, "address": "x", "path_mtu": null,
			"report": {"source": "agent", "utilization": 0.5, "port_words": [
			{"protocol": "tcp", "port": 80, "word": "down", "reason": "no listening socket"},
			{"protocol": "udp", "port": 53, "word": "starting", "reason": ""}]}}]),
			"service   web\nname      a\nid        1\naddress   x\npath_mtu  -\n\n"
			"LAST REPORT\nsource       agent\nutilization  0.5\n"
			"port_words   tcp 80: down (no listening socket), udp 53: starting\n");
}

TEST(automatic_weight_of_one_backend) {
	expect_shown(weir_show_backends, "web/a",
		JSON([{"service": "web", "name": "a", "id": 1, "address": "x", "path_mtu": null,
			"weight": 240, "auto_weight": 240}]),
			"service   web\nname      a\nid        1\naddress   x\npath_mtu  -\n\n"
			"WEIGHT\nweight  auto (240)\n");
	expect_shown(weir_show_backends, "web/a",
		JSON([{"service": "web", "name": "a", "id": 1, "address": "x", "path_mtu": null,
			"weight": 100, "auto_weight": 0}]),
			"service   web\nname      a\nid        1\naddress   x\npath_mtu  -\n\n"
			"WEIGHT\nweight  auto (100, CPUs are not reported yet)\n");
}

TEST(capacity_of_one_backend) {
	expect_shown(weir_show_backends, "web/a",
		JSON([{"service": "web", "name": "a", "id": 1, "address": "x", "path_mtu": null,
			"weight": 300, "auto_weight": 300, "capacity": {"gcu": 10.0, "cpus": 8.0,
			"gcu_per_cpu": 1.25, "source": "measured"}}]),
			"service   web\nname      a\nid        1\naddress   x\npath_mtu  -\n\n"
			"WEIGHT\nweight    auto (300)\n"
			"capacity  10 GCU: 8 CPUs with 1.25 GCU each, measured by its agent\n");
	expect_shown(weir_show_backends, "web/a",
		JSON([{"service": "web", "name": "a", "id": 1, "address": "x", "path_mtu": null,
			"weight": 8, "auto_weight": 8, "capacity": {"gcu": 0.25, "cpus": 0.5,
			"gcu_per_cpu": 0.5, "source": "table", "cpu": "CPU of 2016"}}]),
			"service   web\nname      a\nid        1\naddress   x\npath_mtu  -\n\n"
			"WEIGHT\nweight    auto (8)\n"
			"capacity  0.25 GCU: 0.5 CPUs with 0.5 GCU each, from the gcu table\n");
}

#define ROW(name, rest) \
	"{\"service\": \"shop\", \"name\": \"" name "\", \"address\": \"10.200.100.101\", " \
	"\"admin\": \"maintenance\", \"health\": \"lame-duck\", \"since_ms\": 86400000, " \
	"\"weight\": " \
	"100, \"effective_weight\": 10000, \"share_percent\": 12.5, \"achieved_percent\": 12.5, " \
	"\"active_flows\": 123456, \"new_flows\": 1234567890, \"in_selection\": true" rest "}"

static size_t widest_line(const char *text) {
	size_t widest = 0;

	for (; *text != '\0'; text += strcspn(text, "\n") + 1) {
		size_t bytes = strcspn(text, "\n");

		widest = bytes > widest ? bytes : widest;
	}
	return widest;
}

// Columns without values are hidden first. If the table is still too wide, the least important
// columns are hidden.
TEST(backends_fit_the_terminal) {
	static const char plain[] = "[" ROW("shop-front-1", ", \"refused\": 0, \"dropped\": 0") "]";
	static const char full[] = "[" ROW("shop-front-1",
		", \"refused\": 123456, \"dropped\": 1234567, \"report\": {\"age_ms\": 1}") "]";
	char *text = within(plain, 0);

	assert_null(strstr(text, "CLIENT-RST"));
	assert_in_range(widest_line(text), 110, 120);
	free(text);
	text = within(full, 0);
	assert_non_null(strstr(text, "1234567"));
	assert_true(widest_line(text) > 120);
	free(text);
	for (uint32_t width = 90; width <= 150; width += 5) {
		text = within(full, width);
		assert_in_range(widest_line(text), 1, width);
		free(text);
	}
	text = within(full, 120);
	assert_non_null(strstr(text, "too narrow for DROPPED"));
	free(text);
	text = within(full, 10); // names and states are still complete
	assert_non_null(strstr(text, "shop-front-1  maintenance  lame-duck"));
	assert_non_null(
		strstr(text, "too narrow for DROPPED,\nCLIENT-RST,\nNEW,\nREPORT,\nADDRESS,\n"
			     "NEW-%,\nSINCE\n"));
	free(text);
	text = within("[]", 10);
	assert_string_equal(text, "no backends\n");
	free(text);
}

// The daemon lists backends by id. A backend that a reload adds to the first service has a high id,
// but must be shown with its service.
TEST(backends_of_a_service_stand_together) {
	static const char rows[] = JSON([{"service": "web", "name": "a"},
		{"service": "dns", "name": "b"}, {"service": "web", "name": "c", "leaving": true}]);
	char *text = within(rows, 0);

	assert_true(strstr(text, "web      c") < strstr(text, "dns      b"));
	free(text);
	text = within(rows, 80);
	assert_non_null(strstr(text, "\nweb      a"));
	assert_non_null(strstr(text, "\n         c"));
	assert_non_null(strstr(text, "\ndns      b"));
	assert_non_null(strstr(text, "\nweb/c    leaving\n"));
	free(text);
}

// A row of a backend whose address has changed. Until the flows of the former address have ended,
// there are two backends with the same name.
#define MOVED(address, rest) \
	"{\"service\": \"web\", \"name\": \"a\", \"id\": 1, \"address\": \"" address "\", " \
	"\"active_flows\": 3, \"admin\": \"ready\"" rest "}"

TEST(two_of_one_name_are_shown_with_their_addresses) {
	static const char rows[] = "[" MOVED("10.0.0.1", ", \"leaving\": true") ", " MOVED(
		"10.0.0.2", ", \"ejected\": true") ", {\"service\": \"dns\", \"name\": \"a\", "
						   "\"address\": \"10.0.0.3\", \"ejected\": "
						   "true}]";
	json_t *rates = json_pack("{s:o}", "backends", json_loads(rows, 0, NULL));
	size_t bytes;
	char *text = within(rows, 0);
	FILE *out;

	assert_non_null(strstr(text, "\nweb      a        10.0.0.1 "));
	assert_non_null(strstr(text, "\nweb/a (10.0.0.1)  leaving\nweb/a (10.0.0.2)  ejected\n"
				     "dns/a             ejected\n"));
	free(text);
	text = within(rows, 40);
	assert_null(strstr(text, "  ADDRESS"));
	assert_non_null(strstr(text, "\nweb      a (10.0.0.1) "));
	assert_non_null(strstr(text, "\n         a (10.0.0.2) "));
	assert_non_null(strstr(text, "\ndns      a "));
	free(text);
	out = open_memstream(&text, &bytes);
	weir_stats_print_rates(out, rates);
	fclose(out);
	assert_non_null(strstr(text, "\nweb      a (10.0.0.1) "));
	assert_non_null(strstr(text, "\nweb      a (10.0.0.2) "));
	assert_non_null(strstr(text, "\ndns      a  "));
	free(text);
	json_decref(rates);
	expect_shown(weir_show_flow_count, NULL,
		JSON([{"service": "web", "backend": "a", "address": "10.0.0.1", "active_flows": 3},
			{"service": "web", "backend": "a", "address": "10.0.0.2",
			"active_flows": 4}]),
			"SERVICE  BACKEND       ACTIVE-FLOWS\n"
			"web      a (10.0.0.1)             3\n"
			"web      a (10.0.0.2)             4\n");
}

TEST(weight_restored_to_configured) {
	expect_shown(weir_show_weight, NULL,
		JSON({"service": "s", "backend": "b", "weight": null, "effective_weight": 9}),
			"s/b: weight configured, effective 9\n");
}

TEST(weight_that_the_policy_does_not_use_is_named) {
	expect_shown(weir_show_weight, NULL,
		JSON({"service": "s", "backend": "b", "weight": 10, "effective_weight": 10,
			"policy": "round-robin", "policy_uses_weights": false}),
			"s/b: weight 10, effective 10; the policy round-robin ignores "
			"weights other than 0\n");
}
