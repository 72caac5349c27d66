// SPDX-License-Identifier: BSD-3-Clause
//
// Capacity command: `weir-agent capacity`.
//
// Threads: one; blocks while it measures.
#pragma once

#include "run.h"

// Run the command. Returns the exit status.
enum weir_agent_exit weir_capacity_command(const struct weir_agent_options *options);
