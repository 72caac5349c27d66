// SPDX-License-Identifier: BSD-3-Clause
//
// Checks: which backends of a configuration are checked, where, how and at what pace.
//
// Threads: one, that of the loop.
#pragma once

#include "config.h"
#include "health.h"
#include "states.h"
#include "tables.h"

// Check the backends of this configuration and no others; a new check starts from the known state.
// Call after weir_states_configure. Returns 0 or negative errno.
int weir_checks_configure(struct weir_health *health, const struct weir_states *states,
	const struct weir_tables *tables, const struct weir_config *config);
// Check backends that are far from use less often (weir_tables_backend_is_far); tables NULL: none
// are. Call after each publication, and every second for publications by a tick.
void weir_checks_pace(struct weir_health *health, const struct weir_tables *tables);
