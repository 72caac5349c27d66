// SPDX-License-Identifier: BSD-3-Clause
//
// Hints: settings that prevent this host from working as a backend, and the commands that change
// these settings. weir-agent decap prints hints when it starts. Hints are the findings of some
// checks of weir-agent doctor: VIPs, reverse path filters, ARP, MTU and offloads.
//
// Threads: one; blocks.
#pragma once

#include <stdio.h>

#include "options.h"

// Write one paragraph per hint. Returns the number of hints; 0 if the settings of the host cannot
// be read.
unsigned int weir_hints_write(const struct weir_agent_options *options, FILE *out);
