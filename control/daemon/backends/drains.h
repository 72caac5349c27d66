// SPDX-License-Identifier: BSD-3-Clause
//
// Drains: completes the drains that operators started, whether or not the client still waits, and
// those of what a reload removed. A drain ends when no open flow is left, or at its deadline, when
// the remaining flows are kept or dropped by the service's drain.at_deadline, or by on_backend_down
// of what was removed. The phase of each is in the tables, and so survives this process.
//
// Threads: one, that of the loop. No clock: time is an argument (CLOCK_MONOTONIC).
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
	uint32_t next_service; // id where it begins
	uint32_t next_removal; // the same of what was removed
	uint64_t listed[WEIR_BACKENDS_MAX / 64 + 1]; // a bit per id that is in the list
};

void weir_drains_fini(struct weir_drains *drains);

// Begin the drains of backends, or change their deadlines; until_ns 0 = none. All or nothing. The
// drain of a removed backend is that of its remaining flows: one goes on when a reload removes its
// backend. Returns 0, -ENOENT (one does not exist), -ENOMEM.
int weir_drains_begin(struct weir_drains *drains, struct weir_tables *tables,
	const uint16_t *backends, uint32_t count, uint64_t until_ns);

// Find draining backends after the tables got a segment or a configuration: an earlier process may
// have begun their drains. If out of memory, some are not completed until the next call.
void weir_drains_follow(struct weir_drains *drains, const struct weir_tables *tables);

struct weir_drains_of { // what a tick uses
	struct weir_tables *tables;
	struct weir_states *states; // records the end of each drain in its history
	struct weir_log *log;
};

// Call about every 100 ms. Also completes the drains of services and VIPs, and of what was removed,
// whose state is in the tables alone. While no dataplane is attached, the number of flows is
// unknown, and only deadlines end a drain. One call looks at WEIR_DRAINS_LINES / workers backends,
// and at as many services; the next one continues. Returns whether the tables must be published.
#define WEIR_DRAINS_LINES 16384u // of counters; reading them takes about 2 ms
bool weir_drains_tick(struct weir_drains *drains, const struct weir_drains_of *of, uint64_t now_ns);

// What happens to the flows of a service at the deadline of its drain.
enum weir_config_at_deadline weir_drains_at_deadline(
	const struct weir_tables *tables, const char *service);
// The same of a backend. Removed ones keep theirs: on_backend_down decides about these.
enum weir_config_at_deadline weir_drains_backend_at_deadline(
	const struct weir_tables *tables, const struct weir_backend_state *backend);
const char *weir_drain_phase_name(uint8_t phase); // "unknown" when out of range
