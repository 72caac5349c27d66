// SPDX-License-Identifier: BSD-3-Clause
#include "show_lab.h"
#include "stats.h"

TEST(values) {
	static const struct {
		const char *json;
		enum weir_show_kind kind;
		const char *text;
	} cases[] = {
		{"null", WEIR_SHOW_NUMBER, "-"},
		{"12345678901", WEIR_SHOW_NUMBER, "12345678901"},
		{"-3", WEIR_SHOW_TEXT, "-3"},
		{"12.34", WEIR_SHOW_PERCENT, "12.3"},
		{"12", WEIR_SHOW_PERCENT, "12.0"},
		{"0.96", WEIR_SHOW_NUMBER, "1.0"},
		{"0.04", WEIR_SHOW_PERCENT, "0.04"},
		{"0.00303", WEIR_SHOW_PERCENT, "0.003"},
		{"-0.00303", WEIR_SHOW_PERCENT, "-0.003"},
		{"0.0", WEIR_SHOW_PERCENT, "0.0"},
		{"1e-300", WEIR_SHOW_PERCENT, "0.000000"},
		{"true", WEIR_SHOW_FLAG, "yes"},
		{"false", WEIR_SHOW_TEXT, "no"},
		{"\"a\\u001bb\"", WEIR_SHOW_TEXT, "a\\x1bb"},
		{"[]", WEIR_SHOW_TEXT, "-"},
		{"[\"a\", 1, null]", WEIR_SHOW_TEXT, "a, 1, -"},
		{"{\"k\": 1}", WEIR_SHOW_TEXT, "{\"k\":1}"},
	};
	char buffer[64];

	assert_string_equal(weir_show_value(NULL, WEIR_SHOW_TEXT, buffer, 64), "-");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *json = json_loads(cases[i].json, JSON_DECODE_ANY, NULL);

		assert_string_equal(
			weir_show_value(json, cases[i].kind, buffer, 64), cases[i].text);
		json_decref(json);
	}
}

TEST(long_lists_show_the_number_of_omitted_rows) {
	json_t *list = json_array();
	char buffer[32];

	for (int i = 0; i < 100; i++) {
		json_array_append_new(list, json_string("198.51.100.10"));
	}
	weir_show_value(list, WEIR_SHOW_TEXT, buffer, sizeof(buffer));
	assert_string_equal(buffer, "198.51.100.10, 99 more");
	weir_show_value(list, WEIR_SHOW_TEXT, buffer, 8);
	// the buffer is too small for the first element
	assert_string_equal(buffer, "100 mor");
	json_array_clear(list);
	json_array_append_new(list, json_string("198.51.100.1"));
	json_array_append_new(list, json_string("198.51.100.255"));
	weir_show_value(list, WEIR_SHOW_TEXT, buffer, sizeof(buffer));
	assert_string_equal(buffer, "198.51.100.1, 198.51.100.255"); // the text just fits
	json_decref(list);
}

// A daemon of another version, or a hostile daemon, must not crash the client.
TEST(results_of_another_form_are_shown_as_far_as_possible) {
	static const char *const odd[] = {"null", "7", "\"x\"", "{}", "[]", "[[]]", "[null]",
		"[{}]", "{\"changes\": 5}", "{\"changes\": [1]}", "{\"dataplane\": 3}",
		"{\"chosen_by_worker\": [1, {\"chosen\": 2}, {\"chosen\": \"a\"}]}",
		"[{\"last\": 5, \"binds\": {\"a\": []}, \"name\": [1, [2]]}]"};
	void (*const shows[])(const struct weir_cli *, json_t *) = {weir_show_record,
		weir_show_services, weir_show_backends, weir_show_change, weir_show_weight,
		weir_show_flow_count, weir_show_workers, weir_show_stealing, weir_show_ports,
		weir_show_changes, weir_show_waiting, weir_show_health, weir_show_version,
		weir_show_policy, weir_show_report, weir_show_flow_lookup, weir_show_steals,
		weir_show_audit, weir_show_history};
	const struct weir_cli_options options = {0};
	const char *word = "web";

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		for (size_t j = 0; j < sizeof(shows) / sizeof(shows[0]); j++) {
			for (int words = 0; words <= 1; words++) {
				json_t *result = json_loads(odd[i], JSON_DECODE_ANY, NULL);
				FILE *out = fopen("/dev/null", "w");
				struct weir_cli cli = {.options = &options,
					.out = out,
					.err = stderr,
					.words = &word,
					.count = words};

				shows[j](&cli, result);
				fclose(out);
				json_decref(result);
			}
		}
	}
}

TEST(empty_lists_are_reported) {
	expect_shown(weir_show_services, NULL, "[]", "no services\n");
	expect_shown(weir_show_backends, NULL, "[]", "no backends\n");
	expect_shown(weir_show_workers, NULL, "[]", "no workers\n");
	expect_shown(weir_show_stealing, NULL,
		JSON({"stealing": "on", "stealing_why": null}), "stealing on\n");
	expect_shown(weir_show_stealing, NULL,
		JSON({"stealing": "off", "stealing_why": "one\nworker"}),
			"stealing off: one\\x0aworker\n");
	expect_shown(weir_show_ports, NULL, "[]", "no ports\n");
	expect_shown(weir_show_changes, NULL,
		JSON({"changes": [], "file": "/a.json"}), "no changes in /a.json\n");
	expect_shown(weir_show_steals, NULL,
		JSON({"services": [], "recent": []}),
			"no service has \"steal\" in its configuration\n");
	expect_shown(weir_show_history, NULL, "[]",
		"no health changes since the start of weir-control\n");
	expect_shown(weir_show_audit, NULL, "[]", "no changes since the start of weir-control\n");
}

// The object name in an audit log entry is text that a user has sent. The object may not exist.
TEST(audit_shows_the_user_and_escapes_values) {
	setenv("TZ", "UTC0", 1);
	expect_shown(weir_show_audit, NULL,
		JSON([{"uid": 0, "pid": 7, "command": "backend.drain", "object": "w/\u001b[2J",
			"before": null, "after": null, "outcome": "not-found", "why": "no",
			"times": 3}, {"uid": null, "command": "config.reload", "outcome": "done"}]),
			"TIME                     USER    PID  COMMAND        OBJECT     BEFORE  "
			"AFTER  "
			"RESULT\n"
			"1970-01-01 00:00:00.000  root      7  backend.drain  w/\\x1b[2J  -       "
			"-      "
			"not-found, 3 times: no\n"
			"1970-01-01 00:00:00.000  SIGHUP    -  config.reload  -          -       - "
			"     "
			"done\n");
}

// No line is wider than the terminal.
TEST(audit_fits_the_terminal) {
	static const char list[] = JSON([{"uid": 0, "pid": 7, "command": "backend.drain",
		"object": "web/web-1", "before": "ready", "after": "drain, deadline in 1m00s",
		"outcome": "done", "why": null, "times": 1}, {"uid": null, "pid": null,
		"command": "weight.set", "object": "web/web-3", "before": "as configured (100)",
		"after": null, "outcome": "forbidden", "times": 4,
		"why": "user 60007 may only read: weight.set is for root, the user of weir-control"}]);

	for (uint32_t width = 40; width <= 120; width += 40) {
		json_t *result = json_loads(list, 0, NULL);
		char *text;
		size_t bytes;
		FILE *out = open_memstream(&text, &bytes);

		setenv("TZ", "UTC0", 1);
		weir_show_audit_within(out, result, width);
		fclose(out);
		for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
			assert_true(width < 80 || strcspn(line, "\n") <= width);
		}
		if (width == 80) {
			assert_string_equal(text,
				"1970-01-01 00:00:00.000  backend.drain  root, pid 7\n"
				"    web/web-1: ready -> drain, deadline in 1m00s\n"
				"1970-01-01 00:00:00.000  weight.set  SIGHUP\n"
				"    web/web-3: forbidden, 4 times: user 60007 may only read: "
				"weight.set is for\n"
				"    root, the user of weir-control\n");
		}
		free(text);
		json_decref(result);
	}
}

// No cause is omitted, because operators read the history to find causes.
TEST(history_shows_causes_on_a_narrow_terminal) {
	static const char list[] = JSON(
		[{"time_ms": 0, "service": "web", "backend": "web-4", "from": "healthy",
			"to": "refusing", "source": "check", "why": "connection refused"},
			{"time_ms": 1, "service": "web", "backend": "web-4", "from": "refusing",
				"to": "refusing", "source": "next-hop", "why": "next hop resolved"},
			{"time_ms": 2, "service": "web", "backend": null, "from": null, "to": null,
				"source": "drain",
				"why": "removed bind tcp 198.51.100.10:80: drain deadline reached: its open flows reset; the whole service has 5 open flows"}]);
	const struct weir_cli cli = {0};

	for (uint32_t width = 80; width <= 200; width += 120) {
		json_t *result = json_loads(list, 0, NULL);
		char *text;
		size_t bytes;
		FILE *out = open_memstream(&text, &bytes);

		setenv("TZ", "UTC0", 1);
		weir_show_history_within(&cli, out, result, width);
		fclose(out);
		if (width == 80) {
			assert_string_equal(text,
				"1970-01-01 00:00:00.000  web/web-4  healthy -> refusing  (check)\n"
				"    connection refused\n"
				"1970-01-01 00:00:00.001  web/web-4  refusing  (next-hop)\n"
				"    next hop resolved\n"
				"1970-01-01 00:00:00.002  web  (drain)\n"
				"    removed bind tcp 198.51.100.10:80: drain deadline reached: "
				"its open flows\n"
				"    reset; the whole service has 5 open flows\n");
		} else {
			expect_contains(text, "TIME                     SERVICE  BACKEND  FROM");
		}
		free(text);
		json_decref(result);
	}
}

// Numbers are never truncated, because a truncated number looks like another number.
TEST(all_reasons_of_refused_steals_are_shown) {
	static const char *const names[] = {"running", "unsettled", "cookies", "no_listener",
		"cannot_tell", "off", "changed", "gone", "unusable", "limit", "late", "no_worker",
		"abandoned"};
	char result[2048] = "{\"services\": [{\"service\": \"web\", \"refused\": {",
	     reasons[1024] = "", expected[1200];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const size_t at = strlen(result), used = strlen(reasons);

		snprintf(result + at, sizeof(result) - at, "%s\"%s\": 9223372036854775807",
			i > 0 ? ", " : "", names[i]);
		snprintf(reasons + used, sizeof(reasons) - used, "%s%s 9223372036854775807",
			i > 0 ? ", " : "", names[i]);
	}
	strcat(result, "}}]}");
	snprintf(expected, sizeof(expected),
		"SERVICE  ENABLED  RELIEVED  ASKED  MOVED  SILENT  REFUSED\n"
		"web      -        -             -      -       -  %s\n",
		reasons);
	expect_shown(weir_show_steals, NULL, result, expected);
}

TEST(flow_by_worker_is_a_line_for_each_backend) {
	expect_shown(weir_show_flow_lookup, NULL,
		JSON({"found": false, "chosen": null, "chosen_by_worker": [{"worker": 0,
			"chosen": "w-2"}, {"worker": 1, "chosen": "w-1"}, {"worker": 2,
			"chosen": null}, {"worker": 3, "chosen": "w-2"}]}),
				"found                 no\n"
				"chosen                -\n"
				"chosen_by_worker.w-2  0, 3\n"
				"chosen_by_worker.w-1  1\n"
				"chosen_by_worker.-    2\n");
	expect_shown(weir_show_flow_lookup, NULL,
		JSON({"chosen": "w-1", "chosen_by_worker": null}), "chosen  w-1\n");
}

TEST(empty_history_has_the_name) {
	expect_shown(weir_show_history, "web/", "[]",
		"no health changes of web/ since the start of weir-control\n");
	expect_shown(weir_show_history, NULL, "[]",
		"no health changes since the start of weir-control\n");
}

TEST(one_by_name_is_a_record) {
	static const char one[] = JSON([{"name": "web", "binds": ["tcp a:1", "tcp b:2"],
		"panic": false, "inner": {"deep": 1.25}}]);

	expect_shown(weir_show_services, "web", one,
		"name        web\nbinds       tcp a:1, tcp b:2\npanic       no\ninner.deep  1.2\n");
}

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
		char rows[256], *text = NULL;
		size_t bytes = 0;
		FILE *out = open_memstream(&text, &bytes);
		json_t *list;

		snprintf(rows, sizeof(rows),
			"[{\"service\": \"web\", \"name\": \"a\", \"runtime_weight\": 22, "
			"\"canary\": %s}]",
			cases[i].canary);
		list = json_loads(rows, 0, NULL);
		weir_show_backends_within(out, list, 0);
		fclose(out);
		if (strstr(text, cases[i].note) == NULL) {
			fail_msg("%s: %s", cases[i].note, text);
		}
		json_decref(list);
		free(text);
	}
}

#define REMOVED(name, flows) \
	"{\"service\": \"web\", \"name\": \"" name "\", \"leaving\": true, " \
	"\"binds_refuse_ms\": 270000, \"open_flows\": " flows "}"

TEST(backends_of_a_removed_service_after_its_deadline) {
	json_t *rows = json_loads(
		"[" REMOVED("a", "0") ", " REMOVED("b", "3") ", " REMOVED("c", "null") "]", 0,
		NULL);
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(rows);
	weir_show_backends_within(out, rows, 0);
	fclose(out);
	assert_non_null(strstr(text, "\nweb/a    leaving, no open flow, removed binds refuse "
				     "packets for another 4m30s\n"));
	assert_non_null(strstr(text, "\nweb/b    leaving, open flows are reset, removed binds "
				     "refuse packets for another 4m30s\n"));
	assert_non_null(strstr(
		text, "\nweb/c    leaving, removed binds refuse packets for another 4m30s\n"));
	free(text);
	json_decref(rows);
}

TEST(health_without_results_of_checks) {
	expect_shown(weir_show_health, NULL,
		JSON([{"service": "web", "backend": "a", "check": "tcp", "health": "healthy",
			"unchecked_ms": 45000, "unchecked_why": "permission denied",
			"last": {"ok": null, "detail": "no result: permission denied"},
			"agent_check": {"last": {"detail": "up"}}}]),
			"SERVICE  BACKEND  CHECK  HEALTH   SINCE  EJECTED  PASSES  FAILS  LAST-OK  "
			"LAST-MS  "
			"AGE  DETAIL\n"
			"web      a        tcp    healthy      -        -       -      -  -        "
			"      -  "
			"  -  no result for 45.0s: permission denied; agent-check: up\n");
}

// If the health check fails, the reason of the check is shown, not the reason of the announced
// state.
TEST(health_that_a_backend_announced) {
	expect_shown(weir_show_health, NULL,
		JSON([{"service": "web", "backend": "a", "check": "http", "word": "down",
			"why": "port 80: no listening socket",
			"last": {"ok": true, "detail": "HTTP 200"},
			"agent_check": {"last": {"detail": "up"}}},
			{"service": "web", "backend": "b", "word": "lame-duck", "why": "lame-duck",
			"last": null},
			{"service": "web", "backend": "c", "word": "down", "why": "refused",
			"last": {"ok": false, "detail": "refused"}},
			{"service": "web", "backend": "d", "word": "ready", "why": "fine",
			"last": {"ok": true, "detail": "HTTP 200"}}]),
						"SERVICE  BACKEND  CHECK  HEALTH  SINCE  EJECTED  "
						"PASSES  FAILS  LAST-OK  "
						"LAST-MS  AGE  DETAIL\n"
						"web      a        http   -           -        -   "
						"    -      -  yes      "
						"      -    -  reports down: port 80: no listening "
						"socket; HTTP 200; "
						"agent-check: up\n"
						"web      b        -      -           -        -   "
						"    -      -  -        "
						"      -    -  reports lame-duck\n"
						"web      c        -      -           -        -   "
						"    -      -  no       "
						"      -    -  refused\n"
						"web      d        -      -           -        -   "
						"    -      -  yes      "
						"      -    -  HTTP 200\n");
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

TEST(changes_of_a_reload) {
	expect_shown(weir_show_changes, NULL,
		JSON({"changes": [{"kind": "add", "what": "a", "to": "x"},{"kind": "remove",
			"what": "b", "from": "y"},{"kind": "change", "what": "c", "from": 1,
			"to": null, "note": "later"},{"kind": "add", "what": "d"}, {}]}),
				"+ a: x\n- b: y\n~ c: 1 -> - (later)\n+ d\n? -\n5 changes in -\n");
}

// The cost of a change is shown in parentheses. The costs of removed objects are also shown on
// stderr.
TEST(costs_of_a_reload) {
	const struct weir_cli_options options = {0};
	json_t *result = json_loads(JSON({"file": "/a.json", "agent_keys": {"read": 2, "new": 1,
		"removed": 0}, "changes": [
		{"kind": "remove", "what": "service s backend b", "from": "y", "cost": {"effect":
		"stay", "flows": 2, "text": "2 open flows: TCP stays"}},
		{"kind": "remove", "what": "service t", "cost": {"effect": "stay", "flows": 1,
		"text": "1 open flow: TCP stays"}},
		{"kind": "change", "what": "service s backend c address", "from": 1, "to": 2,
		"cost": {"effect": "move", "flows": 3, "text": "3 open flows: UDP moves"}},
		{"kind": "remove", "what": "service u", "cost": {"effect": "none", "flows": 0,
		"text": "no open flows"}},
		{"kind": "change", "what": "d", "from": 1, "to": 2, "note": "later", "cost":
		{"effect": "break", "flows": 9, "text": "it breaks 9"}}]}),
							0, NULL);
	struct weir_cli cli = {.options = &options};
	char *out, *err;
	size_t bytes;

	assert_non_null(result);
	cli.out = open_memstream(&out, &bytes);
	cli.err = open_memstream(&err, &bytes);
	weir_show_changes(&cli, result);
	fclose(cli.out);
	fclose(cli.err);
	assert_string_equal(out, "- service s backend b: y (2 open flows: TCP stays)\n"
				 "- service t (1 open flow: TCP stays)\n"
				 "~ service s backend c address: 1 -> 2 (3 open flows: UDP moves)\n"
				 "- service u (no open flows)\n"
				 "~ d: 1 -> 2 (later; it breaks 9)\n"
				 "5 changes in /a.json\n"
				 "agent keys: 2 read (1 new, 0 removed)\n");
	assert_string_equal(err,
		"warning: service t has 1 open flow: TCP stays\n"
		"warning: service s backend c address has 3 open flows: UDP moves\n");
	free(out);
	free(err);
	json_decref(result);
}

// Warnings are written to stderr, because stdout contains only changes.
TEST(warnings_of_a_reload) {
	const struct weir_cli_options options = {0};
	json_t *result = json_loads(JSON({"file": "/a.json", "default_file": "/b.json", "changes": [],
		"warnings": [{"line": 3, "column": 7, "path": "a.b", "reason": "is odd"}]}), 0,
		NULL);
	struct weir_cli cli = {.options = &options};
	char *out, *err;
	size_t bytes;

	cli.out = open_memstream(&out, &bytes);
	cli.err = open_memstream(&err, &bytes);
	weir_show_reload(&cli, result);
	fclose(cli.out);
	fclose(cli.err);
	assert_string_equal(out, "no changes in /a.json\n");
	assert_string_equal(err,
		"/a.json:3:7: warning: a.b: is odd\n"
		"/a.json is in use until weir-control restarts or reloads without a "
		"file; then /b.json is used\n");
	free(out);
	free(err);
	json_decref(result);
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

// The longest name of a backend, in a nested field.
TEST(values_of_long_names_are_aligned) {
	const char name[] = "a23456789-123456789-123456789-123456789-123456789-123456789-123";
	json_t *object = json_pack("{s:i, s:{s:i}}", "a", 1, "chosen_by_worker", name, 2);
	char *text = NULL, *second;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_int_equal(strlen(name), 63);
	weir_show_fields(out, object);
	fclose(out);
	second = strchr(text, '\n') + 1;
	assert_int_equal(strchr(text, '1') - text, strrchr(second, '2') - second);
	free(text);
	json_decref(object);
}

TEST(continued_lines_are_marked) {
	static const struct {
		const char *line;
		uint32_t columns;
		const char *text;
	} cases[] = {{"a 125", 6, "a 125\033[K\n"}, {"a 125", 5, "a 125\n"},
		{"a 125", 4, "a >\033[K\n"}, {"a 125 6", 6, "a 125>\n"}, {"ab", 1, ">\n"},
		{"a 125", 1, ">\n"}, {"", 1, "\033[K\n"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = NULL;
		size_t bytes;
		FILE *out = open_memstream(&text, &bytes);

		weir_show_line(out, cases[i].line, strlen(cases[i].line), cases[i].columns);
		fclose(out);
		assert_string_equal(text, cases[i].text);
		free(text);
	}
}
