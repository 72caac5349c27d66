// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the audit list as text: changes and refused requests.
#include <pwd.h>
#include <string.h>

#include "show_narrow.h"

#define CELL 400

// Add the name of the user to a row. weirctl looks up the name, because weir-control must not wait
// for a directory service.
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

// Add the outcome, such as "forbidden, 3 times", and the reason to a row.
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
		0) { // truncated inside a UTF-8 character
		json_object_set_new(row, "result", json_string(outcome));
	}
}

// Write a change as in the log, such as "web/web-1: ready -> drain", or the reason why the request
// was refused. Returns text.
static const char *change_of(const json_t *row, char *text, size_t bytes) {
	const json_t *before = json_object_get(row, "before"),
		     *after = json_object_get(row, "after");
	const char *outcome = json_string_value(json_object_get(row, "outcome"));
	const bool done = outcome != NULL && strcmp(outcome, "done") == 0;
	char object[CELL], from[CELL], to[CELL];

	weir_show_value(json_object_get(row, "object"), WEIR_SHOW_TEXT, object, sizeof(object));
	weir_show_value(before, WEIR_SHOW_TEXT, from, sizeof(from));
	weir_show_value(
		done ? after : json_object_get(row, "result"), WEIR_SHOW_TEXT, to, sizeof(to));
	snprintf(text, bytes, "%s: %s%s%s", object, done && json_is_string(before) ? from : "",
		done && json_is_string(before) && json_is_string(after) ? " -> " : "",
		!done || json_is_string(after) ? to : "");
	// After a successful change, "why" is the reason why the change is not published yet.
	if (done && json_is_string(json_object_get(row, "why"))) {
		snprintf(text + strlen(text), bytes - strlen(text), "; %.100s",
			weir_show_value(
				json_object_get(row, "why"), WEIR_SHOW_TEXT, to, sizeof(to)));
	}
	return text;
}

// Write the time, the command and the user of an entry. Returns text.
static const char *head_of(const json_t *row, char *text, size_t bytes) {
	char time[CELL], user[CELL], pid[CELL], command[CELL];

	snprintf(text, bytes, "%s  %s  %s%s%s",
		weir_show_value(json_object_get(row, "time"), WEIR_SHOW_TEXT, time, sizeof(time)),
		weir_show_value(
			json_object_get(row, "command"), WEIR_SHOW_TEXT, command, sizeof(command)),
		weir_show_value(json_object_get(row, "user"), WEIR_SHOW_TEXT, user, sizeof(user)),
		json_is_integer(json_object_get(row, "pid")) ? ", pid " : "",
		json_is_integer(json_object_get(row, "pid"))
			? weir_show_value(
				  json_object_get(row, "pid"), WEIR_SHOW_NUMBER, pid, sizeof(pid))
			: "");
	return text;
}

// Print entries to fit a terminal of this width: user and time in one line, or more if they are too
// long, and the change in the next lines.
static void show_within(FILE *out, const json_t *rows, uint32_t width) {
	char text[4 * CELL];
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		weir_show_hanging(out, head_of(row, text, sizeof(text)), width);
		weir_show_wrapped(out, change_of(row, text, sizeof(text)), width);
	}
}

void weir_show_audit_within(FILE *out, json_t *result, uint32_t width) {
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
	if (width > 0 && json_array_size(result) > 0) {
		show_within(out, result, width);
		return;
	}
	weir_show_table(out, result, columns, sizeof(columns) / sizeof(columns[0]),
		"no changes since the start of weir-control");
}

void weir_show_audit(const struct weir_cli *cli, json_t *result) {
	weir_show_audit_within(cli->out, result, weir_show_width(cli->out));
}
