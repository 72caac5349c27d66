// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "scenario_keys.h"
#include "sim_lab.h"

// Calls the function for each key of all objects.
static void visit(
	const struct weir_json_object *keys, void (*look)(const struct weir_json_key *key)) {
	for (uint32_t i = 0; i < keys->count; i++) {
		look(&keys->key[i]);
		if (keys->key[i].object != NULL) {
			visit(keys->key[i].object, look);
		}
	}
}

static void look_at_row(const struct weir_json_key *key) {
	size_t bytes = strlen(key->key);
	bool ms = bytes > 3 && strcmp(key->key + bytes - 3, "_ms") == 0;

	// Keys in milliseconds end in _ms, and every key has a description.
	assert_int_equal(key->type == &weir_sim_type_ms, ms);
	assert_non_null(key->meaning);
	assert_true(key->meaning[strlen(key->meaning) - 1] == '.');
	assert_true(key->required != (key->fallback != NULL));
	assert_true(key->type != &weir_json_type_choice || key->choices != NULL);
	assert_int_equal(key->type == &weir_json_type_struct || key->type == &weir_json_type_list,
		key->object != NULL);
}

TEST(keys_rows_are_complete) {
	visit(&weir_sim_scenario_keys, look_at_row);
	visit(&weir_sim_file_keys, look_at_row);
}

static const struct weir_json_key *key_of(const struct weir_json_object *keys, const char *name) {
	for (uint32_t i = 0; i < keys->count; i++) {
		if (strcmp(keys->key[i].key, name) == 0) {
			return &keys->key[i];
		}
	}
	fail_msg("no key %s", name);
	return NULL;
}

TEST(keys_of_reported_weights_are_those_of_the_configuration) {
	static const char *const names[] = {
		"requests", "error_penalty", "blackout_ms", "expiration_ms", "smoothing_ms"};
	const struct weir_json_object *policy = key_of(&weir_sim_scenario_keys, "policy")->object;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct weir_json_key *ours = key_of(policy, names[i]);
		const struct weir_json_key *product = key_of(&weir_config_policy_keys, names[i]);

		assert_true(ours->min == product->min && ours->max == product->max);
		assert_true(strtod(ours->fallback, NULL) == strtod(product->fallback, NULL));
		assert_ptr_equal(ours->choices, product->choices);
	}
}

static void look_at_default(const struct weir_json_key *key) {
	json_t *json;

	if (key->fallback == NULL) {
		return;
	}
	json = json_loads(key->fallback, JSON_DECODE_ANY, NULL);
	assert_non_null(json);
	if (json_is_number(json)) {
		assert_true(json_number_value(json) >= key->min);
		assert_true(json_number_value(json) <= key->max);
	}
	json_decref(json);
}

TEST(keys_defaults_are_in_range) {
	visit(&weir_sim_scenario_keys, look_at_default);
	visit(&weir_sim_file_keys, look_at_default);
}

// The keys of the scenario and the keys of the file are in the same JSON object, so they must
// differ. The exception is "name", because a variant has a name as well.
TEST(keys_of_scenario_and_file_are_disjoint) {
	for (uint32_t i = 0; i < weir_sim_scenario_keys.count; i++) {
		for (uint32_t k = 0; k < weir_sim_file_keys.count; k++) {
			assert_string_not_equal(
				weir_sim_scenario_keys.key[i].key, weir_sim_file_keys.key[k].key);
		}
	}
}
