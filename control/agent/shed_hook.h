// SPDX-License-Identifier: BSD-3-Clause
//
// Shed hook: runs the command of --shed-hook, which makes the application end connections. The
// command reads one line for each connection from its standard input: "CLIENT PORT VIP PORT". The
// environment of the command has the variables WEIR_SHED_SERVICE and WEIR_SHED_COUNT.
//
// Threads: one, the event loop's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "log.h"
#include "shed_pick.h"

struct weir_shed_hook { // zeroed = none
	struct weir_log *log;
	const char *command;
	// Called at the end of each run. ok: the command exited with 0 in time.
	void (*ended)(void *context, bool ok);
	void *context;

	uv_loop_t *loop;
	uint64_t runs; // number of runs
	bool running;
	bool ok; // result of the run that is ending
	uint32_t handles; // number of handles of this run that are not closed
	char *lines; // standard input of the command; owned
	uv_process_t process;
	uv_pipe_t input;
	uv_timer_t timer; // kills the command
	uint64_t timeout_ms; // timeout of the current run
	uv_write_t write;
};

// Initialize without running the command. log, command: must outlive the hook. ended: see struct
// weir_shed_hook.
void weir_shed_hook_init(uv_loop_t *loop, struct weir_log *log, const char *command,
	void (*ended)(void *context, bool ok), void *context, struct weir_shed_hook *ret);
// Run the command with /bin/sh for these connections, which are copied. Call this function only
// while `running` is false. After timeout_ms, the process group of the command is killed. Returns 0
// or negative errno; errors are logged. If 0 is returned, `ended` is called later, even if the
// command fails.
int weir_shed_hook_run(struct weir_shed_hook *hook, const char *service,
	const struct weir_shed_connection *connections, uint32_t count, uint64_t timeout_ms);
// Stop waiting for a running command, which continues to run. `ended` is no longer called. Run the
// event loop after this call, so that libuv can close the handles.
void weir_shed_hook_stop(struct weir_shed_hook *hook);

// Write the line of a connection: "203.0.113.7 51034 198.51.100.10 80\n". Returns its length.
#define WEIR_SHED_HOOK_LINE_BYTES 112
size_t weir_shed_hook_line(
	const struct weir_shed_connection *connection, char line[WEIR_SHED_HOOK_LINE_BYTES]);
