// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the parser's table of keys as JSON: one of the inputs of make_schema.py for
// weir.schema.json. A build tool, not part of the programs.
#pragma once

#include <stdio.h>

struct weir_json_object;

// Print {object: {key: row}}. Returns 0, or -EIO (cannot be written).
int weir_config_print_keys(const struct weir_json_object *root, FILE *to);
