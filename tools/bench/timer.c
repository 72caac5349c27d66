// SPDX-License-Identifier: BSD-3-Clause
#include "timer.h"

#include <stdlib.h>

#define READINGS 4001

static int compare(const void *left, const void *right) {
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

uint32_t weir_bench_timer_cost(void) {
	uint64_t cost[READINGS];

	for (unsigned int i = 0; i < READINGS; i++) {
		uint64_t start = weir_bench_timer_start();

		cost[i] = weir_bench_timer_end() - start;
	}
	qsort(cost, READINGS, sizeof(cost[0]), compare);
	return (uint32_t)cost[READINGS / 2];
}
