// SPDX-License-Identifier: BSD-3-Clause
//
// Deterministic subsetting as in the SRE book, with recorded shuffles and with shuffles of
// CPython's generator. Backends that are left over in a round are unused, so the slices are those
// of mode "exact".
#include "replay_subsetting.h"

#include <stdio.h>
#include <stdlib.h>

#include "cpython_random.h"
#include "subsetter.h"

// Figure 20-5 of the book.
#define FIGURE_CLIENTS 300u
#define FIGURE_BACKENDS 300u
#define FIGURE_SIZE 10u

static struct weir_subset_slice slice_of(uint32_t client, uint32_t n, uint32_t size) {
	return weir_subset_slice(WEIR_SUBSET_MODE_EXACT, client, n, size);
}

// Returns the subset of a client, as a pointer into list[n]. Fills list with the shuffle of the
// client's round.
static const uint32_t *cpython_subset(uint32_t *list, uint32_t client, uint32_t n, uint32_t size) {
	struct weir_subset_slice slice = slice_of(client, n, size);
	struct cpython_random random;

	for (uint32_t i = 0; i < n; i++) {
		list[i] = i;
	}
	cpython_random_seed(&random, slice.round);
	cpython_random_shuffle(&random, list, n);
	return list + slice.first;
}

static bool is_sane(struct replay *replay, uint32_t n, uint32_t size) {
	if (size == 0 || size > n) {
		replay_fail(replay, "the size must be 1 to the number of backends");
		return false;
	}
	return true;
}

static void check_cpython(struct replay *replay, const json_t *section) {
	const json_t *subsets = replay_list(replay, section, "subsets");
	uint32_t n, size, clients;
	const json_t *subset;
	uint32_t *list;
	size_t client;

	if (!replay_known_keys(replay, section, "B size clients subsets fig20_5") ||
		!subsetter_read_count(replay, section, "B", &n) ||
		!subsetter_read_count(replay, section, "size", &size) ||
		!subsetter_read_count(replay, section, "clients", &clients) ||
		!is_sane(replay, n, size)) {
		return;
	}
	replay_check(replay, "subsets", -1, (long long)json_array_size(subsets), clients);
	list = replay_alloc(n * sizeof(list[0]));
	json_array_foreach (subsets, client, subset) {
		char what[40];

		snprintf(what, sizeof(what), "client %zu", client);
		subsetter_check_list(replay, what, subset,
			cpython_subset(list, (uint32_t)client, n, size), size);
	}
	free(list);
}

static void check_figure(struct replay *replay, const json_t *figure) {
	static const struct weir_subset_params all = {.algorithm = WEIR_SUBSET_NONE};
	struct subsetter *counts = subsetter_create(&all, false, FIGURE_BACKENDS);
	uint32_t *list = replay_alloc(FIGURE_BACKENDS * sizeof(list[0]));

	for (uint32_t client = 0; client < FIGURE_CLIENTS; client++) {
		const uint32_t *subset = cpython_subset(list, client, FIGURE_BACKENDS, FIGURE_SIZE);

		for (uint32_t i = 0; i < FIGURE_SIZE; i++) {
			counts->counts[subset[i]]++;
		}
	}
	subsetter_check_min_max(replay, counts, json_object_get(figure, "counts_min_max"));
	free(list);
	subsetter_free(counts);
}

void replay_subsetting_cpython(struct replay *replay, const json_t *section) {
	const json_t *figure = json_object_get(section, "fig20_5");

	replay_begin(replay, "sre_cpython");
	check_cpython(replay, section);
	replay_end(replay);
	if (figure != NULL) {
		replay_begin(replay, "sre_cpython.fig20_5");
		check_figure(replay, figure);
		replay_end(replay);
	}
}

// Reads a list of numbers in 0 .. below - 1. If a number is out of this range, the case fails and
// the function returns NULL.
static uint32_t *read_numbers(struct replay *replay, const json_t *list, uint32_t below) {
	uint32_t *numbers = replay_alloc(json_array_size(list) * sizeof(numbers[0]));
	const json_t *value;
	size_t i;

	json_array_foreach (list, i, value) {
		if (!json_is_integer(value) || json_integer_value(value) < 0 ||
			json_integer_value(value) >= below) {
			replay_fail(replay, "a shuffle names no backend");
			free(numbers);
			return NULL;
		}
		numbers[i] = (uint32_t)json_integer_value(value);
	}
	return numbers;
}

static void check_book(struct replay *replay, const json_t *section) {
	const json_t *shuffles = replay_list(replay, section, "shuffles");
	const json_t *subsets = replay_list(replay, section, "subsets_by_client");
	const json_t *per_backend = replay_list(replay, section, "per_backend");
	uint32_t n = (uint32_t)json_array_size(json_array_get(shuffles, 0));
	uint32_t size = (uint32_t)json_array_size(json_array_get(subsets, 0));
	const json_t *subset;
	uint32_t *counts;
	size_t client;

	if (!replay_known_keys(replay, section, "shuffles subsets_by_client per_backend") ||
		!is_sane(replay, n, size)) {
		return;
	}
	counts = replay_alloc(n * sizeof(counts[0]));
	json_array_foreach (subsets, client, subset) {
		struct weir_subset_slice slice = slice_of((uint32_t)client, n, size);
		const json_t *shuffle = json_array_get(shuffles, slice.round);
		uint32_t *list;
		char what[40];

		if (json_array_size(shuffle) != n) {
			replay_fail(replay, "no shuffle of %u for round %u", n, slice.round);
			break;
		}
		list = read_numbers(replay, shuffle, n);
		if (list == NULL) {
			break;
		}
		snprintf(what, sizeof(what), "client %zu", client);
		subsetter_check_list(replay, what, subset, list + slice.first, slice.length);
		for (uint32_t i = 0; i < slice.length; i++) {
			counts[list[slice.first + i]]++;
		}
		free(list);
	}
	if (per_backend != NULL) {
		subsetter_check_list(replay, "per_backend", per_backend, counts, n);
	}
	free(counts);
}

void replay_subsetting_book(struct replay *replay, const json_t *section) {
	replay_begin(replay, "book_example");
	check_book(replay, section);
	replay_end(replay);
}
