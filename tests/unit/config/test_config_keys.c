// SPDX-License-Identifier: BSD-3-Clause
#include "config_keys.h"
#include "config_lab.h"
#include "layout.h"

static void check_key(const struct weir_json_key *key) {
	assert_true(key->min <= key->max);
	assert_false(key->required && key->fallback);
	if (key->type == &weir_json_type_choice) {
		assert_non_null(key->choices);
	}
	if (key->fallback != NULL) {
		json_t *json = json_loads(key->fallback, JSON_DECODE_ANY, NULL);

		assert_non_null(json);
		assert_true(key->nullable || !json_is_null(json));
		if (json_is_integer(json)) {
			assert_true(json_number_value(json) >= key->min);
			assert_true(json_number_value(json) <= key->max);
		}
		json_decref(json);
	}
}

// Checks that a key for the dataplane needs a restart, that a key with a field is read by a
// program, and that the name of the key or of the enclosing object contains the unit.
static void check_use(const struct weir_json_key *key, const char *parent) {
	static const char *const units[] = {"ms", "bytes", "percent"};
	bool no_field = key->type == &weir_json_type_struct ||
			key->type == &weir_json_type_optional ||
			key->type == &weir_json_type_ignored;

	assert_int_equal(key->read_by == 0, no_field);
	assert_int_equal(
		(key->read_by & WEIR_CONFIG_DATAPLANE) != 0, key->needs == WEIR_JSON_NEEDS_RESTART);
	assert_true(key->max <= 9007199254740992.0); // so that the value is exact in a double
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		char suffix[16];

		snprintf(suffix, sizeof(suffix), "_%s", units[i]);
		if (!no_field &&
			(strstr(key->key, suffix) != NULL || strstr(parent, suffix) != NULL)) {
			assert_non_null(key->unit);
			assert_string_equal(key->unit, units[i]);
		}
	}
}

// Checks that a list has what the computation of differences requires. weir_config_keep_running
// copies the elements of the list unchanged.
static void check_list(const struct weir_json_key *key) {
	assert_true(key->object->bytes > 0);
	assert_non_null(key->object->identify);
	for (uint32_t i = 0; key->needs == WEIR_JSON_NEEDS_RESTART && i < key->object->count; i++) {
		assert_true(key->object->key[i].type != &weir_json_type_list);
		assert_true(key->object->key[i].type != &weir_json_type_struct);
		assert_true(key->object->key[i].type != &weir_json_type_optional);
	}
}

static void check_object(const struct weir_json_object *object, const char *name) {
	assert_true(object->count > 0 && object->count <= WEIR_JSON_KEYS_MAX);
	for (uint32_t i = 0; i < object->count; i++) {
		const struct weir_json_key *key = &object->key[i];

		check_key(key);
		check_use(key, name);
		for (uint32_t j = 0; j < i; j++) {
			assert_string_not_equal(key->key, object->key[j].key);
		}
		for (const char *const *later = object->later; later != NULL && *later; later++) {
			assert_string_not_equal(key->key, *later);
		}
		if (key->type == &weir_json_type_list) {
			check_list(key);
		}
		if (key->type == &weir_json_type_list || key->type == &weir_json_type_struct ||
			key->type == &weir_json_type_optional) {
			assert_non_null(key->object);
			check_object(key->object, key->key);
		}
	}
}

TEST(every_key_has_a_sane_row) {
	check_object(&weir_config_keys, "");
}

TEST(limits_are_those_of_the_segment) {
	assert_int_equal(WEIR_CONFIG_PORTS_MAX, WEIR_PORTS_MAX);
	assert_int_equal(WEIR_CONFIG_SERVICES_MAX, WEIR_SERVICES_MAX);
	assert_int_equal(WEIR_CONFIG_BACKENDS_MAX, WEIR_BACKENDS_MAX);
	assert_int_equal(WEIR_CONFIG_TABLE_SIZE_MAX, WEIR_TABLE_SLOTS_MAX);
	assert_int_equal(WEIR_CONFIG_CORES_MAX, WEIR_WORKERS_MAX);
	assert_int_equal(WEIR_CONFIG_NAME_BYTES, WEIR_NAME_BYTES);
}
