// SPDX-License-Identifier: BSD-3-Clause
//
// Prints every key of a scenario, from the tables in scenario_keys.c. Called by main.c.
//
// Threads: any.
#pragma once

#include <stdio.h>

// Print one line per key: path, range, default and meaning, separated by tabs.
void weir_sim_keys_print(FILE *stream);
