// SPDX-License-Identifier: BSD-3-Clause
//
// Steal costs: input for the planner (policy/steal_plan.h). Estimates how long connections wait at
// a backend, and how long a move to another backend takes. As in dask.distributed, an unknown
// duration counts as WEIR_STEAL_UNKNOWN_S. If a duration is more than twice its estimate, the
// larger of the estimate and WEIR_STEAL_UNKNOWN_S is used.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_STEAL_UNKNOWN_S 0.5
// The expected time of a full queue is at most this number times the time per connection, or times
// WEIR_STEAL_UNKNOWN_S if that is longer.
#define WEIR_STEAL_QUEUE 16.0

// Returns for how many seconds a client waits because its connection is moved; above 0. This is the
// time until the client's next SYN, which is sent to the new backend. Clients retransmit a SYN
// after 1 s, 2 s, 4 s, and so on (RFC 6298). waited_ms: time since the client's last SYN. The
// number of earlier SYNs is unknown, so the result is the shortest possible time.
double weir_steal_move_s(uint32_t waited_ms);

// Returns the mean time, in seconds, that a backend needs for each connection of its accept queue;
// above 0. queue: number of connections in the queue. service_s: the estimate of this time; below 0
// = unknown. longest_ms: the longest time that a connection has waited because the queue was full.
// If service_s is unknown, or longest_ms is more than twice the estimated time for the queue and
// one more connection, the result is at least WEIR_STEAL_UNKNOWN_S.
double weir_steal_service_s(double queue, double service_s, uint32_t longest_ms);

// Returns the expected time, in seconds, until a backend has emptied its accept queue. queue:
// number of connections in the queue. fill: fill level of the queue, 0 to 1. service_s: result of
// weir_steal_service_s. The result has a maximum. Otherwise a very long queue would increase the
// mean so much that backends with long queues count as idle.
double weir_steal_queue_s(double queue, double fill, double service_s);
