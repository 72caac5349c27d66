// SPDX-License-Identifier: BSD-3-Clause
//
// Probes of type exec: run a program of the configuration (programs.h), and pass if its exit status
// is 0. The program gets the backend in variables, and in the arguments that contain placeholders.
//
// With weight_from_exit, exit statuses from 2 on also pass, and report the weight (exit status -
// 2). The report of exit status 0 is empty: the weight of the configuration applies.
//
// The outcome is UNKNOWN if there is no helper process to run programs, if this host has too few
// resources to start the program, or if there is no result because the program cannot be killed or
// the helper process has exited or is stopped. If the program cannot be started for another reason,
// such as a missing file, the probe fails.
//
// Threads: only the event loop's thread.
#pragma once

#include <uv.h>

#include "health_probe.h"
#include "programs.h"

struct weir_health_exec; // a probe

// Names of a backend and its service, for programs. Borrowed.
struct weir_health_names {
	const char *service, *backend;
};

// Starts a probe. programs: NULL = no program can run. names: copied. Returns 0, or negative errno;
// `done` is then not called.
int weir_health_exec_start(uv_loop_t *loop, struct weir_programs *programs,
	const struct weir_health_names *names, const struct weir_probe_params *params,
	struct weir_health_exec **ret);

// Kills the program, without calling done. The libuv handle of the probe is closed in the next
// iteration of the loop.
void weir_health_exec_cancel(struct weir_health_exec *exec);
