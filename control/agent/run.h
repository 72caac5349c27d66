// SPDX-License-Identifier: BSD-3-Clause
//
// Run: executes the commands of weir-agent, with their output and exit status.
//
// Threads: one; weir-agent run has more threads (service.h). decap exits on SIGTERM or SIGINT. run
// exits on SIGINT; on SIGTERM it drains and then exits.
#pragma once

#include "options.h"

enum weir_agent_exit {
	WEIR_AGENT_DONE = 0,
	WEIR_AGENT_REFUSED = 1,
	WEIR_AGENT_USAGE = 2,
	WEIR_AGENT_ABSENT = 3, // no decap on the interface, or no agent in the run directory
	WEIR_AGENT_EXPIRED = 4, // lame-duck: the interval has expired, and connections may be left
};

// Runs the command. Returns the exit status. For doctor and exec, the status can be a number that
// is not in the enum, or has another meaning there (doctor_checks.h, exec.h).
enum weir_agent_exit weir_agent_run(const struct weir_agent_options *options);
