// SPDX-License-Identifier: BSD-3-Clause
//
// Steal costs: the expected waiting times of connections at a backend, and the expected times of
// moves to another backend, for the planner (policy/steal_plan.h). As in dask.distributed, an
// unknown duration counts as WEIR_STEAL_UNKNOWN_S. If work took more than twice its estimate, the
// estimate is void and the duration unknown.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_STEAL_UNKNOWN_S 0.5
#define WEIR_STEAL_QUEUE 16.0 // a full queue counts as at most so many unknown connections

// Seconds that a move costs a client that has waited for this time since its last SYN: the time
// until its next SYN, which the new backend gets. Clients send SYNs again after 1 s, 2 s, 4 s, and
// so on (RFC 6298). The number of earlier SYNs is unknown, so the result is the least possible
// time. Above 0.
double weir_steal_move_s(uint32_t waited_ms);

// Seconds between two connections that a backend finishes. queue: connections in its accept queue.
// service_s: estimate; below 0 = unknown. longest_ms: longest time for which a connection that the
// queue refused has waited; the estimate is void if this is more than twice the estimated time of
// the queue. Above 0.
double weir_steal_service_s(double queue, double service_s, uint32_t longest_ms);

// Seconds until a backend has finished its accept queue. fill: fill level of the queue, 0 to 1.
// service_s: result of weir_steal_service_s. The result is limited, so that compared with a very
// long queue, other backends with long queues do not count as idle.
double weir_steal_queue_s(double queue, double fill, double service_s);
