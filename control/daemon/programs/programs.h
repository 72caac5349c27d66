// SPDX-License-Identifier: BSD-3-Clause
//
// Programs: runs the programs in the configuration: the program of `notify`, and the programs of
// health checks of type exec. A helper process runs them as a user without privileges, with an
// empty standard input, few environment variables, and the working directory "/". weir-control
// starts the helper before it drops its own privileges, and cannot start it again later.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "log.h"
#include "privileges.h"

#define WEIR_PROGRAMS_MAX 64u // maximum number of runs that wait for their results
#define WEIR_PROGRAM_TEXT_BYTES 8192u // arguments and variables of a program, with their NULs
#define WEIR_PROGRAM_OUTPUT_BYTES 200u
#define WEIR_PROGRAM_GRACE_MS 1000u // time within which a killed program should end

struct weir_programs;

// A program to run. All strings are copied.
struct weir_program {
	const char *const *arguments; // NULL-terminated; the first is the absolute path of the file
	const char *const *variables; // environment: "NAME=value", NULL-terminated
	uint32_t timeout_ms; // after this time, the helper kills the process group of the program
	// true: when the program has ended, the helper kills the rest of its process group. false:
	// processes that the program leaves behind continue.
	bool kill_rest;
};

enum weir_program_end {
	WEIR_PROGRAM_EXITED, // status: exit status
	WEIR_PROGRAM_SIGNALED, // status: signal
	WEIR_PROGRAM_TIMED_OUT, // killed after timeout_ms
	WEIR_PROGRAM_NOT_STARTED, // status: negative errno
	// The helper process has exited, or there was no result until about WEIR_PROGRAM_GRACE_MS
	// after the timeout, because the program cannot be killed or the helper process is stopped.
	WEIR_PROGRAM_LOST,
};

struct weir_program_result {
	enum weir_program_end end;
	int status;
	// The first line of standard output and standard error together, without the newline; for
	// NOT_STARTED and LOST, the reason.
	char output[WEIR_PROGRAM_OUTPUT_BYTES];
};

// Called once for each program that was not cancelled: when the program has ended, or with the
// result LOST.
typedef void (*weir_program_done)(void *context, const struct weir_program_result *result);

// Start the helper process, which switches to the user `run_as`. Call before other threads start,
// and before libuv is used: the helper closes the descriptors that libuv shares between loops.
// *ret: the connection to the helper; after it is closed, the helper exits when its programs have
// ended. Returns 0 or negative errno.
int weir_programs_start(const struct weir_run_as *run_as, int *ret);

// helper: result of weir_programs_start. Takes ownership of it, even if the call fails. Returns 0
// or negative errno.
int weir_programs_create(
	uv_loop_t *loop, int helper, struct weir_log *log, struct weir_programs **ret);
// Close the connection. `done` is not called any more. Programs that are running continue until
// they end or their timeouts pass. Afterwards, run the loop, so that the handles can close. NULL is
// allowed.
void weir_programs_close(struct weir_programs *programs);

// Run a program. *ret_id identifies the run, for weir_programs_cancel; NULL = not needed. Returns 0
// (`done` will be called, later), -EBUSY (WEIR_PROGRAMS_MAX programs are running, or the helper
// reads no requests now), -E2BIG (too many bytes or words) or -EPIPE (there is no helper process).
// programs: NULL = the helper process has not started.
int weir_programs_run(struct weir_programs *programs, const struct weir_program *program,
	weir_program_done done, void *context, uint64_t *ret_id);
// Kill a program; its `done` is not called. Does nothing for a program that has ended.
void weir_programs_cancel(struct weir_programs *programs, uint64_t id);

// Returns why programs cannot run, as one line, or NULL if they can. programs: NULL = the helper
// process has not started.
const char *weir_programs_problem(const struct weir_programs *programs);

// Write the result as one line, such as "exit status 1: no route" or "killed after 500 ms".
void weir_program_describe(
	const struct weir_program_result *result, uint32_t timeout_ms, char *text, size_t bytes);
