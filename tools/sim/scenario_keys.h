// SPDX-License-Identifier: BSD-3-Clause
//
// The keys of scenarios: one row for each key (json_reader.h), with the description that "weir-sim
// keys" prints. This file also declares the types of values that only scenarios use
// (scenario_types.c). Internal to scenario.c and keys_print.c.
//
// Threads: immutable.
#pragma once

#include "json_reader.h"

// The keys of a scenario, which a variant may override, and the keys that are allowed only at the
// root of the file.
extern const struct weir_json_object weir_sim_scenario_keys;
extern const struct weir_json_object weir_sim_file_keys;

extern const struct weir_json_type weir_sim_type_whole; // uint32_t
extern const struct weir_json_type weir_sim_type_number; // double
// milliseconds, possibly with a fraction; stored as uint64_t nanoseconds
extern const struct weir_json_type weir_sim_type_ms;
// [a-z0-9][a-z0-9_-]*, shorter than WEIR_SIM_NAME_BYTES
extern const struct weir_json_type weir_sim_type_name;
extern const struct weir_json_type weir_sim_type_numbers; // struct weir_sim_numbers
extern const struct weir_json_type weir_sim_type_elsewhere; // read by scenario.c itself
