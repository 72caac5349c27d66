// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the parser's table of keys as JSON, for check_schema.py.
#include <stdio.h>

#include "config_keys.h"

static json_t *dump_key(const struct weir_json_key *key) {
	json_t *json = json_pack("{s:s, s:b, s:b, s:I, s:I}", "kind", key->type->name, "required",
		key->required, "nullable", key->nullable, "min", (json_int_t)key->min, "max",
		(json_int_t)key->max);
	json_t *choices = json_array();

	if (key->fallback) {
		json_object_set_new(
			json, "default", json_loads(key->fallback, JSON_DECODE_ANY, NULL));
	}
	for (const struct weir_json_choice *c = key->choices; c && c->name; c++) {
		json_array_append_new(choices, json_string(c->name));
	}
	json_object_set_new(json, "choices", choices);
	if (key->object) {
		json_object_set_new(json, "object", json_string(key->object->name));
	}
	return json;
}

static void dump_object(const struct weir_json_object *object, json_t *all) {
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
