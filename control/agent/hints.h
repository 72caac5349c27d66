// SPDX-License-Identifier: BSD-3-Clause
//
// Hints: settings of this host that prevent it from working as a backend, and the commands that
// change them: the findings of weir-agent doctor about forwarding, as text of weir-agent decap.
//
// Threads: one; blocks.
#pragma once

#include <stdio.h>

#include "options.h"

// Write one paragraph per hint. Returns their number; 0 if the host cannot be read.
unsigned int weir_hints_write(const struct weir_agent_options *options, FILE *out);
