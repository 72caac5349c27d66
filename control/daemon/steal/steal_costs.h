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
// A full queue counts as at most this many connections of unknown duration.
#define WEIR_STEAL_QUEUE 16.0

// Returns the seconds that a move costs a client, above 0: the time until the client's next SYN,
// which the new backend gets. Clients send SYNs again after 1 s, 2 s, 4 s, and so on (RFC 6298).
// waited_ms: time since the client's last SYN. The number of earlier SYNs is unknown, so the result
// is the least possible time.
double weir_steal_move_s(uint32_t waited_ms);

// Returns the seconds between two connections that a backend finishes, above 0. queue: number of
// connections in its accept queue. service_s: estimate; below 0 = unknown. longest_ms: the
// longest wait of a connection that the queue refused. If this is more than twice the estimated
// time of the queue, the estimate is void.
double weir_steal_service_s(double queue, double service_s, uint32_t longest_ms);

// Returns the seconds until a backend has finished its accept queue. fill: fill level of the queue,
// 0 to 1. service_s: result of weir_steal_service_s. The result is limited. Otherwise other
// backends with long queues would count as idle, compared with a very long queue.
double weir_steal_queue_s(double queue, double fill, double service_s);
