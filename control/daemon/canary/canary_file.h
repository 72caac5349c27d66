// SPDX-License-Identifier: BSD-3-Clause
//
// Canary file: stores the canaries in RUN_DIR/control/canaries.json, so that the next weir-control
// can continue them. The file is replaced atomically (weir_text_file_replace).
//
// Threads: the thread of the loop. No logging.
#pragma once

#include <stdbool.h>

#include "audit.h"
#include "canary_judge.h"
#include "config.h"

// States of a canary. X(NAME, "name"). RUNNING must be the first. A paused canary is also RUNNING.
#define WEIR_CANARY_STATES(X) \
	X(RUNNING, "running") \
	X(PROMOTED, "promoted") \
	X(ROLLED_BACK, "rolled-back") \
	X(STOPPED, "stopped")

enum weir_canary_state {
#define X(name, key) WEIR_CANARY_##name,
	WEIR_CANARY_STATES(X)
#undef X
		WEIR_CANARY_STATE_COUNT
};

const char *weir_canary_state_name(enum weir_canary_state state);

struct weir_canary_record { // data of one canary in the file
	char service[WEIR_CONFIG_NAME_BYTES], backend[WEIR_CONFIG_NAME_BYTES];
	struct weir_canary_plan plan;
	uint32_t step; // index of the step, below plan.steps
	uint8_t state; // enum weir_canary_state
	// Run-time weight that the canary has set; WEIR_WEIGHT_UNSET = the configured weight is
	// used.
	uint32_t weight;
	char why[WEIR_CANARY_WHY_BYTES]; // why the canary ended; "" while it runs
	uint64_t started_ms, ended_ms; // since 1970; ended_ms 0 = not ended
	struct weir_audit_who who; // the user who started the canary
};

// Read the file. *ret: owned by the caller, even if *ret_count is 0. Returns 0, -ENOENT, -EINVAL
// (not a file of this version, or an invalid canary), -ENOMEM, or another negative errno of reading
// the file.
int weir_canary_file_read(
	const char *run_dir, struct weir_canary_record **ret, uint32_t *ret_count);
// Write the file. Returns 0, -E2BIG (more than WEIR_SERVICES_MAX canaries), or another negative
// errno; after an error, the previous file is kept.
int weir_canary_file_write(
	const char *run_dir, const struct weir_canary_record *records, uint32_t count);
