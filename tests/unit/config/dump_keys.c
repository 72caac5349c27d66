// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the parser's table of keys as JSON, for check_schema.py.
#include <stdio.h>

#include "config_keys.h"

static const char *kind_name(enum weir_key_kind kind) {
	static const char *const names[] = {
		[WEIR_KEY_INTEGER] = "integer",
		[WEIR_KEY_BOOLEAN] = "boolean",
		[WEIR_KEY_NAME] = "name",
		[WEIR_KEY_TEXT] = "text",
		[WEIR_KEY_CHOICE] = "choice",
		[WEIR_KEY_ADDRESS] = "address",
		[WEIR_KEY_IPV4] = "ipv4",
		[WEIR_KEY_IPV6] = "ipv6",
		[WEIR_KEY_MAC] = "mac",
		[WEIR_KEY_SEED] = "seed",
		[WEIR_KEY_CORES] = "cores",
		[WEIR_KEY_OBJECT] = "object",
		[WEIR_KEY_LIST] = "list",
		[WEIR_KEY_IGNORED] = "ignored",
	};

	return names[kind];
}

static json_t *dump_key(const struct weir_key *key) {
	json_t *json = json_pack("{s:s, s:b, s:b, s:I, s:I}", "kind", kind_name(key->kind),
		"required", key->required, "nullable", key->nullable, "min", (json_int_t)key->min,
		"max", (json_int_t)key->max);
	json_t *choices = json_array();

	if (key->fallback) {
		json_object_set_new(
			json, "default", json_loads(key->fallback, JSON_DECODE_ANY, NULL));
	}
	for (const struct weir_key_choice *c = key->choices; c && c->name; c++) {
		json_array_append_new(choices, json_string(c->name));
	}
	json_object_set_new(json, "choices", choices);
	if (key->object) {
		json_object_set_new(json, "object", json_string(key->object->name));
	}
	return json;
}

static void dump_object(const struct weir_key_object *object, json_t *all) {
	json_t *keys = json_object();

	for (uint32_t i = 0; i < object->count; i++) {
		json_object_set_new(keys, object->key[i].key, dump_key(&object->key[i]));
		if (object->key[i].object) {
			dump_object(object->key[i].object, all);
		}
	}
	json_object_set_new(all, object->name, keys);
}

int main(void) {
	json_t *all = json_object();
	int rc;

	dump_object(&weir_config_keys, all);
	rc = json_dumpf(all, stdout, JSON_INDENT(2));
	json_decref(all);
	return rc ? 1 : 0;
}
