// SPDX-License-Identifier: BSD-3-Clause
//
// Run: executes the commands of weir-agent, with their output and exit status.
//
// Threads: one. decap and run exit on SIGTERM or SIGINT.
#pragma once

#include "options.h"

enum weir_agent_exit {
	WEIR_AGENT_DONE = 0,
	WEIR_AGENT_REFUSED = 1,
	WEIR_AGENT_USAGE = 2,
	WEIR_AGENT_ABSENT = 3, // no decap on the interface, or no agent in the run directory
	WEIR_AGENT_EXPIRED = 4, // the interval of lame-duck has expired, and connections are left
};

enum weir_agent_exit weir_agent_run(const struct weir_agent_options *options);
