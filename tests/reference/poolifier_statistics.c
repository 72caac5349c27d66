// SPDX-License-Identifier: BSD-3-Clause
#include "poolifier_statistics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct weir_poolifier_requirements weir_poolifier_requirements_of(
	const struct weir_poolifier_options *options) {
	const struct weir_poolifier_requirement none = {false, false, false};
	const struct weir_poolifier_requirement sum = {true, false, false};
	const struct weir_poolifier_requirement run = {
		true, !options->run_median, options->run_median};
	const struct weir_poolifier_requirement wait = {
		true, !options->wait_median, options->wait_median};
	const struct weir_poolifier_requirement elu = {
		true, !options->elu_median, options->elu_median};

	switch (options->strategy) {
	case WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN:
	case WEIR_POOLIFIER_INTERLEAVED_WEIGHTED_ROUND_ROBIN:
		return (struct weir_poolifier_requirements){run, wait, none};
	case WEIR_POOLIFIER_LEAST_BUSY:
		return (struct weir_poolifier_requirements){sum, sum, none};
	case WEIR_POOLIFIER_LEAST_ELU:
		return (struct weir_poolifier_requirements){none, sum, sum};
	case WEIR_POOLIFIER_FAIR_SHARE:
		return (struct weir_poolifier_requirements){run, wait, elu};
	case WEIR_POOLIFIER_ROUND_ROBIN:
	case WEIR_POOLIFIER_LEAST_USED:
	case WEIR_POOLIFIER_STRATEGY_COUNT:
		break;
	}
	return (struct weir_poolifier_requirements){none, none, none};
}

void weir_poolifier_measure_init(struct weir_poolifier_measure *measure) {
	*measure = (struct weir_poolifier_measure){
		.minimum = NAN,
		.maximum = NAN,
		.average = NAN,
		.median = NAN,
	};
}

int weir_poolifier_history_init(
	struct weir_poolifier_history *history, const struct weir_poolifier_options *options) {
	double *samples = calloc(2 * (size_t)options->window, sizeof(samples[0]));

	if (samples == NULL) {
		return -ENOMEM;
	}
	*history = (struct weir_poolifier_history){
		.samples = samples,
		.sorted = samples + options->window,
		.window = options->window,
		.float32 = options->float32,
	};
	return 0;
}

void weir_poolifier_history_fini(struct weir_poolifier_history *history) {
	free(history->samples);
}

static void put(struct weir_poolifier_history *history, double value) {
	history->samples[history->at] = history->float32 ? (double)(float)value : value;
	history->at = history->at + 1 < history->window ? history->at + 1 : 0;
	history->count += history->count < history->window;
}

// Oldest first: the order in which a sum is rounded.
static double average(const struct weir_poolifier_history *history) {
	uint32_t first = history->count < history->window ? 0 : history->at;
	double sum = 0;

	for (uint32_t i = 0; i < history->count; i++) {
		uint32_t at = first + i;

		sum += history->samples[at < history->window ? at : at - history->window];
	}
	return sum / history->count;
}

static int compare(const void *left, const void *right) {
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(struct weir_poolifier_history *history) {
	uint32_t n = history->count;

	memcpy(history->sorted, history->samples, n * sizeof(history->sorted[0]));
	qsort(history->sorted, n, sizeof(history->sorted[0]), compare);
	return (history->sorted[(n - 1) / 2] + history->sorted[n / 2]) / 2;
}

void weir_poolifier_measure_add(struct weir_poolifier_measure *measure,
	struct weir_poolifier_history *history, const struct weir_poolifier_requirement *need,
	double value) {
	if (!need->aggregate) {
		return;
	}
	measure->aggregate += value;
	measure->has_aggregate = true;
	measure->minimum = fmin(value, measure->minimum);
	measure->maximum = fmax(value, measure->maximum);
	if (!need->average && !need->median) {
		return;
	}
	put(history, value);
	measure->samples = history->count;
	measure->average = need->average ? average(history) : NAN;
	measure->median = need->median ? median(history) : NAN;
}
