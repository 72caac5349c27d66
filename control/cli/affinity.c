// SPDX-License-Identifier: BSD-3-Clause
#include "affinity.h"

#include <errno.h>
#include <string.h>

#include "show.h"

#define CELL 256
#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

// --- requests -------------------------------------------------------------------------------

static int set_word(json_t *request, const char *key, const char *word, char *why, size_t n) {
	if (json_object_set_new(request, key, json_string(word))) {
		snprintf(why, n, "the %s is not valid UTF-8", key);
		return -EINVAL;
	}
	return 0;
}

int weir_affinity_build_show(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	int r = 0;

	if (cli->count > 0) {
		r = set_word(request, "service", cli->words[0], why, n);
	}
	if (r == 0 && cli->count > 1) {
		json_object_set_new(request, "command", json_string("affinity.lookup"));
		r = set_word(request, "client", cli->words[1], why, n);
	}
	return r;
}

// Build the request from "SERVICE[/BACKEND] [CLIENT]". "SERVICE/" without a backend means all
// backends of the service.
int weir_affinity_build_clear(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	const char *word = cli->words[0];
	const int r = strchr(word, '/') != NULL
			      ? weir_cli_set_backend(request, word)
			      : json_object_set_new(request, "service", json_string(word));

	if (r || word[0] == '\0') {
		snprintf(why, n, "expected a service as SERVICE, or a backend as SERVICE/BACKEND");
		return -EINVAL;
	}
	return cli->count > 1 ? set_word(request, "client", cli->words[1], why, n) : 0;
}

// --- text -----------------------------------------------------------------------------------

static json_int_t integer(const json_t *object, const char *key) {
	return json_integer_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key, char buffer[CELL]) {
	return weir_show_value(json_object_get(object, key), WEIR_SHOW_TEXT, buffer, CELL);
}

static void print_table_line(FILE *out, const json_t *table) {
	if (integer(table, "entries") == 0) {
		fprintf(out, "no affinity table: flow_table.affinity_sources is 0\n");
		return;
	}
	fprintf(out,
		"affinity table: %" JSON_INTEGER_FORMAT " entries, %" JSON_INTEGER_FORMAT
		" used (%" JSON_INTEGER_FORMAT " unproven), %" JSON_INTEGER_FORMAT " free\n",
		integer(table, "entries"), integer(table, "used"), integer(table, "unproven"),
		integer(table, "free"));
}

static bool is_by_hash(const json_t *result) {
	const char *by = json_string_value(json_object_get(result, "by"));

	return by != NULL && strcmp(by, "hash") == 0;
}

static void show_services(FILE *out, json_t *result) {
	static const struct weir_show_column columns[] = {
		{"SERVICE", "service", WEIR_SHOW_TEXT},
		{"BY", "by", WEIR_SHOW_TEXT},
		{"TIMEOUT", "timeout_ms", WEIR_SHOW_DURATION},
		{"CLIENTS", "clients", WEIR_SHOW_NUMBER},
		{"PROVEN", "proven", WEIR_SHOW_NUMBER},
	};

	weir_show_table(out, json_object_get(result, "services"), columns, COUNT(columns),
		"no service has affinity");
	print_table_line(out, json_object_get(result, "table"));
}

// Add " (removed)" to the labels of removed backends.
static void mark_removed(json_t *backends) {
	json_t *row;
	size_t i;

	json_array_foreach (backends, i, row) {
		const char *label = json_string_value(json_object_get(row, "label"));

		if (label != NULL && json_is_true(json_object_get(row, "leaving"))) {
			json_object_set_new(row, "label", json_sprintf("%s (removed)", label));
		}
	}
}

static void show_backends(FILE *out, json_t *result) {
	static const struct weir_show_column columns[] = {
		{"BACKEND", "label", WEIR_SHOW_TEXT},
		{"CLIENTS", "clients", WEIR_SHOW_NUMBER},
		{"PROVEN", "proven", WEIR_SHOW_NUMBER},
	};
	const json_t *one = json_array_get(json_object_get(result, "services"), 0);
	json_t *backends = json_object_get(result, "backends");
	char service[CELL], policy[CELL];

	if (is_by_hash(one)) {
		fprintf(out,
			"%s: the hash of a client's address selects its backend (%s); there "
			"are no affinity entries\n",
			text(one, "service", service),
			strcmp(text(one, "policy", policy), "maglev") == 0
				? "policy maglev"
				: "flow_table.affinity_sources is 0");
		return;
	}
	weir_show_add_labels(backends, "backend");
	mark_removed(backends);
	weir_show_table(out, backends, columns, COUNT(columns), "no backends");
	print_table_line(out, json_object_get(result, "table"));
}

void weir_affinity_show(const struct weir_cli *cli, json_t *result) {
	if (cli->count > 1) {
		weir_show_fields(cli->out, result);
	} else if (cli->count == 1) {
		show_backends(cli->out, result);
	} else {
		show_services(cli->out, result);
	}
}

void weir_affinity_show_cleared(const struct weir_cli *cli, json_t *result) {
	weir_show_removed(cli->out, result, "client", "forgotten");
}
