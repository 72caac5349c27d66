// SPDX-License-Identifier: BSD-3-Clause
//
// A copy of the configuration's table with one additional key, instance.spare_ms. The tests
// check that a new key needs only a row in the table. With this row, the parser, the messages,
// the differences, the values that a reload keeps, and the checks of schema and documentation
// must handle the key.
#pragma once

#include "config_keys.h"

struct extra_config {
	struct weir_config config;
	uint32_t spare_ms; // range 1..9, default 3; read by the dataplane
};

struct extra_keys {
	struct weir_json_object root, instance;
	struct weir_json_key root_key[WEIR_JSON_KEYS_MAX], instance_key[WEIR_JSON_KEYS_MAX];
};

// Fill in *keys. keys->root refers to the other members.
void extra_keys_init(struct extra_keys *keys);
