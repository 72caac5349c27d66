// SPDX-License-Identifier: BSD-3-Clause
//
// Stores whether the last report of a check contained a value that the next report withdraws by
// omitting it: the announced state, or the weight from a program.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "health_state.h"
#include "report.h"

struct weir_health_reported {
	uint8_t word; // enum weir_health_word: last state announced in an answer
	bool weight; // the last report of a program had a weight
};

// Call for each report of a check. passed: result of the check. A passing answer without a state
// withdraws the announced state: the report then has the state "ready". Returns whether the report
// has or withdraws a value, so that it must be passed on.
bool weir_health_reported_apply(struct weir_health_reported *reported, enum weir_config_check type,
	bool passed, struct weir_report *report);
