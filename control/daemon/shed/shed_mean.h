// SPDX-License-Identifier: BSD-3-Clause
//
// Shed mean: computes how many connections of a backend are above the mean of its service, and how
// many of these connections the next order to its agent may end. The mean of a backend is its
// share, by weight, of this balancer's open flows to all backends of the service that get new
// flows, including itself. The mean is computed with integers and rounded up, so that rounding
// errors never bring a backend below the mean.
//
// Threads: any; no shared state.
#pragma once

#include <stdint.h>

#define WEIR_SHED_RATE_LEAST_MILLI 200u // 0.2 per second: one connection per order, which lasts 5 s
// Minimum duration of an order. See weir_shed_step.
#define WEIR_SHED_ORDER_MS 1000u

struct weir_shed_sum { // sums over the backends that get new flows; zeroed = no backend
	uint64_t flows, weight;
	uint32_t backends;
};

// Counts the flows of a backend that its agent has ended with an RST. With direct server return,
// the balancer does not receive the RST, so these flows stay in the flow table until they time out,
// at most one timeout after they were ended. Flows that were ended at about the same time share a
// bucket, and are counted until the last flow has timed out; the first flow is therefore counted
// for up to a sixteenth of the timeout too long.
#define WEIR_SHED_GONE_BUCKETS 17u // 16 for one timeout, and the bucket that is being filled
struct weir_shed_gone { // zeroed = none
	struct {
		uint64_t ended, until_ms;
	} bucket[WEIR_SHED_GONE_BUCKETS];
};
// Adds flows that were ended now. timeout_ms: timeout of established flows.
void weir_shed_gone_add(
	struct weir_shed_gone *gone, uint64_t ended, uint64_t now_ms, uint32_t timeout_ms);
uint64_t weir_shed_gone_count(const struct weir_shed_gone *gone, uint64_t now_ms);

struct weir_shed_level {
	uint64_t flows; // open flows of the backend
	uint64_t mean; // the backend's share, by weight, of the flows of all backends, rounded up
	uint64_t above; // number of flows above `mean`; 0 = none
};

// Adds a backend to the sum. flows: its open flows.
void weir_shed_sum_add(struct weir_shed_sum *sum, uint64_t flows, uint32_t weight);
// Compares a backend with the mean. sum: must include the backend. Returns 0, or -ENOENT if the sum
// has no other backend, or if all weights are 0.
int weir_shed_level(const struct weir_shed_sum *sum, uint64_t flows, uint32_t weight,
	struct weir_shed_level *ret);

// If the mean of `level` is below `mean`, the mean at the start of a shed, sets it to `mean`. While
// clients have not connected again, the sum of flows is lower, so each ended connection would
// otherwise lower the mean for the next order.
void weir_shed_level_raise(struct weir_shed_level *level, uint64_t mean);

struct weir_shed_step { // an order of a shed: maximum number of connections to end, and duration
	uint32_t count, duration_ms;
};

// Returns the next order. above: number of connections above the mean. left: number of connections
// that the shed may still end in total. The count of the order is the number of connections that
// the rate permits within its duration, but at most `above`, `left` and WEIR_AGENT_SHED_COUNT_MOST;
// 0 = there is no connection to end. seconds: duration of the order, 1 or 2. If the rate permits
// less than one connection in this time, the order lasts long enough for one connection.
struct weir_shed_step weir_shed_step(
	uint64_t above, uint64_t left, uint32_t rate_milli_per_s, uint32_t seconds);
