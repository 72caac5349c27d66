// SPDX-License-Identifier: BSD-3-Clause
//
// Served dataplane: the file RUN_DIR/control/dataplane has the epoch of the dataplane that
// weir-control has served last, and since when its flows are counted. From this file, a new
// weir-control finds out whether a dataplane was restarted: flows of an earlier dataplane may then
// be open that the new one has not counted. A boot empties the run directory.
//
// Threads: one. No logging.
#pragma once

#include <stdint.h>

#include "daemon_options.h"

// Path of the file in the run directory.
#define WEIR_SERVED_FILE WEIR_CONTROL_DIR "/dataplane"

// Call this function when a dataplane is attached. *ret_since_ms, always set: since when the flows
// of this dataplane are counted, CLOCK_MONOTONIC; 0 = it is the first dataplane in this run
// directory, so there are no earlier flows. now_ms: CLOCK_MONOTONIC. Returns 0, or negative errno
// if the file cannot be written. The next process then counts from its own start or, if there is no
// file at all, takes its dataplane for the first one.
int weir_served_note(const char *run_dir, uint64_t epoch, uint64_t now_ms, uint64_t *ret_since_ms);
