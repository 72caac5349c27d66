// SPDX-License-Identifier: BSD-3-Clause
//
// Drains: ends the drains that operators started, whether or not the client still waits, and the
// drains of services and binds that a reload removed. A drain ends when no open flow is left, or at
// its deadline. At the deadline the remaining flows are kept or dropped, depending on
// drain.at_deadline of the service, or, for removed services and binds, on on_backend_down. The
// phase of each drain is in the tables, so drains continue after a restart of this process.
//
// Threads: only the event loop's thread. No clock: time is an argument (CLOCK_MONOTONIC).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "states.h"
#include "tables.h"

struct weir_drains { // zero-initialized
	uint16_t *backend; // ids of draining backends
	uint32_t count, room;
	uint32_t next; // index in backend where the next tick begins
	uint32_t next_service; // service id where the next tick begins
	uint32_t next_removal; // service id where the next tick begins with removals
	uint64_t listed[WEIR_BACKENDS_MAX / 64 + 1]; // a bit per backend id in the list
};

void weir_drains_fini(struct weir_drains *drains);

// Begin the drains of backends, or change their deadlines; until_ns 0 = no deadline. All or
// nothing. A removed backend can be drained as well: its remaining flows are. A drain continues
// when a reload removes its backend. Returns 0, -ENOENT (a backend does not exist), -ENOMEM.
int weir_drains_begin(struct weir_drains *drains, struct weir_tables *tables,
	const uint16_t *backends, uint32_t count, uint64_t until_ns);

// Find draining backends after the tables got a segment or a configuration: an earlier process may
// have begun their drains. If out of memory, some drains do not end until the next call.
void weir_drains_follow(struct weir_drains *drains, const struct weir_tables *tables);

struct weir_drains_of { // what a tick uses
	struct weir_tables *tables;
	struct weir_states *states; // records the end of each drain in its history
	struct weir_log *log;
};

// Call about every 100 ms. Also ends the drains of services and VIPs, and of removed services and
// binds, which are stored in the tables only. While no dataplane is attached, the number of flows
// is unknown: drains end only at their deadlines. One call examines WEIR_DRAINS_LINES / workers
// backends, and as many services; the next call continues after them. Returns whether the tables
// must be published.
#define WEIR_DRAINS_LINES 16384u // cache lines of counters; reading them takes about 2 ms
bool weir_drains_tick(struct weir_drains *drains, const struct weir_drains_of *of, uint64_t now_ns);

// What happens to a service's flows at the deadline of its drain.
enum weir_config_at_deadline weir_drains_at_deadline(
	const struct weir_tables *tables, const char *service);
// What happens to a backend's flows at the deadline of its drain. Flows of removed backends are
// kept: on_backend_down decides about them.
enum weir_config_at_deadline weir_drains_backend_at_deadline(
	const struct weir_tables *tables, const struct weir_backend_state *backend);
const char *weir_drain_phase_name(uint8_t phase); // "unknown" when out of range
