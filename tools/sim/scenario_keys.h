// SPDX-License-Identifier: BSD-3-Clause
//
// The keys of scenarios: one row for each key (json_reader.h), with the meaning that "weir-sim
// keys" prints. Also the types of values that only scenarios use.
// Internal to scenario.c and keys_print.c.
//
// Threads: immutable.
#pragma once

#include "json_reader.h"

// The root with the keys that a variant may replace, and the keys that only a file has.
extern const struct weir_json_object weir_sim_scenario_keys;
extern const struct weir_json_object weir_sim_file_keys;

extern const struct weir_json_type weir_sim_type_whole; // uint32_t
extern const struct weir_json_type weir_sim_type_number; // double
// milliseconds, possibly with a fraction; stored as uint64_t nanoseconds
extern const struct weir_json_type weir_sim_type_ms;
extern const struct weir_json_type weir_sim_type_name; // [a-z0-9][a-z0-9_-]*
extern const struct weir_json_type weir_sim_type_numbers; // struct weir_sim_numbers
extern const struct weir_json_type weir_sim_type_elsewhere; // a value that scenario.c reads
