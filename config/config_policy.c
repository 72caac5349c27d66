// SPDX-License-Identifier: BSD-3-Clause
//
// The settings of a policy: their names, and which of them have a meaning for which policy.
#include <stdio.h>

#include "config_keys.h"

// clang-format off
const struct weir_json_choice weir_config_policies[] = {
#define X(name, key, needs) {key, WEIR_POLICY_##name},
	WEIR_POLICIES(X)
#undef X
	{0}};
const struct weir_json_choice weir_config_weights[] = {
	{"configured", WEIR_WEIGHTS_CONFIGURED}, {"reported", WEIR_WEIGHTS_REPORTED}, {0}};
const struct weir_json_choice weir_config_statistics[] = {
	{"average", WEIR_STATISTIC_AVERAGE}, {"median", WEIR_STATISTIC_MEDIAN}, {0}};
const struct weir_json_choice weir_config_measurements[] = {
	{"execution", WEIR_MEASUREMENT_EXECUTION}, {"busy", WEIR_MEASUREMENT_BUSY}, {0}};
const struct weir_json_choice weir_config_service_times[] = {
	{"flow", WEIR_SERVICE_TIME_FLOW}, {"reported", WEIR_SERVICE_TIME_REPORTED}, {0}};
const struct weir_json_choice weir_config_rounds[] = {
	{"incremental", WEIR_ROUNDS_INCREMENTAL}, {"documented", WEIR_ROUNDS_DOCUMENTED}, {0}};
const struct weir_json_choice weir_config_workloads[] = {
	{"connections", WEIR_WORKLOAD_CONNECTIONS}, {"requests", WEIR_WORKLOAD_REQUESTS}, {0}};
const struct weir_json_choice weir_config_when_exhausted[] = {
#define X(name, key) {key, WEIR_EXHAUSTED_##name},
	WEIR_WHEN_EXHAUSTED(X)
#undef X
	{0}};
// clang-format on

const char *weir_config_weights_name(enum weir_config_weights weights) {
	return weir_json_choice_name(weir_config_weights, weights);
}

const char *weir_config_statistic_name(enum weir_config_statistic statistic) {
	return weir_json_choice_name(weir_config_statistics, statistic);
}

const char *weir_config_measurement_name(enum weir_config_measurement measurement) {
	return weir_json_choice_name(weir_config_measurements, measurement);
}

const char *weir_config_service_time_name(enum weir_config_service_time service_time) {
	return weir_json_choice_name(weir_config_service_times, service_time);
}

const char *weir_config_rounds_name(enum weir_config_rounds rounds) {
	return weir_json_choice_name(weir_config_rounds, rounds);
}

const char *weir_config_workload_name(enum weir_config_workload workload) {
	return weir_json_choice_name(weir_config_workloads, workload);
}

const char *weir_config_when_exhausted_name(enum weir_when_exhausted when_exhausted) {
	return weir_json_choice_name(weir_config_when_exhausted, when_exhausted);
}

static bool weights_fit(const struct weir_config_policy *policy, enum weir_policy name) {
	return policy->weights == WEIR_WEIGHTS_CONFIGURED ||
	       name == WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
}

// Whether the i-th key, when the file has it, has a meaning for a policy.
static bool key_fits(const struct weir_config_policy *policy, uint32_t i, enum weir_policy name) {
	uint8_t needs = weir_config_policy_keys.key[i].belongs_to;

	return (policy->given >> i & 1) == 0 || needs == 0 ||
	       (weir_policy_needs(name) & needs) != 0;
}

const char *weir_config_policy_misfit(
	const struct weir_config_policy *policy, enum weir_policy name) {
	if (!weights_fit(policy, name)) {
		return "weights";
	}
	for (uint32_t i = 0; i < weir_config_policy_keys.count; i++) {
		if (!key_fits(policy, i, name)) {
			return weir_config_policy_keys.key[i].key;
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

static void check_settings(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_policy *policy) {
	const char *name = weir_policy_name(policy->name);
	char policies[200];

	if (!weights_fit(policy, policy->name)) {
		weir_json_error_at(reader, place, "weights",
			"\"reported\" is not used by policy \"%s\"; remove it, or use "
			"weighted-round-robin",
			name);
	}
	for (uint32_t i = 0; i < weir_config_policy_keys.count; i++) {
		const struct weir_json_key *key = &weir_config_policy_keys.key[i];

		if (!key_fits(policy, i, policy->name)) {
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
		check_settings(reader, place, policy);
	}
	if (policy->measurement == WEIR_MEASUREMENT_BUSY &&
		(weir_policy_needs(policy->name) & WEIR_NEEDS_COST) != 0 &&
		policy->service_time == WEIR_SERVICE_TIME_FLOW &&
		weir_json_valid(read, "service_time")) {
		weir_json_error_at(reader, place, "measurement",
			"\"busy\" needs \"service_time\": \"reported\": only the backend can "
			"measure its busy time");
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
