// SPDX-License-Identifier: BSD-3-Clause
//
// What the two files of poolifier's strategies share: poolifier.c has the pool, its tasks and
// members, poolifier_choose.c how each strategy chooses.
#pragma once

#include "poolifier.h"
#include "poolifier_statistics.h"

#define WEIR_POOLIFIER_NO_KEY (-1)

struct weir_poolifier_worker {
	struct weir_poolifier_usage usage;
	struct weir_poolifier_history run;
	struct weir_poolifier_history wait;
	struct weir_poolifier_history elu_active;
	struct weir_poolifier_history elu_idle;
	double virtual_end;
	bool ready;
};

struct weir_poolifier {
	struct weir_poolifier_options options;
	struct weir_poolifier_requirements needs;
	struct weir_poolifier_worker **workers; // in the order of their keys
	uint32_t count;
	uint32_t weight_count;
	double *weights;
	double *rounds; // distinct weights, ascending
	uint32_t round_count;
	int next; // the original's cursor may point nowhere, then the one before counts
	int previous;
	double spent; // in this turn
	uint32_t round;
	int at; // interleaved: where the scan of workers goes on
};

// Keys that a choice may return; keys == NULL is all.
struct weir_poolifier_affinity {
	const uint32_t *keys;
	uint32_t count;
};

// Fair share: the worker has been given a task, or has finished one.
void weir_poolifier_charge(struct weir_poolifier *pool, int key, double now_ms);
