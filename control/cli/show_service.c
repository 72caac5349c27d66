// SPDX-License-Identifier: BSD-3-Clause
//
// Prints services, changes of services, and reports of backends.
#include <stdio.h>
#include <string.h>

#include "show_narrow.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

// Print a service with all details; its shares are a separate table.
static void show_single(FILE *out, json_t *service) {
	static const struct weir_show_choice choices[] = {
		{{"BACKEND", "backend", WEIR_SHOW_TEXT}, NULL, 0},
		{{"IN-USE", "in_selection", WEIR_SHOW_FLAG}, NULL, 5},
		{{"WEIGHT", "weight", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"EFFECTIVE-%", "effective_share_percent", WEIR_SHOW_PERCENT}, NULL, 6},
		{{"ACHIEVED-%", "achieved_share_percent", WEIR_SHOW_PERCENT}, NULL, 4},
		{{"OPEN-FLOWS", "open_flows", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"ERRORS", "errors", WEIR_SHOW_NUMBER}, NULL, 3},
		{{"SERVICE-MS", "service_time_ms", WEIR_SHOW_DECIMAL}, "-", 2},
		{{"SAMPLES", "samples", WEIR_SHOW_NUMBER}, "-", 1},
	};
	json_t *shares = json_incref(json_object_get(service, "shares"));

	json_object_del(service, "shares");
	json_object_del(service, "warnings");
	weir_show_fields(out, service);
	if (shares != NULL) {
		fprintf(out, "\n");
		weir_show_list(out, shares, choices, COUNT(choices), "no backends");
	}
	json_decref(shares);
}

static void show_warnings(FILE *out, const json_t *service, const json_t *warnings) {
	char name[80], text[512];
	json_t *warning;
	size_t i;

	json_array_foreach (warnings, i, warning) {
		fprintf(out, "warning: service %s: %s\n",
			weir_show_value(json_object_get(service, "name"), WEIR_SHOW_TEXT, name,
				sizeof(name)),
			weir_show_value(warning, WEIR_SHOW_TEXT, text, sizeof(text)));
	}
}

// Returns a text with the binds that fit into a third of the width (at least one bind), and the
// number of omitted binds, such as " +3".
static json_t *some_binds(const json_t *binds, uint32_t width) {
	size_t count = json_array_size(binds), n;
	char text[512], one[128];
	size_t used = 0;

	text[0] = '\0';
	for (n = 0; n < count; n++) {
		weir_show_value(json_array_get(binds, n), WEIR_SHOW_TEXT, one, sizeof(one));
		if (n > 0 &&
			used + 2 + strlen(one) + (n + 1 < count ? strlen(" +99") : 0) > width / 3) {
			break;
		}
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%s%s", n > 0 ? ", " : "", one);
		used = used < sizeof(text) ? used : sizeof(text) - 1;
	}
	if (n < count) {
		snprintf(text + used, sizeof(text) - used, " +%zu", count - n);
	}
	return json_string(text);
}

// Returns the rows of the table, owned by the caller. If `out` is a terminal, a row shows only as
// many binds as fit into a third of the width of the terminal.
static json_t *rows_for(FILE *out, const json_t *services) {
	const uint32_t width = weir_show_width(out);
	json_t *rows = json_array(), *service;
	size_t i;

	json_array_foreach (services, i, service) {
		json_t *row = json_copy(service);
		const json_t *binds = json_object_get(row, "binds");

		if (width > 0 && json_array_size(binds) > 1) {
			json_object_set_new(row, "binds", some_binds(binds, width));
		}
		json_array_append_new(rows, row);
	}
	return rows;
}

void weir_show_services(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_choice choices[] = {
		{{"SERVICE", "name", WEIR_SHOW_TEXT}, NULL, 0},
		{{"POLICY", "policy", WEIR_SHOW_TEXT}, NULL, 5},
		{{"SLOTS", "slots", WEIR_SHOW_NUMBER}, NULL, 1},
		{{"BACKENDS", "backends", WEIR_SHOW_NUMBER}, NULL, 7},
		{{"ELIGIBLE", "eligible", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"PANIC", "panic", WEIR_SHOW_FLAG}, "no", 0},
		{{"ACTIVE-FLOWS", "active_flows", WEIR_SHOW_NUMBER}, NULL, 8},
		{{"NEW-FLOWS", "new_flows", WEIR_SHOW_NUMBER}, NULL, 4},
		{{"PACKETS", "packets", WEIR_SHOW_NUMBER}, NULL, 3},
		{{"BYTES", "bytes", WEIR_SHOW_NUMBER}, NULL, 2},
		{{"DROPPED", "dropped", WEIR_SHOW_NUMBER}, "0", 6},
		{{"BINDS", "binds", WEIR_SHOW_TEXT}, NULL, 9},
	};
	json_t *one = weir_show_is_single(cli, result) ? json_array_get(result, 0) : NULL;
	json_t *warnings, *service, *rows;
	size_t i;

	if (one != NULL) {
		warnings = json_incref(json_object_get(one, "warnings"));
		show_single(cli->out, one);
		show_warnings(cli->out, one, warnings);
		json_decref(warnings);
		return;
	}
	rows = rows_for(cli->out, result);
	weir_show_list(cli->out, rows, choices, COUNT(choices), "no services");
	json_decref(rows);
	json_array_foreach (result, i, service) {
		show_warnings(cli->out, service, json_object_get(service, "warnings"));
	}
}

void weir_show_policy(const struct weir_cli *cli, json_t *result) {
	char service[80], policy[64];

	fprintf(cli->out, "%s: policy %s%s\n",
		weir_show_value(json_object_get(result, "service"), WEIR_SHOW_TEXT, service,
			sizeof(service)),
		weir_show_value(json_object_get(result, "effective_policy"), WEIR_SHOW_TEXT, policy,
			sizeof(policy)),
		json_is_null(json_object_get(result, "policy")) ? ", from the configuration" : "");
}

// Change the keys of the API (with underscores) to keys of the command line (with hyphens), in
// place. Returns text.
static char *with_dashes(char *text) {
	for (char *c = text; *c; c++) {
		*c = *c == '_' ? '-' : *c;
	}
	return text;
}

void weir_show_report(const struct weir_cli *cli, json_t *result) {
	const json_t *not_used = json_object_get(result, "not_used");
	char service[80], backend[80], used[160], rest[160];

	weir_show_value(json_object_get(result, "used"), WEIR_SHOW_TEXT, used, sizeof(used));
	weir_show_value(not_used, WEIR_SHOW_TEXT, rest, sizeof(rest));
	fprintf(cli->out, "%s/%s: accepted %s",
		weir_show_value(json_object_get(result, "service"), WEIR_SHOW_TEXT, service,
			sizeof(service)),
		weir_show_value(json_object_get(result, "backend"), WEIR_SHOW_TEXT, backend,
			sizeof(backend)),
		with_dashes(used));
	if (json_array_size(not_used) > 0) {
		fprintf(cli->out, "; ignored by policy: %s", with_dashes(rest));
	}
	fprintf(cli->out, "\n");
}
