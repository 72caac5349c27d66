// SPDX-License-Identifier: BSD-3-Clause
//
// Replays cases of whole fleets: the subsets of rocksteadier; the balance of each algorithm, and
// its churn when a fleet grows or shrinks; and the apertures of clients, as exact fractions.
#include "replay_subsetting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "subsetter.h"

static void check_example(struct replay *replay, const json_t *given, const void *context) {
	struct weir_subset_params params = {.algorithm = WEIR_SUBSET_ROCKSTEADIER};
	struct subsetter *subsetter;
	uint32_t n, client, chosen;

	(void)context;
	if (!replay_known_keys(replay, given, "B size frontend salt subset") ||
		!subsetter_read_count(replay, given, "B", &n) ||
		!subsetter_read_count(replay, given, "size", &params.size) ||
		!subsetter_read_count(replay, given, "frontend", &client) ||
		!subsetter_read_salt(replay, given, &params.salt)) {
		return;
	}
	subsetter = subsetter_create(&params, false, n);
	chosen = subsetter_choose(subsetter, client);
	subsetter_check_list(
		replay, "subset", json_object_get(given, "subset"), subsetter->subset, chosen);
	subsetter_free(subsetter);
}

// An algorithm, found by the key of its results. The key may contain the source of the algorithm in
// parentheses.
struct algorithm {
	struct weir_subset_params params;
	bool rendezvous;
};

static bool parse_algorithm(const char *key, struct algorithm *ret_algorithm) {
	size_t length = strcspn(key, "(");
	char name[32];
	int algorithm;

	if (length >= sizeof(name)) {
		return false;
	}
	memcpy(name, key, length);
	name[length] = '\0';
	*ret_algorithm = (struct algorithm){.rendezvous = strcmp(name, "rendezvous") == 0};
	algorithm = weir_subset_parse(name);
	if (algorithm >= 0) {
		ret_algorithm->params.algorithm = (enum weir_subset_algorithm)algorithm;
	}
	return algorithm >= 0 || ret_algorithm->rendezvous;
}

static bool read_fleet(struct replay *replay, struct algorithm *algorithm, const json_t *given,
	uint32_t *ret_clients) {
	return subsetter_read_count(replay, given, "size", &algorithm->params.size) &&
	       subsetter_read_count(replay, given, "N", ret_clients) &&
	       subsetter_read_salt(replay, given, &algorithm->params.salt);
}

static void check_balance(struct replay *replay, const json_t *given, const void *context) {
	struct algorithm algorithm = *(const struct algorithm *)context;
	struct subsetter *subsetter;
	uint32_t n, clients;
	double total = 0;

	if (!replay_known_keys(replay, given, "B size N salt min max mean") ||
		!subsetter_read_count(replay, given, "B", &n) ||
		!read_fleet(replay, &algorithm, given, &clients)) {
		return;
	}
	subsetter = subsetter_create(&algorithm.params, algorithm.rendezvous, n);
	subsetter_count(subsetter, clients);
	for (uint32_t i = 0; i < n; i++) {
		total += subsetter->counts[i];
	}
	if (replay_has(given, "min")) {
		replay_check(replay, "min", -1, replay_uint(replay, given, "min", 0),
			subsetter_least(subsetter));
	}
	if (replay_has(given, "max")) {
		replay_check(replay, "max", -1, replay_uint(replay, given, "max", 0),
			subsetter_most(subsetter));
	}
	if (replay_has(given, "mean") && n > 0) {
		replay_check_real(
			replay, "mean", -1, replay_real(replay, given, "mean", 0), total / n, 1e-9);
	}
	subsetter_free(subsetter);
}

// Returns the fraction of subset members that are replaced when backends are added or removed at
// the end of the list.
static double churn(
	const struct algorithm *algorithm, uint32_t from, uint32_t to, uint32_t clients) {
	struct subsetter *before =
		subsetter_create(&algorithm->params, algorithm->rendezvous, from);
	struct subsetter *after = subsetter_create(&algorithm->params, algorithm->rendezvous, to);
	// by backend: its last client + 1
	uint32_t *holder = replay_alloc((from + to) * sizeof(holder[0]));
	uint64_t members = 0;
	uint64_t left = 0;

	for (uint32_t client = 0; client < clients; client++) {
		uint32_t length = subsetter_choose(after, client);

		for (uint32_t i = 0; i < length; i++) {
			holder[after->subset[i]] = client + 1;
		}
		length = subsetter_choose(before, client);
		members += length;
		for (uint32_t i = 0; i < length; i++) {
			left += holder[before->subset[i]] != client + 1;
		}
	}
	free(holder);
	subsetter_free(after);
	subsetter_free(before);
	return members > 0 ? (double)left / (double)members : 0;
}

// The traces have values with four decimals.
static void check_churn(struct replay *replay, const json_t *given, const void *context) {
	struct algorithm algorithm = *(const struct algorithm *)context;
	uint32_t from, to, clients;
	double largest, change;

	if (!replay_known_keys(replay, given, "from to size N salt churn ideal") ||
		!subsetter_read_count(replay, given, "from", &from) ||
		!subsetter_read_count(replay, given, "to", &to) ||
		!read_fleet(replay, &algorithm, given, &clients)) {
		return;
	}
	largest = from > to ? from : to;
	change = from > to ? from - to : to - from;
	if (replay_has(given, "churn")) {
		replay_check_real(replay, "churn", -1, replay_real(replay, given, "churn", 0),
			churn(&algorithm, from, to, clients), 5.001e-5);
	}
	if (replay_has(given, "ideal") && largest > 0) {
		replay_check_real(replay, "ideal", -1, replay_real(replay, given, "ideal", 0),
			change / largest, 5.001e-5);
	}
}

static void replay_figures(struct replay *replay, const char *name, const json_t *figures) {
	struct algorithm algorithm;
	const char *key;
	json_t *list;

	if (!parse_algorithm(name, &algorithm)) {
		replay_begin(replay, "%s", name);
		replay_fail(replay, "unknown algorithm");
		replay_end(replay);
		return;
	}
	json_object_foreach ((json_t *)figures, key, list) {
		char section[160];

		snprintf(section, sizeof(section), "%s.%s", name, key);
		if (strcmp(key, "balance") == 0) {
			replay_subsetting_cases(replay, section, list, check_balance, &algorithm);
		} else if (strncmp(key, "churn", 5) == 0) {
			replay_subsetting_cases(replay, section, list, check_churn, &algorithm);
		} else if (!json_is_string(list)) {
			replay_begin(replay, "%s", section);
			replay_fail(replay, "unknown key");
			replay_end(replay);
		}
	}
}

void replay_subsetting_fleets(struct replay *replay, const json_t *section) {
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)section, key, value) {
		if (strcmp(key, "examples") == 0) {
			replay_subsetting_cases(
				replay, "rocksteadier.examples", value, check_example, NULL);
		} else if (json_is_object(value)) {
			replay_figures(replay, key, value);
		} else if (!json_is_boolean(value) && !json_is_string(value)) { // remarks
			replay_begin(replay, "rocksteadier.%s", key);
			replay_fail(replay, "unknown key");
			replay_end(replay);
		}
	}
}

// --- aperture ---------------------------------------------------------------------------------

struct aperture {
	uint32_t clients;
	uint32_t backends;
	uint32_t size;
	uint64_t *cover; // [backends]
};

// Prints a fraction in lowest terms, such as "2" or "2/3".
static void print_fraction(char *text, size_t bytes, uint64_t numerator, uint64_t denominator) {
	uint64_t a = numerator;
	uint64_t b = denominator;

	while (b != 0) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	if (denominator / a == 1) {
		snprintf(text, bytes, "%llu", (unsigned long long)(numerator / a));
	} else {
		snprintf(text, bytes, "%llu/%llu", (unsigned long long)(numerator / a),
			(unsigned long long)(denominator / a));
	}
}

static void check_slice(
	struct replay *replay, struct aperture *aperture, const char *key, const json_t *slice) {
	uint32_t client, covered;

	if (sscanf(key, "slice_of_client_%u", &client) != 1 || client >= aperture->clients ||
		!json_is_object(slice)) {
		replay_fail(replay, "unknown key \"%s\"", key);
		return;
	}
	covered = weir_subset_aperture(
		client, aperture->clients, aperture->backends, aperture->size, aperture->cover);
	replay_check(replay, key, -1, (long long)json_object_size(slice), covered);
	for (uint32_t i = 0; i < aperture->backends; i++) {
		char backend[16], got[48];
		const char *expected;

		if (aperture->cover[i] == 0) {
			continue;
		}
		snprintf(backend, sizeof(backend), "%u", i);
		print_fraction(got, sizeof(got), aperture->cover[i], aperture->clients);
		expected = json_string_value(json_object_get(slice, backend));
		replay_check_text(replay, key, i, expected != NULL ? expected : "0", got);
	}
}

// Checks only the first clients, because a trace of a large fleet omits later clients.
static void check_sizes(struct replay *replay, struct aperture *aperture, const json_t *expected) {
	uint32_t listed = (uint32_t)json_array_size(expected);
	uint32_t *sizes;

	if (listed == 0 || listed > aperture->clients) {
		replay_fail(replay, "physical_sizes: %u of %u clients", listed, aperture->clients);
		return;
	}
	sizes = replay_alloc(listed * sizeof(sizes[0]));
	for (uint32_t client = 0; client < listed; client++) {
		sizes[client] = weir_subset_aperture(client, aperture->clients, aperture->backends,
			aperture->size, aperture->cover);
	}
	subsetter_check_list(replay, "physical_sizes", expected, sizes, listed);
	free(sizes);
}

// Checks the total coverage of each backend by all clients. The trace lists each distinct total
// once, in the order of the backends.
static void check_total(struct replay *replay, struct aperture *aperture, const json_t *expected) {
	uint64_t *total = replay_alloc(aperture->backends * sizeof(total[0]));
	size_t distinct = 0;

	for (uint32_t client = 0; client < aperture->clients; client++) {
		weir_subset_aperture(client, aperture->clients, aperture->backends, aperture->size,
			aperture->cover);
		for (uint32_t i = 0; i < aperture->backends; i++) {
			total[i] += aperture->cover[i];
		}
	}
	for (uint32_t i = 0; i < aperture->backends; i++) {
		const char *text = json_string_value(json_array_get(expected, distinct));
		bool seen = false;
		char got[48];

		for (uint32_t j = 0; j < i; j++) {
			seen = seen || total[j] == total[i];
		}
		if (!seen) {
			print_fraction(got, sizeof(got), total[i], aperture->clients);
			replay_check_text(replay, "total_cover_per_backend", (long)distinct++,
				text != NULL ? text : "no more", got);
		}
	}
	replay_check(replay, "total_cover_per_backend", -1, (long long)json_array_size(expected),
		(long long)distinct);
	free(total);
}

static void check_aperture(struct replay *replay, const json_t *given, const void *context) {
	static const char numbers[] = " clients backends logical_aperture ";
	struct aperture aperture;
	const char *key;
	json_t *value;

	(void)context;
	if (!subsetter_read_count(replay, given, "clients", &aperture.clients) ||
		!subsetter_read_count(replay, given, "backends", &aperture.backends) ||
		!subsetter_read_count(replay, given, "logical_aperture", &aperture.size)) {
		return;
	}
	if (aperture.clients == 0 || aperture.backends == 0) {
		replay_fail(replay, "an aperture needs clients and backends");
		return;
	}
	aperture.cover = replay_alloc(aperture.backends * sizeof(aperture.cover[0]));
	json_object_foreach ((json_t *)given, key, value) {
		char padded[64];

		snprintf(padded, sizeof(padded), " %s ", key);
		if (strcmp(key, "physical_sizes") == 0) {
			check_sizes(replay, &aperture, value);
		} else if (strcmp(key, "total_cover_per_backend") == 0) {
			check_total(replay, &aperture, value);
		} else if (strstr(numbers, padded) == NULL && !json_is_string(value)) {
			check_slice(replay, &aperture, key, value);
		}
	}
	free(aperture.cover);
}

void replay_subsetting_aperture(struct replay *replay, const json_t *section) {
	replay_subsetting_cases(replay, "deterministic_aperture", json_object_get(section, "cases"),
		check_aperture, NULL);
}
