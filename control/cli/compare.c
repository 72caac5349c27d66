// SPDX-License-Identifier: BSD-3-Clause
#include "compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "duration.h"
#include "plural.h"
#include "show.h"
#include "terminal.h"
#include "text_table.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))
#define FOR_MS 60000
#define BACKENDS_SHOWN 8
#define CELL 80
#define FEW 1000 // number of flows; with fewer flows, most differences are random

static json_int_t number(const json_t *object, const char *key) {
	return json_integer_value(json_object_get(object, key));
}

// Print a line such as "web, policy maglev: 9200 of 10000 flows that began within 1m00s were
// recorded".
static void print_recording(FILE *out, const json_t *result) {
	const char *scaled = json_string_value(json_object_get(result, "durations"));
	char service[CELL], policy[CELL], recorded[WEIR_DURATION_BYTES];

	fprintf(out,
		"%s, policy %s: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
		" flow%s that began within %s were recorded\n",
		weir_show_value(json_object_get(result, "service"), WEIR_SHOW_TEXT, service,
			sizeof(service)),
		weir_show_value(
			json_object_get(result, "policy"), WEIR_SHOW_TEXT, policy, sizeof(policy)),
		number(result, "flows"), number(result, "began"),
		weir_plural((uint64_t)number(result, "began")),
		weir_duration_text((uint64_t)number(result, "recorded_ms"), recorded));
	fprintf(out, "Replayed: start of each flow, and its duration%s.\n",
		scaled != NULL && strcmp(scaled, "scaled") == 0
			? ", scaled to the speed of the selected backend"
			: " as recorded, regardless of the backend");
	fprintf(out,
		"Not simulated: slower responses under load, errors, changes to the backends.\n");
}

static void print_notes(FILE *out, const json_t *result) {
	json_int_t lost = number(result, "lost"), omitted = number(result, "omitted");
	json_int_t flows = number(result, "flows"), began = number(result, "began");

	if (lost > 0) {
		fprintf(out,
			"warning: %" JSON_INTEGER_FORMAT " flow%s of all services not recorded: "
			"too many flows ended simultaneously\n",
			lost, lost == 1 ? "" : "s");
	}
	if (omitted > 0) {
		fprintf(out,
			"warning: %" JSON_INTEGER_FORMAT
			" flow%s not replayed (recording full): use a shorter --for\n",
			omitted, omitted == 1 ? " was" : "s were");
	}
	if ((flows + omitted) * 2 < began) {
		fprintf(out, "warning: most flows had not ended, or had no response: use a longer "
			     "--for\n");
	}
	if (flows < FEW) {
		fprintf(out, "warning: few flows recorded: small differences between policies are "
			     "random\n");
	}
}

static void print_policies(FILE *out, json_t *policies) {
	static const struct weir_show_column columns[] = {
		{"POLICY", "label", WEIR_SHOW_TEXT},
		{"SHARE-LEAST-%", "share_least_percent", WEIR_SHOW_PERCENT},
		{"SHARE-MOST-%", "share_most_percent", WEIR_SHOW_PERCENT},
		{"ACTIVE-MEAN", "active_mean", WEIR_SHOW_PERCENT},
		{"ACTIVE-MOST", "active_most", WEIR_SHOW_PERCENT},
		{"SPREAD", "spread", WEIR_SHOW_DECIMAL},
		{"SPILLED", "spilled", WEIR_SHOW_NUMBER},
		{"REJECTED", "rejected", WEIR_SHOW_NUMBER},
	};
	json_t *row;
	size_t i;

	json_array_foreach (policies, i, row) {
		const char *name = json_string_value(json_object_get(row, "policy"));
		char label[CELL];

		snprintf(label, sizeof(label), "%s%s", name != NULL ? name : "-",
			i == 0                                         ? " (measured)"
			: json_is_true(json_object_get(row, "in_use")) ? " (in use)"
								       : "");
		json_object_set_new(row, "label", json_string(label));
	}
	weir_show_table(out, policies, columns, COUNT(columns), "no policies");
}

// --- shares ---------------------------------------------------------------------------------

// Returns the largest minus the smallest share of flows that the policies give to this backend.
static double range_of(const json_t *row) {
	double least = 100, most = 0;
	const char *key;
	json_t *share;

	json_object_foreach (json_object_get(row, "shares"), key, share) {
		least = fmin(least, json_number_value(share));
		most = fmax(most, json_number_value(share));
	}
	return most - least;
}

static int compare_ranges(const void *one, const void *other) {
	double a = range_of(*(json_t *const *)one), b = range_of(*(json_t *const *)other);

	return a > b ? -1 : a < b;
}

// Add a row to the table. The first cell is a name; the next cells are the values of the backends:
// member `key` of their member `object`. object: NULL = `key` is a member of the backend itself.
static void add_line(struct weir_text_table *table, const char *name, const json_t **backends,
	size_t count, const char *object, const char *key, enum weir_show_kind kind) {
	char text[BACKENDS_SHOWN + 1][CELL];
	const char *cells[BACKENDS_SHOWN + 1];

	weir_terminal_text(name, text[0], CELL);
	cells[0] = text[0];
	for (size_t i = 0; i < count; i++) {
		const json_t *of =
			object != NULL ? json_object_get(backends[i], object) : backends[i];

		weir_show_value(json_object_get(of, key), kind, text[i + 1], CELL);
		cells[i + 1] = text[i + 1];
	}
	(void)weir_text_table_add(table, cells);
}

// Prints the shares as a table. The rows are policies, because their names are long. The columns
// are backends, at most BACKENDS_SHOWN.
static void print_table(FILE *out, const json_t **backends, size_t count, const json_t *policies) {
	struct weir_text_table_column columns[BACKENDS_SHOWN + 1] = {{"BACKEND", false}};
	char heads[BACKENDS_SHOWN][CELL];
	struct weir_text_table *table;
	const json_t *policy;
	size_t i;

	for (i = 0; i < count; i++) {
		weir_show_value(
			json_object_get(backends[i], "backend"), WEIR_SHOW_TEXT, heads[i], CELL);
		columns[i + 1] = (struct weir_text_table_column){heads[i], true};
	}
	table = weir_text_table_create(columns, (uint32_t)count + 1);
	if (table == NULL) {
		return;
	}
	add_line(table, "weight", backends, count, NULL, "weight", WEIR_SHOW_NUMBER);
	add_line(table, "mean time, ms", backends, count, NULL, "time_ms", WEIR_SHOW_PERCENT);
	json_array_foreach (policies, i, policy) {
		const char *name = json_string_value(json_object_get(policy, "policy"));

		if (name != NULL) {
			add_line(table, name, backends, count, "shares", name, WEIR_SHOW_PERCENT);
		}
	}
	weir_text_table_print(table, out);
	weir_text_table_free(table);
}

static void print_shares(FILE *out, const json_t *backends, const json_t *policies) {
	size_t count = json_array_size(backends), shown = count;
	const json_t **sorted = calloc(count + 1, sizeof(*sorted));

	if (sorted == NULL) {
		return;
	}
	for (size_t i = 0; i < count; i++) {
		sorted[i] = json_array_get(backends, i);
	}
	if (count > BACKENDS_SHOWN) {
		qsort(sorted, count, sizeof(*sorted), compare_ranges);
		shown = BACKENDS_SHOWN;
	}
	fprintf(out, "\nFlows per backend, in percent%s:\n",
		count > shown ? ", for the backends with the largest differences" : "");
	print_table(out, sorted, shown, policies);
	if (count > shown) {
		fprintf(out, "and %zu more backend%s; --json prints all\n", count - shown,
			weir_plural(count - shown));
	}
	free(sorted);
}

void weir_compare_show(const struct weir_cli *cli, json_t *result) {
	json_t *policies = json_object_get(result, "policies");

	print_recording(cli->out, result);
	print_notes(cli->out, result);
	fputc('\n', cli->out);
	print_policies(cli->out, policies);
	print_shares(cli->out, json_object_get(result, "backends"), policies);
}

int weir_compare_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	int for_ms = cli->options->for_ms > 0 ? cli->options->for_ms : FOR_MS;
	char text[WEIR_DURATION_BYTES];
	json_t *request = weir_cli_build(cli, command), *result;
	int r;

	if (request == NULL || json_object_set_new(request, "for_ms", json_integer(for_ms))) {
		json_decref(request);
		return WEIR_CLI_REFUSED;
	}
	weir_client_set_timeout(cli->client, for_ms + cli->options->timeout_ms);
	if (isatty(fileno(cli->err))) {
		fprintf(cli->err, "weirctl: recording the flows of %s for %s\n", cli->words[0],
			weir_duration_text((uint64_t)for_ms, text));
	}
	r = weir_cli_request(cli, request, &result);
	json_decref(request);
	if (r == WEIR_CLI_DONE) {
		weir_cli_show(cli, command, result);
	}
	return r;
}
