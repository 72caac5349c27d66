// SPDX-License-Identifier: BSD-3-Clause
//
// The audit list, also on narrow terminals.
#include "show_lab.h"

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
			assert_true(strcspn(line, "\n") <= width);
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
