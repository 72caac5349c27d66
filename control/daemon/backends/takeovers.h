// SPDX-License-Identifier: BSD-3-Clause
//
// Takeovers: logs and records when the backups of a service begin to get new flows, and when they
// stop getting new flows (weir_tables_takeover).
//
// Threads: only the event loop's thread.
#pragma once

#include "log.h"
#include "states.h"
#include "tables.h"

// Call after each publication and each weir_tables_tick. tables: NULL is allowed.
void weir_takeovers_note(
	struct weir_log *log, struct weir_states *states, struct weir_tables *tables);
