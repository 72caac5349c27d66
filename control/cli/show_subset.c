// SPDX-License-Identifier: BSD-3-Clause
//
// Prints subsets of backends.
#include <stdlib.h>
#include <string.h>

#include "show.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

static void copy(json_t *row, const json_t *from, const char *key) {
	json_t *value = json_object_get(from, key);

	if (value != NULL) {
		json_object_set(row, key, value);
	}
}

// Add rows for the subsets of a service. list: key of an array in each subset, such as its members:
// one row is added for each element, with the worker of the subset. NULL: one row is added for each
// subset, with the settings of the service.
static void add_rows(json_t *rows, const json_t *service, const char *list) {
	const json_t *subsets = json_object_get(service, "subsets");
	json_t *subset, *one;
	size_t i, j;

	json_array_foreach (subsets, i, subset) {
		if (list == NULL) {
			one = json_copy(subset);
			json_object_del(one, "members");
			copy(one, service, "service");
			copy(one, service, "algorithm");
			copy(one, service, "size");
			copy(one, service, "client_is");
			copy(one, service, "clients");
			copy(one, service, "backends");
			json_array_append_new(rows, one);
			continue;
		}
		json_array_foreach (json_object_get(subset, list), j, one) {
			copy(one, subset, "worker");
			json_array_append(rows, one);
		}
	}
}

static void show_members(FILE *out, const json_t *service) {
	static const struct weir_show_column columns[] = {
		{"WORKER", "worker", WEIR_SHOW_NUMBER},
		{"BACKEND", "backend", WEIR_SHOW_TEXT},
		{"STATE", "state", WEIR_SHOW_TEXT},
		{"ADMIN", "admin", WEIR_SHOW_TEXT},
		{"HEALTH", "health", WEIR_SHOW_TEXT},
		{"REPLACES", "replaces", WEIR_SHOW_TEXT},
	};
	bool workers = json_array_size(json_object_get(service, "subsets")) > 1;
	uint32_t first = workers ? 0 : 1; // no column of workers if all workers use one subset
	json_t *rows = json_array(), *subset;
	json_int_t omitted = 0;
	size_t i;

	add_rows(rows, service, "members");
	weir_show_table(out, rows, columns + first, COUNT(columns) - first, "no members");
	json_decref(rows);
	json_array_foreach (json_object_get(service, "subsets"), i, subset) {
		omitted += json_integer_value(json_object_get(subset, "members_omitted"));
	}
	if (omitted > 0) {
		fprintf(out, "(members not listed: %" JSON_INTEGER_FORMAT ")\n", omitted);
	}
}

static void show_clients(FILE *out, const json_t *service) {
	static const struct weir_show_column columns[] = {
		{"BACKEND", "backend", WEIR_SHOW_TEXT},
		{"USABLE", "usable", WEIR_SHOW_FLAG},
		{"CLIENTS", "clients", WEIR_SHOW_NUMBER},
	};
	const json_t *summary = json_object_get(service, "clients_of_a_backend");
	const json_t *list = json_object_get(service, "clients_of_backends");
	const json_t *counted = json_object_get(json_array_get(list, 0), "clients");
	char least[32], mean[32], most[32];

	if (!json_is_integer(counted)) {
		return; // not counted, because there are too many clients and backends
	}
	if (summary == NULL || json_is_null(summary)) {
		fprintf(out, "\nno backend is usable\n\n");
	} else {
		fprintf(out,
			"\n"
			"clients per usable backend: min %s, mean %s, max %s\n"
			"\n",
			weir_show_value(json_object_get(summary, "least"), WEIR_SHOW_NUMBER, least,
				sizeof(least)),
			weir_show_value(json_object_get(summary, "mean"), WEIR_SHOW_NUMBER, mean,
				sizeof(mean)),
			weir_show_value(json_object_get(summary, "most"), WEIR_SHOW_NUMBER, most,
				sizeof(most)));
	}
	weir_show_table(out, list, columns, COUNT(columns), "no backends");
}

static void show_single(FILE *out, const json_t *service) {
	static const char *const keys[] = {"service", "algorithm", "mode", "size", "salt",
		"client_is", "clients", "backends", "panic"};
	const json_t *subsets = json_object_get(service, "subsets");
	json_t *numbers = json_array(), *fields = json_object(), *subset;
	size_t i;

	for (i = 0; i < COUNT(keys); i++) {
		copy(fields, service, keys[i]);
	}
	json_array_foreach (subsets, i, subset) {
		json_array_append(numbers, json_object_get(subset, "client"));
	}
	json_object_set_new(fields, "this_instance", numbers);
	weir_show_fields(out, fields);
	json_decref(fields);
	fprintf(out, "\n");
	show_members(out, service);
	show_clients(out, service);
}

void weir_show_subsets(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_column columns[] = {
		{"SERVICE", "service", WEIR_SHOW_TEXT},
		{"ALGORITHM", "algorithm", WEIR_SHOW_TEXT},
		{"SIZE", "size", WEIR_SHOW_NUMBER},
		{"CLIENT-IS", "client_is", WEIR_SHOW_TEXT},
		{"WORKER", "worker", WEIR_SHOW_NUMBER},
		{"CLIENT", "client", WEIR_SHOW_NUMBER},
		{"CLIENTS", "clients", WEIR_SHOW_NUMBER},
		{"BACKENDS", "backends", WEIR_SHOW_NUMBER},
		{"IN-USE", "in_use", WEIR_SHOW_NUMBER},
		{"UNUSABLE", "unusable", WEIR_SHOW_NUMBER},
		{"REPLACEMENTS", "replacements", WEIR_SHOW_NUMBER},
	};
	json_t *rows, *service;
	size_t i;

	if (weir_show_is_single(cli, result)) {
		show_single(cli->out, json_array_get(result, 0));
		return;
	}
	rows = json_array();
	json_array_foreach (result, i, service) {
		add_rows(rows, service, NULL);
	}
	weir_show_table(cli->out, rows, columns, COUNT(columns), "no services");
	json_decref(rows);
}
