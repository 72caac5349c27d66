// SPDX-License-Identifier: BSD-3-Clause
//
// The audit list as text: changes and refused requests.
#include <pwd.h>
#include <string.h>

#include "show.h"

#define CELL 400

// Resolve the user name in weirctl: weir-control must not block on a directory service.
static void add_user(json_t *row) {
	const json_t *uid = json_object_get(row, "uid");
	const struct passwd *user;
	char text[32];

	if (!json_is_integer(uid)) {
		json_object_set_new(row, "user", json_string("SIGHUP"));
		return;
	}
	user = getpwuid((uid_t)json_integer_value(uid));
	snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(uid));
	if (user == NULL || json_object_set_new(row, "user", json_string(user->pw_name)) < 0) {
		json_object_set_new(row, "user", json_string(text));
	}
}

// "forbidden, 3 times", and the reason.
static void add_outcome(json_t *row) {
	const char *outcome = json_string_value(json_object_get(row, "outcome"));
	const char *why = json_string_value(json_object_get(row, "why"));
	json_int_t times = json_integer_value(json_object_get(row, "times"));
	char text[CELL], count[48] = "";

	if (times > 1) {
		snprintf(count, sizeof(count), ", %" JSON_INTEGER_FORMAT " times", times);
	}
	snprintf(text, sizeof(text), "%.32s%s%s%s", outcome != NULL ? outcome : "-", count,
		why != NULL ? ": " : "", why != NULL ? why : "");
	if (json_object_set_new(row, "result", json_string(text)) <
		0) { // truncated inside a character
		json_object_set_new(row, "result", json_string(outcome));
	}
}

void weir_show_audit(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_column columns[] = {
		{"TIME", "time", WEIR_SHOW_TEXT},
		{"USER", "user", WEIR_SHOW_TEXT},
		{"PID", "pid", WEIR_SHOW_NUMBER},
		{"COMMAND", "command", WEIR_SHOW_TEXT},
		{"OBJECT", "object", WEIR_SHOW_TEXT},
		{"BEFORE", "before", WEIR_SHOW_TEXT},
		{"AFTER", "after", WEIR_SHOW_TEXT},
		{"RESULT", "result", WEIR_SHOW_TEXT},
	};
	json_t *row;
	size_t i;

	json_array_foreach (result, i, row) {
		weir_show_add_time(row);
		add_user(row);
		add_outcome(row);
	}
	weir_show_table(cli->out, result, columns, sizeof(columns) / sizeof(columns[0]),
		"no changes since the start of weir-control");
}
