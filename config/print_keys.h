// SPDX-License-Identifier: BSD-3-Clause
//
// The parser's table of keys as JSON: what make_schema.py makes weir.schema.json of. A build tool;
// no part of the programs.
#pragma once

#include <stdio.h>

struct weir_json_object;

// {object: {key: its row}}. Returns 0, -EIO (cannot be written).
int weir_config_print_keys(const struct weir_json_object *root, FILE *to);
