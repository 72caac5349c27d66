// SPDX-License-Identifier: BSD-3-Clause
#include "subset_preview.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plural.h"
#include "subset.h"

// Maximum of clients * backends. With this number, the computation takes some seconds.
#define PAIRS_MAX 1000000000u
#define ROWS_MAX 16u // maximum number of rows of the histogram
#define BAR_MAX 40u // maximum number of characters of a bar

// Statistics of the subsets of all clients.
struct result {
	struct weir_subset_params params;
	uint32_t clients;
	uint32_t backends;
	uint32_t least, most; // smallest and largest number of clients of a backend
	uint32_t smallest, largest; // sizes of the smallest and the largest subset
	double mean;
	uint32_t *with; // [clients + 1]: number of backends with this many clients
};

// Compute the subset of a client, and increase counts[b] for each backend b in the subset. subset,
// scratch: working memory.
static void add_client(struct result *result, uint32_t client, uint32_t *counts, uint32_t *subset,
	uint32_t *scratch) {
	uint32_t chosen;

	result->params.client = client;
	chosen = weir_subset_choose(&result->params, NULL, result->backends, subset, scratch);
	for (uint32_t i = 0; i < chosen; i++) {
		counts[subset[i]]++;
	}
	result->mean += (double)chosen / result->backends;
	result->largest = chosen > result->largest ? chosen : result->largest;
	result->smallest = client == 0 || chosen < result->smallest ? chosen : result->smallest;
}

// Compute the statistics. Returns 0 or -ENOMEM. The caller frees ret_result->with.
static int work_out(const struct weir_cli_preview *preview, struct result *ret_result) {
	struct result result = {
		.params = {.algorithm = preview->algorithm,
			.mode = preview->mode,
			.size = preview->size,
			.salt = preview->salt},
		.clients = preview->clients,
		.backends = preview->backends,
		.least = UINT32_MAX,
	};
	uint32_t *counts = calloc(result.backends, sizeof(counts[0]));
	uint32_t *subset = calloc(result.backends, sizeof(subset[0]));
	uint32_t *scratch = calloc(weir_subset_scratch_count(result.backends), sizeof(scratch[0]));
	int r = -ENOMEM;

	result.with = calloc((size_t)result.clients + 1, sizeof(result.with[0]));
	if (counts == NULL || subset == NULL || scratch == NULL || result.with == NULL) {
		free(result.with);
		goto free_memory;
	}
	for (uint32_t client = 0; client < result.clients; client++) {
		add_client(&result, client, counts, subset, scratch);
	}
	for (uint32_t i = 0; i < result.backends; i++) {
		result.least = counts[i] < result.least ? counts[i] : result.least;
		result.most = counts[i] > result.most ? counts[i] : result.most;
		result.with[counts[i]]++;
	}
	*ret_result = result;
	r = 0;
free_memory:
	free(scratch);
	free(subset);
	free(counts);
	return r;
}

// Returns the number of backends that have from `first` to `last` clients.
static uint32_t backends_with(const struct result *result, uint32_t first, uint32_t last) {
	uint32_t backends = 0;

	for (uint32_t i = first; i <= last && i <= result->most; i++) {
		backends += result->with[i];
	}
	return backends;
}

static void print_bar(FILE *out, uint32_t value, uint32_t largest) {
	uint32_t length = (uint32_t)(((uint64_t)value * BAR_MAX + largest - 1) / largest);

	fprintf(out, "%s", length > 0 ? "  " : "");
	for (uint32_t i = 0; i < length; i++) {
		fputc('#', out);
	}
	fputc('\n', out);
}

static void print_histogram(FILE *out, const struct result *result) {
	// number of consecutive client counts that one row covers
	uint32_t width = (result->most - result->least) / ROWS_MAX + 1;
	uint32_t largest = 1;

	for (uint32_t first = result->least; first <= result->most; first += width) {
		uint32_t backends = backends_with(result, first, first + width - 1);

		largest = backends > largest ? backends : largest;
	}
	fprintf(out, "\n%13s  %8s\n", "CLIENTS", "BACKENDS");
	for (uint32_t first = result->least; first <= result->most; first += width) {
		uint32_t last = first + width - 1 < result->most ? first + width - 1 : result->most;
		uint32_t backends = backends_with(result, first, last);
		char range[32];

		snprintf(range, sizeof(range), "%u%s%.0u", first, last > first ? "-" : "",
			last > first ? last : 0);
		fprintf(out, "%13s  %8u", range, backends);
		print_bar(out, backends, largest);
	}
}

static void print_text(FILE *out, const struct result *result) {
	fprintf(out, "%s", weir_subset_name(result->params.algorithm));
	if (result->params.algorithm == WEIR_SUBSET_DETERMINISTIC) {
		fprintf(out, " (%s)", weir_subset_mode_name(result->params.mode));
	}
	fprintf(out, ", salt %u: %u client%s, %u backend%s, size %u\n\n", result->params.salt,
		result->clients, weir_plural(result->clients), result->backends,
		weir_plural(result->backends), result->params.size);
	fprintf(out, "clients per backend: min %u, mean %.1f, max %u\n", result->least,
		result->mean, result->most);
	if (result->smallest == result->largest) {
		fprintf(out, "backends per client: %u\n", result->smallest);
	} else {
		fprintf(out, "backends per client: %u to %u\n", result->smallest, result->largest);
	}
	print_histogram(out, result);
}

// Returns the statistics as JSON, owned by the caller, or NULL if out of memory.
static json_t *to_json(const struct result *result) {
	json_t *histogram = json_array();
	json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:{s:I, s:f, s:I}, s:{s:I, s:I}}",
		"algorithm", weir_subset_name(result->params.algorithm), "mode",
		weir_subset_mode_name(result->params.mode), "salt", (json_int_t)result->params.salt,
		"clients", (json_int_t)result->clients, "backends", (json_int_t)result->backends,
		"size", (json_int_t)result->params.size, "clients_of_a_backend", "least",
		(json_int_t)result->least, "mean", result->mean, "most", (json_int_t)result->most,
		"backends_of_a_client", "least", (json_int_t)result->smallest, "most",
		(json_int_t)result->largest);

	for (uint32_t i = result->least; i <= result->most; i++) {
		if (result->with[i] > 0) {
			json_array_append_new(
				histogram, json_pack("{s:I, s:I}", "clients", (json_int_t)i,
						   "backends", (json_int_t)result->with[i]));
		}
	}
	json_object_set_new(json, "histogram", histogram);
	return json;
}

static const char *find_mistake(const struct weir_cli_preview *preview) {
	if (preview->clients == 0) {
		return "--clients is missing; use --clients N";
	}
	if (preview->backends == 0) {
		return "--backends is missing; use --backends M";
	}
	if (preview->size == 0) {
		return "--size is missing; use --size K";
	}
	if ((uint64_t)preview->clients * preview->backends > PAIRS_MAX) {
		return "--clients times --backends must not exceed 1000000000";
	}
	return NULL;
}

int weir_subset_preview_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	const struct weir_cli_preview *preview = &cli->options->preview;
	const char *mistake = find_mistake(preview);
	struct result result;

	(void)command;
	if (mistake != NULL) {
		fprintf(cli->err, "weirctl: %s\n", mistake);
		return WEIR_CLI_USAGE;
	}
	if (work_out(preview, &result)) {
		fprintf(cli->err, "weirctl: out of memory\n");
		return WEIR_CLI_REFUSED;
	}
	if (cli->options->json) {
		json_t *json = to_json(&result);

		weir_cli_print_json(cli->out, json);
		json_decref(json);
	} else {
		print_text(cli->out, &result);
	}
	free(result.with);
	return WEIR_CLI_DONE;
}
