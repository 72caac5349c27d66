// SPDX-License-Identifier: BSD-3-Clause
//
// Subsetting: random numbers, shuffles, and the members of deterministic subsets.
#include "replay_subsetting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prng.h"
#include "subsetter.h"

static bool read_seed(struct replay *replay, const json_t *object, uint64_t *ret_seed) {
	const json_t *value = json_object_get(object, "seed");

	if (!json_is_integer(value)) {
		replay_fail(replay, "\"seed\" is no whole number");
		return false;
	}
	// The file stores values above 2^63 - 1 as negative numbers
	*ret_seed = (uint64_t)json_integer_value(value);
	return true;
}

static void check_generator(struct replay *replay, const json_t *given, const void *context) {
	const json_t *first = replay_list(replay, given, "first");
	struct weir_prng prng;
	const json_t *value;
	size_t i;

	(void)context;
	if (!replay_known_keys(replay, given, "seed first") ||
		!read_seed(replay, given, &prng.state)) {
		return;
	}
	json_array_foreach (first, i, value) {
		char got[17];

		snprintf(got, sizeof(got), "%016" PRIx64, weir_prng_next(&prng));
		if (!json_is_string(value)) {
			replay_fail(replay, "first[%zu] is no text", i);
			return;
		}
		replay_check_text(replay, "first", (long)i, json_string_value(value), got);
	}
}

static void check_shuffle(struct replay *replay, const json_t *given, const void *context) {
	struct weir_prng prng;
	uint32_t *items;
	uint32_t n;

	(void)context;
	if (!replay_known_keys(replay, given, "seed n result") ||
		!read_seed(replay, given, &prng.state) ||
		!subsetter_read_count(replay, given, "n", &n)) {
		return;
	}
	items = replay_alloc(n * sizeof(items[0]));
	for (uint32_t i = 0; i < n; i++) {
		items[i] = i;
	}
	weir_prng_shuffle(&prng, items, n);
	subsetter_check_list(replay, "result", json_object_get(given, "result"), items, n);
	free(items);
}

static struct subsetter *read_case(
	struct replay *replay, const json_t *given, uint32_t *ret_clients) {
	const char *name = replay_text(replay, given, "algorithm", "deterministic");
	const char *mode_name = replay_text(replay, given, "mode", "spread");
	int algorithm = weir_subset_parse(name);
	int mode = weir_subset_mode_parse(mode_name);
	struct weir_subset_params params = {0};
	uint32_t n;

	if (algorithm < 0 || mode < 0) {
		replay_fail(replay, "unknown algorithm or mode: %s, %s", name, mode_name);
		return NULL;
	}
	params.algorithm = (enum weir_subset_algorithm)algorithm;
	params.mode = (enum weir_subset_mode)mode;
	if (!subsetter_read_count(replay, given, "B", &n) ||
		!subsetter_read_count(replay, given, "size", &params.size) ||
		!subsetter_read_count(replay, given, "clients", ret_clients) ||
		!subsetter_read_salt(replay, given, &params.salt)) {
		return NULL;
	}
	return subsetter_create(&params, false, n);
}

static void check_subsets(struct replay *replay, const json_t *given, const void *context) {
	const json_t *subsets = replay_list(replay, given, "subsets");
	const json_t *per_backend = replay_list(replay, given, "per_backend");
	struct subsetter *subsetter;
	const json_t *subset;
	uint32_t clients;
	size_t client;

	(void)context;
	if (!replay_known_keys(replay, given,
		    "algorithm mode B size clients salt subsets "
		    "per_backend")) {
		return;
	}
	subsetter = read_case(replay, given, &clients);
	if (subsetter == NULL) {
		return;
	}
	if (subsets != NULL) {
		replay_check(replay, "subsets", -1, (long long)json_array_size(subsets), clients);
	}
	json_array_foreach (subsets, client, subset) {
		char what[40];
		uint32_t chosen = subsetter_choose(subsetter, (uint32_t)client);

		snprintf(what, sizeof(what), "client %zu", client);
		subsetter_check_list(replay, what, subset, subsetter->subset, chosen);
	}
	if (per_backend != NULL) {
		subsetter_count(subsetter, clients);
		subsetter_check_list(
			replay, "per_backend", per_backend, subsetter->counts, subsetter->n);
	}
	subsetter_free(subsetter);
}

// Checks the distinct lengths of the subsets of all clients, in ascending order.
static void check_lengths(struct replay *replay, struct subsetter *subsetter, uint32_t clients,
	const json_t *expected) {
	uint8_t *seen = replay_alloc(subsetter->n + 1);
	uint32_t *lengths = replay_alloc((subsetter->n + 1) * sizeof(lengths[0]));
	uint32_t count = 0;

	for (uint32_t client = 0; client < clients; client++) {
		seen[subsetter_choose(subsetter, client)] = 1;
	}
	for (uint32_t length = 0; length <= subsetter->n; length++) {
		if (seen[length]) {
			lengths[count++] = length;
		}
	}
	subsetter_check_list(replay, "subset_sizes", expected, lengths, count);
	free(lengths);
	free(seen);
}

static void check_balance(struct replay *replay, const json_t *given, const void *context) {
	struct subsetter *subsetter;
	uint32_t clients;

	(void)context;
	if (!replay_known_keys(
		    replay, given, "algorithm mode B size clients salt min max subset_sizes")) {
		return;
	}
	subsetter = read_case(replay, given, &clients);
	if (subsetter == NULL) {
		return;
	}
	subsetter_count(subsetter, clients);
	if (replay_has(given, "min")) {
		replay_check(replay, "min", -1, replay_uint(replay, given, "min", 0),
			subsetter_least(subsetter));
	}
	if (replay_has(given, "max")) {
		replay_check(replay, "max", -1, replay_uint(replay, given, "max", 0),
			subsetter_most(subsetter));
	}
	if (replay_has(given, "subset_sizes")) {
		check_lengths(replay, subsetter, clients, json_object_get(given, "subset_sizes"));
	}
	subsetter_free(subsetter);
}

// --- the file ---------------------------------------------------------------------------------

void replay_subsetting_cases(struct replay *replay, const char *section, const json_t *cases,
	subsetting_check *check, const void *context) {
	const json_t *given;
	size_t i;

	if (!json_is_array(cases)) {
		replay_begin(replay, "%s", section);
		if (json_is_object(cases)) {
			check(replay, cases, context);
		} else {
			replay_fail(replay, "neither a list of cases nor one");
		}
		replay_end(replay);
		return;
	}
	json_array_foreach (cases, i, given) {
		replay_begin(replay, "%s[%zu]", section, i);
		check(replay, given, context);
		replay_end(replay);
	}
}

static const struct {
	const char *key;
	subsetting_check *check; // replays each element of a list
	void (*replay)(struct replay *replay, const json_t *section); // replays the whole value
} sections[] = {
	{"splitmix64_check", check_generator, NULL},
	{"shuffle_check", check_shuffle, NULL},
	{"portable_subsets", check_subsets, NULL},
	{"balance", check_balance, NULL},
	{"random_subsetting", NULL, replay_subsetting_random},
	{"rocksteadier", NULL, replay_subsetting_fleets},
	{"deterministic_aperture", NULL, replay_subsetting_aperture},
	{"sre_cpython", NULL, replay_subsetting_cpython},
	{"book_example", NULL, replay_subsetting_book},
};

enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

bool replay_subsetting_recognise(const json_t *root) {
	const json_t *balance = json_array_get(json_object_get(root, "balance"), 0);

	for (int i = 0; i < SECTIONS; i++) {
		if (sections[i].check != check_balance && replay_has(root, sections[i].key)) {
			return true;
		}
	}
	return replay_has(balance, "B"); // traces of other formats also have the key "balance"
}

static void replay_section(struct replay *replay, const char *key, const json_t *value) {
	for (int i = 0; i < SECTIONS; i++) {
		if (strcmp(key, sections[i].key) != 0) {
			continue;
		}
		if (sections[i].check != NULL) {
			replay_subsetting_cases(replay, key, value, sections[i].check, NULL);
		} else if (json_is_object(value)) {
			sections[i].replay(replay, value);
		} else {
			// this call fails the case
			replay_subsetting_cases(replay, key, NULL, NULL, NULL);
		}
		return;
	}
	if (!json_is_string(value)) { // a string is a description
		replay_begin(replay, "%s", key);
		replay_fail(replay, "unknown section");
		replay_end(replay);
	}
}

void replay_subsetting(struct replay *replay, const json_t *root) {
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)root, key, value) {
		replay_section(replay, key, value);
	}
}
