// SPDX-License-Identifier: BSD-3-Clause
//
// Backends: a line for each, or a page for one.
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "show.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))
#define NOTES 192

__attribute__((format(printf, 3, 4))) static void add(
	char *notes, size_t *used, const char *format, ...) {
	va_list args;
	int n;

	if (*used > 0 && *used + 2 < NOTES) {
		memcpy(notes + *used, ", ", 3);
		*used += 2;
	}
	va_start(args, format);
	n = vsnprintf(notes + *used, NOTES - *used, format, args);
	va_end(args);
	*used += n < 0 ? 0 : (size_t)n < NOTES - *used ? (size_t)n : NOTES - *used - 1;
}

static void add_drain(char *notes, size_t *used, const json_t *drain) {
	const char *state = json_string_value(json_object_get(drain, "state"));
	const json_t *left = json_object_get(drain, "left_ms");

	if (state == NULL) {
		return;
	}
	if (json_is_integer(left)) {
		add(notes, used, "%s, %.1f s left", state, json_number_value(left) / 1000);
	} else {
		add(notes, used, "%s", state);
	}
}

// With one digit behind the point.
static json_t *json_seconds(const json_t *ms) {
	return json_real(round(json_number_value(ms) / 100) / 10);
}

// What is out of the ordinary about a backend, in words.
static void add_notes(json_t *row) {
	const char *word = json_string_value(json_object_get(row, "word"));
	const json_t *age = json_object_get(json_object_get(row, "report"), "age_ms");
	const json_t *since = json_object_get(row, "since_ms");
	char notes[NOTES] = "";
	size_t used = 0;

	if (json_is_true(json_object_get(row, "leaving"))) {
		add(notes, &used, "leaving");
	}
	if (json_is_false(json_object_get(row, "resolved"))) {
		add(notes, &used, "no next hop");
	}
	if (json_is_true(json_object_get(row, "ejected"))) {
		add(notes, &used, "ejected");
	}
	add_drain(notes, &used, json_object_get(row, "drain"));
	if (word != NULL && (strcmp(word, "lame-duck") == 0 || strcmp(word, "down") == 0)) {
		add(notes, &used, "says %s", word);
	}
	if (json_is_true(json_object_get(row, "at_limit"))) {
		add(notes, &used, "accept queue full");
	}
	json_object_set_new(row, "notes", json_string(notes));
	if (json_is_integer(since)) {
		json_object_set_new(row, "since_s", json_seconds(since));
	}
	if (json_is_integer(age)) {
		json_object_set_new(row, "age_s", json_seconds(age));
	}
}

// --- one of them ----------------------------------------------------------------------------

static const char *const of_state[] = {"admin", "drain", "health", "since_ms", "why", "verdict",
	"word", "leaving", "resolved", "ejected", "at_limit", "in_selection", NULL};
static const char *const of_weight[] = {"weight", "runtime_weight", "reported_weight", "own_weight",
	"effective_weight", "slow_start_percent", "share_percent", "achieved_percent", NULL};

// Print these members under a title, and take them out of the object.
static void print_section(FILE *out, json_t *object, const char *title, const char *const keys[]) {
	json_t *section = json_object();

	for (size_t i = 0; keys[i] != NULL; i++) {
		json_t *value = json_object_get(object, keys[i]);

		if (value != NULL) {
			json_object_set(section, keys[i], value);
			json_object_del(object, keys[i]);
		}
	}
	if (json_object_size(section) > 0) {
		fprintf(out, "\n%s\n", title);
		weir_show_fields(out, section);
	}
	json_decref(section);
}

static void print_rest(FILE *out, const json_t *rest) {
	if (json_object_size(rest) > 0) {
		fprintf(out, "\nFLOWS\n");
		weir_show_fields(out, rest);
	}
}

// With the digits that were told.
static void print_report(FILE *out, const json_t *report) {
	json_t *shown = json_object();
	const char *key;
	json_t *value;
	char text[32];

	json_object_foreach ((json_t *)report, key, value) {
		if (json_is_real(value)) {
			snprintf(text, sizeof(text), "%.6g", json_real_value(value));
			json_object_set_new(shown, key, json_string(text));
		} else {
			json_object_set(shown, key, value);
		}
	}
	fprintf(out, "\nLAST REPORT\n");
	weir_show_fields(out, shown);
	json_decref(shown);
}

// "auto", with what it comes to now.
static void describe_weight(json_t *row) {
	const json_t *automatic = json_object_get(row, "auto_weight");
	json_int_t weight = json_integer_value(json_object_get(row, "weight"));
	char text[64];

	if (json_is_integer(automatic)) {
		snprintf(text, sizeof(text), "auto (%" JSON_INTEGER_FORMAT "%s)", weight,
			json_integer_value(automatic) > 0 ? "" : ", its CPUs are not reported yet");
		json_object_set_new(row, "weight", json_string(text));
	}
	json_object_del(row, "auto_weight");
}

static void show_one(FILE *out, json_t *row) {
	static const char *const first[] = {"service", "name", "id", "address", "path_mtu"};
	json_t *rest = json_copy(row), *head = json_object();
	const char *why = json_string_value(json_object_get(row, "why"));

	if (why != NULL && why[0] == '\0') {
		json_object_set_new(rest, "why", json_null());
	}

	for (size_t i = 0; i < COUNT(first); i++) {
		json_object_set(head, first[i], json_object_get(rest, first[i]));
		json_object_del(rest, first[i]);
	}
	describe_weight(rest);
	weir_show_fields(out, head);
	print_section(out, rest, "STATE", of_state);
	print_section(out, rest, "WEIGHT", of_weight);
	if (json_is_object(json_object_get(rest, "report"))) {
		print_report(out, json_object_get(rest, "report"));
	} else if (json_object_get(rest, "report") != NULL) {
		fprintf(out, "\nLAST REPORT\nnone\n");
	}
	json_object_del(rest, "report");
	print_rest(out, rest);
	json_decref(head);
	json_decref(rest);
}

// --- all of them ----------------------------------------------------------------------------

void weir_show_backends(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_column columns[] = {
		{"SERVICE", "service", WEIR_SHOW_TEXT},
		{"BACKEND", "name", WEIR_SHOW_TEXT},
		{"ADDRESS", "address", WEIR_SHOW_TEXT},
		{"ADMIN", "admin", WEIR_SHOW_TEXT},
		{"HEALTH", "health", WEIR_SHOW_TEXT},
		{"SINCE-S", "since_s", WEIR_SHOW_PERCENT},
		{"IN-USE", "in_selection", WEIR_SHOW_FLAG},
		{"WEIGHT", "weight", WEIR_SHOW_NUMBER},
		{"RUNTIME", "runtime_weight", WEIR_SHOW_NUMBER},
		{"REPORTED", "reported_weight", WEIR_SHOW_NUMBER},
		{"EFFECTIVE", "effective_weight", WEIR_SHOW_NUMBER},
		{"SHARE-%", "share_percent", WEIR_SHOW_PERCENT},
		{"NEW-%", "achieved_percent", WEIR_SHOW_PERCENT},
		{"ACTIVE-FLOWS", "active_flows", WEIR_SHOW_NUMBER},
		{"NEW-FLOWS", "new_flows", WEIR_SHOW_NUMBER},
		{"REFUSED", "refused", WEIR_SHOW_NUMBER},
		{"TIMED-OUT", "timed_out", WEIR_SHOW_NUMBER},
		{"DROPPED", "dropped", WEIR_SHOW_NUMBER},
		{"REPORT-AGE-S", "age_s", WEIR_SHOW_PERCENT},
		{"NOTES", "notes", WEIR_SHOW_TEXT},
	};
	json_t *row;
	size_t i;

	if (weir_show_is_single(cli, result)) {
		show_one(cli->out, json_array_get(result, 0));
		return;
	}
	json_array_foreach (result, i, row) {
		add_notes(row);
	}
	weir_show_table(cli->out, result, columns, COUNT(columns), "no backends");
}
