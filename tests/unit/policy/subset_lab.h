// SPDX-License-Identifier: BSD-3-Clause
//
// Measurements for the tests of subsetting: the number of clients of each backend, and the number
// of members that a change replaces.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "subset.h"
#include "test.h"

#define FLEET_BACKENDS_MAX 1024u
#define FLEET_CLIENTS_MAX 512u

struct spread {
	uint32_t min;
	uint32_t max;
	uint64_t total;
};

// The subsets of all clients of a service.
struct fleet {
	uint32_t clients;
	uint32_t backends;
	uint32_t length[FLEET_CLIENTS_MAX];
	uint32_t member[FLEET_CLIENTS_MAX][FLEET_BACKENDS_MAX];
};

// A function that fills the client's subset, and returns its length.
typedef uint32_t fleet_chooser(const struct weir_subset_params *params, uint32_t clients,
	const uint8_t *usable, uint32_t n, uint32_t *ret_subset);

// Returns memory of exactly the requested size, so that AddressSanitizer detects accesses beyond
// its end.
static inline uint32_t *numbers_alloc(size_t count) {
	uint32_t *numbers = calloc(count + (count == 0), sizeof(*numbers));

	assert_non_null(numbers);
	return numbers;
}

static inline uint32_t choose(const struct weir_subset_params *params, uint32_t clients,
	const uint8_t *usable, uint32_t n, uint32_t *ret_subset) {
	uint32_t *subset = numbers_alloc(n);
	uint32_t *scratch = numbers_alloc(weir_subset_scratch_count(n));
	uint32_t chosen = weir_subset_choose(params, usable, n, subset, scratch);

	(void)clients;
	memcpy(ret_subset, subset, chosen * sizeof(*subset));
	free(scratch);
	free(subset);
	return chosen;
}

static inline void fleet_choose(struct fleet *fleet, fleet_chooser *chooser,
	const struct weir_subset_params *params, uint32_t clients, const uint8_t *usable,
	uint32_t n) {
	struct weir_subset_params each = *params;

	assert_true(clients <= FLEET_CLIENTS_MAX && n <= FLEET_BACKENDS_MAX);
	fleet->clients = clients;
	fleet->backends = n;
	for (each.client = 0; each.client < clients; each.client++) {
		fleet->length[each.client] =
			chooser(&each, clients, usable, n, fleet->member[each.client]);
	}
}

static inline struct spread spread_of(const uint32_t *counts, uint32_t n) {
	struct spread spread = {UINT32_MAX, 0, 0};

	for (uint32_t i = 0; i < n; i++) {
		spread.min = counts[i] < spread.min ? counts[i] : spread.min;
		spread.max = counts[i] > spread.max ? counts[i] : spread.max;
		spread.total += counts[i];
	}
	return spread;
}

static inline struct spread fleet_spread(const struct fleet *fleet) {
	static uint32_t counts[FLEET_BACKENDS_MAX];

	memset(counts, 0, sizeof(counts));
	for (uint32_t c = 0; c < fleet->clients; c++) {
		for (uint32_t i = 0; i < fleet->length[c]; i++) {
			counts[fleet->member[c][i]]++;
		}
	}
	return spread_of(counts, fleet->backends);
}

static inline uint64_t fleet_members(const struct fleet *fleet) {
	return fleet_spread(fleet).total;
}

static inline int fleet_holds(const struct fleet *fleet, uint32_t client, uint32_t backend) {
	for (uint32_t i = 0; i < fleet->length[client]; i++) {
		if (fleet->member[client][i] == backend) {
			return 1;
		}
	}
	return 0;
}

// Returns how many members of clients' subsets in `before` are no longer in the same client's
// subset in `after`. Only clients that exist in both are counted.
static inline uint64_t fleet_left(const struct fleet *before, const struct fleet *after) {
	static uint8_t held[FLEET_BACKENDS_MAX];
	uint32_t clients = before->clients < after->clients ? before->clients : after->clients;
	uint64_t left = 0;

	for (uint32_t c = 0; c < clients; c++) {
		memset(held, 0, sizeof(held));
		for (uint32_t i = 0; i < after->length[c]; i++) {
			held[after->member[c][i]] = 1;
		}
		for (uint32_t i = 0; i < before->length[c]; i++) {
			left += !held[before->member[c][i]];
		}
	}
	return left;
}

// Returns the number of clients per backend, which weir_subset_count determines.
static inline struct spread count_spread(
	const struct weir_subset_params *params, uint32_t clients, uint32_t n) {
	uint32_t *counts = numbers_alloc(n);
	uint32_t *scratch = numbers_alloc(n + weir_subset_scratch_count(n));
	struct spread spread;

	weir_subset_count(params, clients, NULL, n, counts, scratch);
	spread = spread_of(counts, n);
	free(scratch);
	free(counts);
	return spread;
}
