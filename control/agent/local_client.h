// SPDX-License-Identifier: BSD-3-Clause
//
// Local client: the commands that talk to a running `weir-agent run`: status, lame-duck, ready.
// With their output and exit status.
//
// Threads: one; blocks.
#pragma once

#include <jansson.h>

#include "run.h"

enum weir_agent_exit weir_local_status(const struct weir_agent_options *options);
// The status, the caller's; NULL: no agent answers. Prints nothing.
json_t *weir_local_status_read(const struct weir_agent_options *options);
enum weir_agent_exit weir_local_ready(const struct weir_agent_options *options);

// Become a lame duck, show the progress until no connection is left or the interval is over, then
// run the command of --then; not if weir-agent ready calls the drain off.
enum weir_agent_exit weir_local_lame_duck(const struct weir_agent_options *options);
