// SPDX-License-Identifier: BSD-3-Clause
//
// Output for services, changes to them, and reports for them.
#include "show.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

// Shares are a separate table; warnings are printed last.
static void show_single(FILE *out, json_t *service) {
	static const struct weir_show_column columns[] = {
		{"BACKEND", "backend", WEIR_SHOW_TEXT},
		{"IN-USE", "in_selection", WEIR_SHOW_FLAG},
		{"WEIGHT", "weight", WEIR_SHOW_NUMBER},
		{"EFFECTIVE-%", "effective_share_percent", WEIR_SHOW_PERCENT},
		{"ACHIEVED-%", "achieved_share_percent", WEIR_SHOW_PERCENT},
		{"OPEN-FLOWS", "open_flows", WEIR_SHOW_NUMBER},
		{"ERRORS", "errors", WEIR_SHOW_NUMBER},
		{"SERVICE-MS", "service_time_ms", WEIR_SHOW_DECIMAL},
		{"SAMPLES", "samples", WEIR_SHOW_NUMBER},
	};
	json_t *shares = json_incref(json_object_get(service, "shares"));

	json_object_del(service, "shares");
	json_object_del(service, "warnings");
	weir_show_fields(out, service);
	if (shares != NULL) {
		fprintf(out, "\n");
		weir_show_table(out, shares, columns, COUNT(columns), "no backends");
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

void weir_show_services(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_column columns[] = {
		{"SERVICE", "name", WEIR_SHOW_TEXT},
		{"POLICY", "policy", WEIR_SHOW_TEXT},
		{"SLOTS", "slots", WEIR_SHOW_NUMBER},
		{"BACKENDS", "backends", WEIR_SHOW_NUMBER},
		{"ELIGIBLE", "eligible", WEIR_SHOW_NUMBER},
		{"PANIC", "panic", WEIR_SHOW_FLAG},
		{"ACTIVE-FLOWS", "active_flows", WEIR_SHOW_NUMBER},
		{"NEW-FLOWS", "new_flows", WEIR_SHOW_NUMBER},
		{"PACKETS", "packets", WEIR_SHOW_NUMBER},
		{"BYTES", "bytes", WEIR_SHOW_NUMBER},
		{"DROPPED", "dropped", WEIR_SHOW_NUMBER},
		{"BINDS", "binds", WEIR_SHOW_TEXT},
	};
	json_t *one = weir_show_is_single(cli, result) ? json_array_get(result, 0) : NULL;
	json_t *warnings, *service;
	size_t i;

	if (one != NULL) {
		warnings = json_incref(json_object_get(one, "warnings"));
		show_single(cli->out, one);
		show_warnings(cli->out, one, warnings);
		json_decref(warnings);
		return;
	}
	weir_show_table(cli->out, result, columns, COUNT(columns), "no services");
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

// The API's key names as they are written on the command line.
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
