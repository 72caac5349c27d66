// SPDX-License-Identifier: BSD-3-Clause
//
// Health of backends, and the history of their health.
#include "show_lab.h"

// Returns the history of these changes on a terminal of this width, in UTC. Owned by the caller.
static char *history_of(const char *list, uint32_t width) {
	const struct weir_cli cli = {0};
	json_t *result = json_loads(list, 0, NULL);
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	setenv("TZ", "UTC0", 1);
	weir_show_history_within(&cli, out, result, width);
	fclose(out);
	json_decref(result);
	return text;
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

	for (uint32_t width = 80; width <= 200; width += 120) {
		char *text = history_of(list, width);

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
	}
}

// Names can have 63 characters. No line is wider than the terminal, and no part of a change is
// omitted.
TEST(history_with_long_names_fits_the_terminal) {
	static const char list[] = JSON(
		[{"time_ms": 0, "service": "198.51.100.53-53-2", "backend": "10.44.0.13",
			"from": "starting", "to": "healthy", "source": "check", "why": "a reply"},
			{"time_ms": 0,
				"service": "a-name-of-the-maximum-length-a-name-of-the-maximum-length-a-nam",
				"backend": "b-name-of-the-maximum-length-a-name-of-the-maximum-length-a-nam",
				"from": "healthy", "to": "lame-duck", "source": "agent", "why": "stops"}]);

	for (uint32_t width = 40; width <= 120; width += 40) {
		char *text = history_of(list, width);

		for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
			assert_true(strcspn(line, "\n") <= width);
		}
		if (width == 80) {
			assert_string_equal(text,
				"1970-01-01 00:00:00.000  198.51.100.53-53-2/10.44.0.13  starting "
				"-> healthy\n"
				"    (check)\n"
				"    a reply\n"
				"1970-01-01 00:00:00.000\n"
				"    "
				"a-name-of-the-maximum-length-a-name-of-the-maximum-length-a-nam/"
				"b-name-of-th\n"
				"    e-maximum-length-a-name-of-the-maximum-length-a-nam  healthy "
				"-> lame-duck\n"
				"    (agent)\n"
				"    stops\n");
		}
		free(text);
	}
}

TEST(empty_history_has_the_name) {
	expect_shown(weir_show_history, "web/", "[]",
		"no health changes of web/ since the start of weir-control\n");
	expect_shown(weir_show_history, NULL, "[]",
		"no health changes since the start of weir-control\n");
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
