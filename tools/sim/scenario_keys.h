// SPDX-License-Identifier: BSD-3-Clause
//
// The keys of scenarios: one row each (json_reader.h), with a meaning that "weir-sim keys" prints;
// and the types of values that only scenarios have.
// Internal to the reading of scenarios: scenario.c, keys_print.c.
//
// Threads: immutable.
#pragma once

#include "json_reader.h"

// The root, with everything that a variant may replace; and the other keys of a file.
extern const struct weir_json_object weir_sim_scenario_keys;
extern const struct weir_json_object weir_sim_file_keys;

extern const struct weir_json_type weir_sim_type_whole; // uint32_t
extern const struct weir_json_type weir_sim_type_number; // double
extern const struct weir_json_type weir_sim_type_ms; // milliseconds, possibly with a fraction;
						     // uint64_t nanoseconds
extern const struct weir_json_type weir_sim_type_name; // [a-z0-9][a-z0-9_-]*
extern const struct weir_json_type weir_sim_type_numbers; // struct weir_sim_numbers
extern const struct weir_json_type weir_sim_type_elsewhere; // read by scenario.c
