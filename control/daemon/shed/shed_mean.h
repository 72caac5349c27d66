// SPDX-License-Identifier: BSD-3-Clause
//
// Shed mean: how many connections of a backend are above the mean of its service, and how many of
// them the next order to its agent may end. The mean is that of open flows per weight over the
// backends that take new flows, including the backend itself. Integers only, so that a backend is
// never below the mean by a rounding error.
//
// Threads: pure functions.
#pragma once

#include <stdint.h>

#define WEIR_SHED_RATE_LEAST_MILLI 200u // 0.2/s: one connection within the longest order
#define WEIR_SHED_ORDER_MS 1000u // duration of an order, unless the rate is below one a second

struct weir_shed_sum { // of the backends that take new flows; zeroed = none
	uint64_t flows, weight;
	uint32_t backends;
};

struct weir_shed_level {
	uint64_t flows; // open flows of the backend
	uint64_t mean; // its share of all flows by its weight, rounded up
	uint64_t above; // how many flows it has above `mean`; 0 = none
};

// Add a backend.
void weir_shed_sum_add(struct weir_shed_sum *sum, uint64_t flows, uint32_t weight);
// Compare a backend, which is part of the sum, with the mean. Returns 0, or -ENOENT if the sum has
// no other backend or no weight.
int weir_shed_level(const struct weir_shed_sum *sum, uint64_t flows, uint32_t weight,
	struct weir_shed_level *ret);

// Raise the mean to that at the start of a shed if it is lower now: clients that do not connect
// again at once lower the sum, and each end would lower the mean for the next one.
void weir_shed_level_raise(struct weir_shed_level *level, uint64_t mean);

struct weir_shed_step { // an order
	uint32_t count, duration_ms;
};

// Returns the next order: as many connections as the rate permits in its duration, but at most
// `above` and `left`. left: how many connections the shed may still end in all. count 0: nothing is
// left to order.
struct weir_shed_step weir_shed_step(uint64_t above, uint64_t left, uint32_t rate_milli_per_s);
