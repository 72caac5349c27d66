// SPDX-License-Identifier: BSD-3-Clause
//
// Commands: executes the commands of weir-agent on this host: status, lame-duck and ready.
//
// Threads: one, the event loop's.
#pragma once

#include <jansson.h>

#include "announcement.h"

struct weir_commands {
	struct weir_announcement *announcement; // must outlive the commands
	json_t *(*status)(void *context); // builds the status; the caller owns it
	void *context;
};

// Execute a request: {"command": "lame-duck", "interval_ms", "patient"}, or another command, which
// has no parameters. context: struct weir_commands. While the process is stopping
// (announcement->final), commands that change the state are refused. Returns the status after the
// command, or {"error"}; owned by the caller. NULL = out of memory.
json_t *weir_commands_answer(void *context, const json_t *request);
