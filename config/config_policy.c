// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the settings of a policy: it is an error to set a key that the policy does not use.
#include <stdio.h>
#include <string.h>

#include "config_keys.h"

static bool weights_fit(const struct weir_config_policy *policy, enum weir_policy name) {
	return policy->weights == WEIR_WEIGHTS_CONFIGURED ||
	       name == WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
}

// Returns whether a key is used only with weights "reported".
static bool needs_reported(const char *key) {
	static const char *const keys[] = {"requests", "error_penalty", "blackout_ms",
		"expiration_ms", "smoothing_ms", "update_ms"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(key, keys[i]) == 0) {
			return true;
		}
	}
	return false;
}

// Returns false if the i-th key of the table is in the file, but the policy does not use it.
static bool key_fits(const struct weir_json_object *keys, const struct weir_config_policy *policy,
	uint32_t i, enum weir_policy name) {
	uint8_t needs = keys->key[i].belongs_to;

	return (policy->given >> i & 1) == 0 || needs == 0 ||
	       (weir_policy_needs(name) & needs) != 0;
}

const char *weir_config_unfit_key(const struct weir_json_object *keys,
	const struct weir_config_policy *policy, enum weir_policy name) {
	if (!weights_fit(policy, name)) {
		return "weights";
	}
	for (uint32_t i = 0; i < keys->count; i++) {
		if (!key_fits(keys, policy, i, name)) {
			return keys->key[i].key;
		}
	}
	return NULL;
}

static void list_policies(uint8_t needs, char *text, size_t bytes) {
	size_t used = 0;

	for (int i = 0; i < WEIR_POLICY_COUNT && used < bytes; i++) {
		if ((weir_policy_needs((enum weir_policy)i) & needs) != 0) {
			used += (size_t)snprintf(text + used, bytes - used, "%s%s",
				used > 0 ? ", " : "", weir_policy_name((enum weir_policy)i));
		}
	}
}

static void check_reported(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_object *keys, const struct weir_config_policy *policy) {
	for (uint32_t i = 0; i < keys->count; i++) {
		if ((policy->given >> i & 1) != 0 && needs_reported(keys->key[i].key)) {
			weir_json_error_at(reader, place, keys->key[i].key,
				"is used only with \"weights\": \"reported\"; remove it, or use "
				"weights \"reported\"");
		}
	}
}

// With "rounds": "tasks", the policy uses no service times, so it is an error to set the keys for
// service times.
static void check_tasks(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_object *keys, const struct weir_config_policy *policy) {
	for (uint32_t i = 0; i < keys->count; i++) {
		if ((policy->given >> i & 1) != 0 && keys->key[i].belongs_to == WEIR_NEEDS_COST) {
			weir_json_error_at(reader, place, keys->key[i].key,
				"is not used with \"rounds\": \"tasks\"; remove it, or use "
				"another value of \"rounds\"");
		}
	}
}

static void check_settings(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_object *keys, const struct weir_config_policy *policy) {
	const char *name = weir_policy_name(policy->name);
	char policies[200];

	if (!weights_fit(policy, policy->name)) {
		weir_json_error_at(reader, place, "weights",
			"\"%s\" is not used by policy \"%s\"; remove it, or use "
			"weighted-round-robin",
			weir_config_weights_name(policy->weights), name);
	}
	for (uint32_t i = 0; i < keys->count; i++) {
		const struct weir_json_key *key = &keys->key[i];

		if (!key_fits(keys, policy, i, policy->name)) {
			list_policies(key->belongs_to, policies, sizeof(policies));
			weir_json_error_at(reader, place, key->key,
				"is not used by policy \"%s\"; remove it, or use one of: %s", name,
				policies);
		}
	}
}

void weir_config_check_policy(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	struct weir_config_policy *policy = into;

	policy->given = (uint32_t)read->present;
	if (weir_json_valid(read, "name")) {
		check_settings(reader, place, read->object, policy);
	}
	if (policy->weights != WEIR_WEIGHTS_REPORTED && weir_json_valid(read, "weights")) {
		check_reported(reader, place, read->object, policy);
	}
	if (policy->name == WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN &&
		policy->rounds == WEIR_ROUNDS_TASKS) {
		check_tasks(reader, place, read->object, policy);
	}
	if (policy->measurement == WEIR_MEASUREMENT_BUSY &&
		(weir_policy_needs(policy->name) & WEIR_NEEDS_COST) != 0 &&
		policy->service_time == WEIR_SERVICE_TIME_FLOW &&
		weir_json_valid(read, "service_time")) {
		weir_json_error_at(reader, place, "measurement",
			"\"busy\" needs \"service_time\": \"reported\", because only the "
			"backend can measure its busy time");
	}
	if (weir_json_valid(read, "error_window_ms") &&
		(weir_policy_needs(policy->name) & WEIR_NEEDS_ERRORS) != 0 &&
		policy->error_window_ms > 0 && policy->error_window_ms < 100) {
		weir_json_error_at(reader, place, "error_window_ms",
			"%u is out of range; use 0 (automatic), or 100 to 3600000",
			policy->error_window_ms);
	}
}

void weir_config_check_flow_control(struct weir_json_reader *reader,
	const struct weir_json_place *place, void *into, const struct weir_json_keys_read *read) {
	struct weir_config_flow_control *flow_control = into;

	(void)reader;
	(void)place;
	flow_control->has_max = weir_json_present(read, "max_active_flows");
}
