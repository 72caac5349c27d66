// SPDX-License-Identifier: BSD-3-Clause
//
// Computes the subsets of the clients of a fleet, for the replayers of subsetting.
//
// Threads: one. The program exits if it is out of memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "replay.h"
#include "subset.h"
#include "subset_reference.h"

#define SUBSETTER_MAX 65534u // maximum number of backends, or clients, of a recorded case

struct subsetter {
	struct weir_subset_params params;
	bool rendezvous; // rendezvous subsetting instead of params.algorithm
	uint32_t n;
	uint32_t *subset; // [n], the subset that was computed last
	uint32_t *counts; // [n]
	uint32_t *scratch;
	struct weir_rendezvous_score *scores;
};

// Uses only algorithm, size and salt of params.
struct subsetter *subsetter_create(
	const struct weir_subset_params *params, bool rendezvous, uint32_t n);
void subsetter_free(struct subsetter *subsetter);

// Fills subset, returns its length.
uint32_t subsetter_choose(struct subsetter *subsetter, uint32_t client);

// Fills counts with the number of clients of each backend.
void subsetter_count(struct subsetter *subsetter, uint32_t clients);

// Return the minimum and the maximum of counts, or 0 if there are no backends.
uint32_t subsetter_least(const struct subsetter *subsetter);
uint32_t subsetter_most(const struct subsetter *subsetter);

// Read a number from a trace. If the number is above SUBSETTER_MAX, the case fails and the function
// returns false. The caller must then end the case.
bool subsetter_read_count(
	struct replay *replay, const json_t *object, const char *key, uint32_t *ret_count);
bool subsetter_read_salt(struct replay *replay, const json_t *object, uint32_t *ret_salt);

// Checks a list of two numbers: minimum and maximum of counts.
void subsetter_check_min_max(
	struct replay *replay, const struct subsetter *subsetter, const json_t *min_max);

// Checks that a list is equal to numbers[n].
void subsetter_check_list(struct replay *replay, const char *what, const json_t *list,
	const uint32_t *numbers, uint32_t n);
