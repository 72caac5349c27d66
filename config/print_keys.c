// SPDX-License-Identifier: BSD-3-Clause
#include "print_keys.h"

#include <errno.h>
#include <jansson.h>

#include "config_keys.h"

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

static json_t *number(double value) {
	json_int_t whole = (json_int_t)value;

	return (double)whole < value ? json_real(value) : json_integer(whole);
}

static json_t *dump_key(const struct weir_json_key *key) {
	json_t *json = json_pack("{s:s, s:b, s:b, s:o, s:o, s:s*, s:s, s:s, s:o}", "kind",
		key->type->name, "required", key->required, "nullable", key->nullable, "min",
		number(key->min), "max", number(key->max), "unit", key->unit, "read_by",
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

int weir_config_print_keys(const struct weir_json_object *root, FILE *to) {
	json_t *all = json_object();
	int r;

	dump_object(root, all);
	r = json_dumpf(all, to, JSON_INDENT(2)) != 0 ? -EIO : 0;
	json_decref(all);
	return r;
}
