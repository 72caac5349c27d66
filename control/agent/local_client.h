// SPDX-License-Identifier: BSD-3-Clause
//
// Local client: the commands that are sent to a running `weir-agent run`: status, lame-duck, ready.
// The functions print the output of the command and return the exit status.
//
// Threads: one; blocks.
#pragma once

#include <jansson.h>

#include "run.h"

enum weir_agent_exit weir_local_status(const struct weir_agent_options *options);
// Read the status. Prints nothing. Returns the status, owned by the caller, or NULL if no agent
// responds, or if out of memory.
json_t *weir_local_status_read(const struct weir_agent_options *options);
enum weir_agent_exit weir_local_ready(const struct weir_agent_options *options);

// Make the agent a lame duck, and print the progress until no connection is left or the interval is
// over. Then run the command of --then, unless weir-agent ready has cancelled the drain, or
// weir-agent run has restarted or no longer responds. If --then is given and no balancer probes the
// agent, the drain lasts for the whole interval.
enum weir_agent_exit weir_local_lame_duck(const struct weir_agent_options *options);
