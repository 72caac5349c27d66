// SPDX-License-Identifier: BSD-3-Clause
#include "steal_duration.h"

void weir_steal_duration_init(struct weir_steal_duration *duration) {
	duration->average = -1;
	duration->longest = 0;
}

void weir_steal_duration_ended(struct weir_steal_duration *duration, double took) {
	duration->average = duration->average < 0 ? took : (duration->average + took) / 2;
}

void weir_steal_duration_seen(struct weir_steal_duration *duration, double running) {
	if (running > duration->longest) {
		duration->longest = running;
	}
	if (running > 2 * duration->average) {
		duration->average = -1;
	}
}

double weir_steal_duration_estimate(const struct weir_steal_duration *duration, double unknown) {
	if (duration->average >= 0) {
		return duration->average;
	}
	return duration->longest > 0 ? 2 * duration->longest : unknown;
}
