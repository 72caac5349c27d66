// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the parser's table of keys as JSON, for check_schema.py. With --extra: the copy of
// extra_key.h.
#include <stdio.h>
#include <string.h>

#include "extra_key.h"

static const char *needs_name(enum weir_json_needs needs) {
	static const char *const names[] = {
		[WEIR_JSON_NEEDS_NOTHING] = "applied",
		[WEIR_JSON_NEEDS_REBUILD] = "rebuild",
		[WEIR_JSON_NEEDS_RESTART] = "restart",
	};

	return names[needs];
}

static const char *reader_name(uint8_t read_by) {
	switch (read_by) {
	case WEIR_CONFIG_DATAPLANE:
		return "dataplane";
	case WEIR_CONFIG_CONTROL:
		return "control";
	case WEIR_CONFIG_DATAPLANE | WEIR_CONFIG_CONTROL:
		return "both";
	default:
		return "-";
	}
}

static json_t *dump_policies(uint8_t needs) {
	json_t *policies = json_array();

	for (int i = 0; i < WEIR_POLICY_COUNT; i++) {
		if ((weir_policy_needs((enum weir_policy)i) & needs) != 0) {
			json_array_append_new(
				policies, json_string(weir_policy_name((enum weir_policy)i)));
		}
	}
	return policies;
}

static json_t *dump_key(const struct weir_json_key *key) {
	json_t *json = json_pack("{s:s, s:b, s:b, s:I, s:I, s:s*, s:s, s:s, s:o}", "kind",
		key->type->name, "required", key->required, "nullable", key->nullable, "min",
		(json_int_t)key->min, "max", (json_int_t)key->max, "unit", key->unit, "read_by",
		reader_name(key->read_by), "needs", needs_name(key->needs), "policies",
		dump_policies(key->belongs_to));
	json_t *choices = json_array();

	if (key->fallback != NULL) {
		json_object_set_new(
			json, "default", json_loads(key->fallback, JSON_DECODE_ANY, NULL));
	}
	for (const struct weir_json_choice *c = key->choices; c != NULL && c->name != NULL; c++) {
		json_array_append_new(choices, json_string(c->name));
	}
	json_object_set_new(json, "choices", choices);
	if (key->object != NULL) {
		json_object_set_new(json, "object", json_string(key->object->name));
	}
	return json;
}

static void dump_object(const struct weir_json_object *object, json_t *all) {
	json_t *keys = json_object();

	for (uint32_t i = 0; i < object->count; i++) {
		json_object_set_new(keys, object->key[i].key, dump_key(&object->key[i]));
		if (object->key[i].object != NULL) {
			dump_object(object->key[i].object, all);
		}
	}
	json_object_set_new(all, object->name, keys);
}

int main(int argc, char **argv) {
	struct extra_keys extra;
	json_t *all = json_object();
	int r;

	extra_keys_init(&extra);
	dump_object(
		argc > 1 && strcmp(argv[1], "--extra") == 0 ? &extra.root : &weir_config_keys, all);
	r = json_dumpf(all, stdout, JSON_INDENT(2));
	json_decref(all);
	return r ? 1 : 0;
}
