// SPDX-License-Identifier: BSD-3-Clause
#include "extra_key.h"

#include <string.h>

static const struct weir_json_key extra = {
	.key = "spare_ms",
	.type = &weir_json_type_integer,
	.offset = offsetof(struct extra_config, spare_ms) -
		  offsetof(struct extra_config, config.instance),
	.bytes = sizeof(uint32_t),
	.min = 1,
	.max = 9,
	.unit = "ms",
	.fallback = "3",
	.needs = WEIR_JSON_NEEDS_RESTART,
	.read_by = WEIR_CONFIG_DATAPLANE,
};

static void copy(struct weir_json_object *to, struct weir_json_key *keys,
	const struct weir_json_object *from) {
	memcpy(keys, from->key, from->count * sizeof(keys[0]));
	*to = *from;
	to->key = keys;
}

void extra_keys_init(struct extra_keys *keys) {
	copy(&keys->root, keys->root_key, &weir_config_keys);
	keys->root.bytes = sizeof(struct extra_config);
	for (uint32_t i = 0; i < keys->root.count; i++) {
		if (strcmp(keys->root_key[i].key, "instance") == 0) {
			copy(&keys->instance, keys->instance_key, keys->root_key[i].object);
			keys->root_key[i].object = &keys->instance;
		}
	}
	keys->instance_key[keys->instance.count++] = extra;
}
