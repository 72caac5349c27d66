// SPDX-License-Identifier: BSD-3-Clause
//
// Drains: ends the drains that operators started, even if the client has disconnected. Also ends
// the drains of services and binds that a reload removed. A drain ends when no open flow is left,
// or at its deadline. At the deadline, the remaining flows are kept or dropped. For a service, bind
// or backend that a reload removed, on_backend_down of the service determines this; for all other
// drains, drain.at_deadline of the service determines this. The phase of each drain is in the
// tables, so drains continue after a restart of this process.
//
// Threads: only the event loop's thread. No clock: time is an argument (CLOCK_MONOTONIC).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "states.h"
#include "tables.h"

struct weir_drains { // zero-initialized
	uint16_t backend[WEIR_BACKENDS_MAX]; // ids of draining backends
	uint32_t count;
	uint32_t next; // index in `backend` at which the next tick begins
	// Service id at which the next tick begins to examine drained services.
	uint32_t next_service;
	uint32_t next_removal; // service id at which the next tick begins to examine removals
	// One bit per backend id: set if the id is in `backend`.
	uint64_t listed[WEIR_BACKENDS_MAX / 64 + 1];
};

// Begins the drains of backends, or changes their deadlines; until_ns 0 = no deadline. If an error
// is returned, no drain has changed. A removed backend can also be drained: the drain then waits
// for its remaining flows. A drain continues when a reload removes its backend. Returns 0, -ENOENT
// (a backend does not exist).
int weir_drains_begin(struct weir_drains *drains, struct weir_tables *tables,
	const uint16_t *backends, uint32_t count, uint64_t until_ns);

// Lists the draining backends again, including backends whose drains an earlier process began. Call
// after the tables got a segment or a configuration.
void weir_drains_follow(struct weir_drains *drains, const struct weir_tables *tables);

struct weir_drains_of { // what a tick uses
	struct weir_tables *tables;
	struct weir_states *states; // records the end of each drain in its history
	struct weir_log *log;
};

// Ends the drains that are due; call about every 100 ms. Also ends the drains of services, VIPs,
// removed services and removed binds, which are listed only in the tables. While no dataplane is
// attached, the number of flows is unknown, so drains end only at their deadlines. One call
// examines at most WEIR_DRAINS_LINES / workers backends, as many services with drained binds, and
// as many services with removals. The next call continues with the following backends and services.
// Returns whether the tables must be published.
#define WEIR_DRAINS_LINES 16384u // cache lines of counters; reading them takes about 2 ms
bool weir_drains_tick(struct weir_drains *drains, const struct weir_drains_of *of, uint64_t now_ns);

// Returns the number of open flows that a drain leaves at its deadline. open_flows: their sum now.
// Returns WEIR_FLOWS_UNKNOWN without a dataplane, during the recount after its restart, and for the
// sum 0: a sum of 0 that counts all flows (weir_tables_counts_drains) ends the drain before the
// deadline does.
uint64_t weir_drains_left(const struct weir_tables *tables, uint64_t open_flows);

// Returns what happens to a service's flows at the deadline of its drain: KEEP if the service has
// no configuration.
enum weir_config_at_deadline weir_drains_at_deadline(
	const struct weir_tables *tables, const char *service);
// Returns what happens to a backend's flows at the deadline of its drain. The result is KEEP for a
// removed backend, because on_backend_down determines what happens to its flows.
enum weir_config_at_deadline weir_drains_backend_at_deadline(
	const struct weir_tables *tables, const struct weir_backend_state *backend);
const char *weir_drain_phase_name(uint8_t phase); // "unknown" when out of range
