// SPDX-License-Identifier: BSD-3-Clause
//
// Steal costs: the expected times of connections that wait at a backend, and of their move to
// another one, for the planner (policy/steal_plan.h). As in dask.distributed, work of an unknown
// duration counts with WEIR_STEAL_UNKNOWN_S; and an estimate is void, and the duration unknown,
// when something has taken more than twice as long.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_STEAL_UNKNOWN_S 0.5
#define WEIR_STEAL_QUEUE 16.0 // a full queue counts as this many unknown connections at most

// Seconds that a move costs a client that has waited for this long since its last SYN: until its
// next one, which the new backend gets. Clients send it after 1 s, then after 2 s, 4 s, and so on
// (RFC 6298); the number of earlier ones is unknown, so this is the least time. Above 0.
double weir_steal_move_s(uint32_t waited_ms);

// Seconds from one connection that a backend finishes to the next. queue: connections in its accept
// queue. service_s: estimate; below 0 = unknown. longest_ms: for which a connection that the queue
// refused has waited there; void if that is more than twice the estimate for the queue. Above 0.
double weir_steal_service_s(double queue, double service_s, uint32_t longest_ms);

// Seconds until a backend has finished its queue. fill: of its queue, 0 to 1. service_s: result of
// weir_steal_service_s. Bounded, so that one backend with a very long queue does not make others
// with long queues look idle.
double weir_steal_queue_s(double queue, double fill, double service_s);
