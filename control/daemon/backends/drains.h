// SPDX-License-Identifier: BSD-3-Clause
//
// Drains: completes the drains that operators have started, with or without a client: a drain is
// over when no open flow is left, or at its deadline, where the rest is kept or dropped as the
// service's drain.at_deadline says. How far each has come is in the tables, and so survives this
// process.
//
// Threads: one, that of the loop. No clock: time is an argument (CLOCK_MONOTONIC).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "tables.h"

struct weir_drains { // zeroed at first
	uint16_t *backend; // ids of those that drain
	uint32_t count, room;
};

void weir_drains_fini(struct weir_drains *drains);

// Begin the drain of a backend, or give it another deadline; until_ns 0 = none. Returns 0, -ENOENT,
// -ENOMEM (nothing changed).
int weir_drains_begin(struct weir_drains *drains, struct weir_tables *tables, uint16_t backend,
	uint64_t until_ns);

// Find those that drain, after the tables were given a segment or a configuration: an earlier
// process may have begun them. Without memory some are not carried through until the next call.
void weir_drains_follow(struct weir_drains *drains, const struct weir_tables *tables);

// Look at each; call about every 100 ms. While no dataplane is attached, how many flows are left is
// unknown: only deadlines count then. Returns whether the tables are to be published.
bool weir_drains_tick(struct weir_drains *drains, struct weir_tables *tables, uint64_t now_ns,
	struct weir_log *log);

// What becomes of the flows of a backend of this service at the deadline.
enum weir_config_at_deadline weir_drains_at_deadline(
	const struct weir_tables *tables, const char *service);
const char *weir_drain_phase_name(uint8_t phase); // "unknown" when out of range
