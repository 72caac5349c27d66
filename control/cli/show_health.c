// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the health of backends, and the health history.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "show_narrow.h"
#include "terminal.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

// Write the state that the backend announces; "" if it announces none or "ready". Also writes "" if
// the last health check failed, because the backend's state then depends on the check.
static void describe_word(const json_t *row, char *to, size_t bytes) {
	const char *word = json_string_value(json_object_get(row, "word"));
	const char *why = json_string_value(json_object_get(row, "why"));
	bool fails = json_is_false(json_object_get(json_object_get(row, "last"), "ok"));

	to[0] = '\0';
	if (word != NULL && !fails && strcmp(word, "nothing") != 0 && strcmp(word, "ready") != 0) {
		bool has_why = why != NULL && why[0] != '\0' && strcmp(why, word) != 0;

		snprintf(to, bytes, "reports %.15s%s%.96s", word, has_why ? ": " : "",
			has_why ? why : "");
	}
}

// Add to a row: the announced state, the result of the last health check, and the result of the
// agent-check.
static void add_findings(json_t *row) {
	const json_t *last = json_object_get(row, "last");
	const json_t *agent = json_object_get(json_object_get(row, "agent_check"), "last");
	const char *detail = json_string_value(json_object_get(last, "detail"));
	const char *agent_detail = json_string_value(json_object_get(agent, "detail"));
	const json_t *since = json_object_get(row, "unchecked_ms");
	const char *why = json_string_value(json_object_get(row, "unchecked_why"));
	char text[480], word[128], unchecked[160], length[32];

	if (json_is_integer(since)) {
		snprintf(unchecked, sizeof(unchecked), "no result for %s: %.96s",
			weir_show_value(since, WEIR_SHOW_DURATION, length, sizeof(length)),
			why != NULL ? why : "");
		detail = unchecked;
	}
	describe_word(row, word, sizeof(word));
	snprintf(text, sizeof(text), "%s%s%.159s%s%.96s", word,
		word[0] != '\0' && detail != NULL ? "; " : "", detail != NULL ? detail : "",
		agent_detail == NULL                ? ""
		: word[0] != '\0' || detail != NULL ? "; agent-check: "
						    : "agent-check: ",
		agent_detail != NULL ? agent_detail : "");
	if (text[0] != '\0') {
		json_object_set_new(row, "findings", json_string(text));
	}
}

static void add_way(json_t *row) {
	const char *check = json_string_value(json_object_get(row, "check"));
	const char *via = json_string_value(json_object_get(row, "via"));
	char text[64];

	if (check != NULL && via != NULL && strcmp(via, "data-path") == 0) {
		snprintf(text, sizeof(text), "%.20s via %s", check, via);
		json_object_set_new(row, "check", json_string(text));
	}
}

void weir_show_health(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_choice choices[] = {
		{{"SERVICE", "service", WEIR_SHOW_TEXT}, NULL, 0},
		{{"BACKEND", "backend", WEIR_SHOW_TEXT}, NULL, 0},
		{{"CHECK", "check", WEIR_SHOW_TEXT}, NULL, 6},
		{{"HEALTH", "health", WEIR_SHOW_TEXT}, NULL, 0},
		{{"SINCE", "since_ms", WEIR_SHOW_DURATION}, NULL, 8},
		{{"EJECTED", "ejected_ms", WEIR_SHOW_DURATION}, "-", 0},
		{{"PASSES", "passes", WEIR_SHOW_NUMBER}, NULL, 1},
		{{"FAILS", "fails", WEIR_SHOW_NUMBER}, NULL, 5},
		{{"LAST-OK", "last.ok", WEIR_SHOW_FLAG}, NULL, 2},
		{{"LAST-MS", "last.duration_ms", WEIR_SHOW_NUMBER}, NULL, 4},
		{{"AGE", "last.age_ms", WEIR_SHOW_DURATION}, NULL, 3},
		{{"DETAIL", "findings", WEIR_SHOW_TEXT}, NULL, 9},
	};
	json_t *row;
	size_t i;

	json_array_foreach (result, i, row) {
		add_findings(row);
		add_way(row);
	}
	if (weir_show_width(cli->out) > 0) {
		weir_show_service_once(result);
	}
	weir_show_list(cli->out, result, choices, COUNT(choices), "no backends");
}

static const char *text_of(const json_t *row, const char *key, char *text, size_t bytes) {
	return weir_show_value(json_object_get(row, key), WEIR_SHOW_TEXT, text, bytes);
}

// Write the time, the backend and the change of a row. Returns text.
static const char *describe_change(const json_t *row, char *text, size_t bytes) {
	char time[64], service[80], backend[80], from[32], to[32], source[32];
	int used = snprintf(text, bytes, "%s  %s", text_of(row, "time", time, sizeof(time)),
		text_of(row, "service", service, sizeof(service)));

	// A row without a backend is a change of a service.
	if (json_is_string(json_object_get(row, "backend"))) {
		text_of(row, "from", from, sizeof(from));
		text_of(row, "to", to, sizeof(to));
		used += snprintf(text + used, bytes - (size_t)used, "/%s  %s%s%s",
			text_of(row, "backend", backend, sizeof(backend)), from,
			strcmp(from, to) == 0 ? "" : " -> ", strcmp(from, to) == 0 ? "" : to);
	}
	snprintf(text + used, bytes - (size_t)used, "  (%s)",
		text_of(row, "source", source, sizeof(source)));
	return text;
}

// Print changes to fit a terminal of this width: time, backend and change in one line, or more if
// they are too long, and the reason in the next lines.
static void show_below(FILE *out, const json_t *rows, uint32_t width) {
	char change[384], why[256]; // more than all texts of a change
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		weir_show_hanging(out, describe_change(row, change, sizeof(change)), width);
		weir_show_wrapped(out, text_of(row, "why", why, sizeof(why)), width);
	}
}

void weir_show_history_within(
	const struct weir_cli *cli, FILE *out, json_t *result, uint32_t width) {
	static const struct weir_show_choice choices[] = {
		{{"TIME", "time", WEIR_SHOW_TEXT}, NULL, 0},
		{{"SERVICE", "service", WEIR_SHOW_TEXT}, NULL, 0},
		{{"BACKEND", "backend", WEIR_SHOW_TEXT}, NULL, 0},
		{{"FROM", "from", WEIR_SHOW_TEXT}, NULL, 0},
		{{"TO", "to", WEIR_SHOW_TEXT}, NULL, 0},
		{{"SOURCE", "source", WEIR_SHOW_TEXT}, NULL, 0},
		{{"WHY", "why", WEIR_SHOW_TEXT}, NULL, 0},
	};
	const char *word = cli->count > 0 ? cli->words[0] : NULL;
	char nothing[256], name[160];
	json_t *row;
	size_t i;

	json_array_foreach (result, i, row) {
		weir_show_add_time(row);
	}
	if (width > 0 && weir_show_least_width(result, choices, COUNT(choices)) > width) {
		show_below(out, result, width);
		return;
	}
	if (word == NULL) {
		snprintf(nothing, sizeof(nothing),
			"no health changes since the start of weir-control");
	} else {
		snprintf(nothing, sizeof(nothing),
			"no health changes of %s since the start of weir-control",
			weir_terminal_text(word, name, sizeof(name)));
	}
	weir_show_narrow(out, result, choices, COUNT(choices), nothing, 0);
}

void weir_show_history(const struct weir_cli *cli, json_t *result) {
	weir_show_history_within(cli, cli->out, result, weir_show_width(cli->out));
}
