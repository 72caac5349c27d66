// SPDX-License-Identifier: BSD-3-Clause
//
// Warm-up: runs the command of --warm-up. If the command succeeds, the announced state changes from
// STARTING to READY.
//
// Threads: one, the event loop's.
#pragma once

#include <uv.h>

#include "announcement.h"

struct weir_warm_up { // zeroed = none
	struct weir_log *log;
	struct weir_announcement *announcement;
	uv_process_t process;
};

// Run the command with /bin/sh. log and announcement must outlive ret. Returns 0 or negative errno.
int weir_warm_up_start(uv_loop_t *loop, const char *command, struct weir_log *log,
	struct weir_announcement *announcement, struct weir_warm_up *ret);
// Send SIGTERM to the command, if it is still running. Run the event loop after this call, so that
// libuv can close the handle.
void weir_warm_up_stop(struct weir_warm_up *warm_up);
