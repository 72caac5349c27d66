// SPDX-License-Identifier: BSD-3-Clause
#include "config_case.h"
#include "config_keys.h"
#include "layout.h"

static void check_key(const struct weir_json_key *key) {
	assert_true(key->min <= key->max);
	assert_false(key->required && key->fallback);
	if (key->type == &weir_json_type_choice) {
		assert_non_null(key->choices);
	}
	if (key->fallback) {
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

static void check_object(const struct weir_json_object *object) {
	assert_true(object->count > 0 && object->count <= WEIR_JSON_KEYS_MAX);
	for (uint32_t i = 0; i < object->count; i++) {
		const struct weir_json_key *key = &object->key[i];

		check_key(key);
		for (uint32_t j = 0; j < i; j++) {
			assert_string_not_equal(key->key, object->key[j].key);
		}
		for (const char *const *later = object->later; later && *later; later++) {
			assert_string_not_equal(key->key, *later);
		}
		if (key->type == &weir_json_type_struct || key->type == &weir_json_type_list) {
			assert_non_null(key->object);
			assert_true(key->type == &weir_json_type_struct || key->object->bytes > 0);
			check_object(key->object);
		}
	}
}

static void every_key_has_a_sane_row(void **state) {
	(void)state;
	check_object(&weir_config_keys);
}

// What the configuration allows must fit into the segment.
static void limits_are_those_of_the_segment(void **state) {
	(void)state;
	assert_int_equal(WEIR_CONFIG_PORTS_MAX, WEIR_PORTS_MAX);
	assert_int_equal(WEIR_CONFIG_SERVICES_MAX, WEIR_SERVICES_MAX);
	assert_int_equal(WEIR_CONFIG_BACKENDS_MAX, WEIR_BACKENDS_MAX);
	assert_int_equal(WEIR_CONFIG_TABLE_SIZE_MAX, WEIR_TABLE_SLOTS_MAX);
	assert_int_equal(WEIR_CONFIG_CORES_MAX, WEIR_WORKERS_MAX);
	assert_int_equal(WEIR_CONFIG_NAME_BYTES, WEIR_NAME_BYTES);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_has_a_sane_row),
		cmocka_unit_test(limits_are_those_of_the_segment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
