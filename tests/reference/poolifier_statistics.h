// SPDX-License-Identifier: BSD-3-Clause
//
// Statistics of one worker as poolifier 5.3.2 keeps them: sum, least and most over a lifetime, and
// the average or the median of a window of samples. For comparison and replay only (poolifier.h);
// the product's are in moving.h: whole nanoseconds, exact sums, no pass over the window per sample.
//
// Used by poolifier.c. Threads: as the pool's.
#pragma once

#include "poolifier.h"

// Which statistics a strategy asks for. Nothing else is kept.
struct weir_poolifier_requirement {
	bool aggregate;
	bool average;
	bool median;
};

struct weir_poolifier_requirements {
	struct weir_poolifier_requirement run;
	struct weir_poolifier_requirement wait;
	struct weir_poolifier_requirement elu;
};

struct weir_poolifier_history { // a ring
	double *samples;
	double *sorted; // room for the median, behind the samples
	uint32_t window;
	uint32_t count;
	uint32_t at;
	bool float32;
};

struct weir_poolifier_requirements weir_poolifier_requirements_of(
	const struct weir_poolifier_options *options);

void weir_poolifier_measure_init(struct weir_poolifier_measure *measure);

int weir_poolifier_history_init(
	struct weir_poolifier_history *history, const struct weir_poolifier_options *options);
void weir_poolifier_history_fini(struct weir_poolifier_history *history);

void weir_poolifier_measure_add(struct weir_poolifier_measure *measure,
	struct weir_poolifier_history *history, const struct weir_poolifier_requirement *need,
	double value);
