// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the settings for weir-agent for errors that the table of keys cannot detect.
#include <stdio.h>
#include <string.h>

#include "config_keys.h"

void weir_config_check_agent(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	const struct weir_config_agent *agent = into;
	bool interval = weir_json_valid(read, "interval_ms");

	if (interval && weir_json_valid(read, "timeout_ms") &&
		agent->timeout_ms > agent->interval_ms) {
		bool given = weir_json_present(read, "timeout_ms");

		weir_json_error_at(reader, place, given ? "timeout_ms" : "interval_ms",
			"timeout_ms (%u%s) is above interval_ms (%u%s), so probes would overlap; "
			"lower timeout_ms or raise interval_ms",
			agent->timeout_ms, given ? "" : ", the default", agent->interval_ms,
			weir_json_present(read, "interval_ms") ? "" : ", the default");
	}
	if (interval && weir_json_valid(read, "inactive_interval_ms") &&
		agent->inactive_interval_ms < agent->interval_ms) {
		bool given = weir_json_present(read, "inactive_interval_ms");

		weir_json_error_at(reader, place, given ? "inactive_interval_ms" : "interval_ms",
			"inactive_interval_ms (%u%s) is below interval_ms (%u%s), so backends "
			"without flows would be probed more often than others; raise "
			"inactive_interval_ms or lower interval_ms",
			agent->inactive_interval_ms, given ? "" : ", the default",
			agent->interval_ms,
			weir_json_present(read, "interval_ms") ? "" : ", the default");
	}
}

void weir_config_check_agents(struct weir_json_reader *reader, const struct weir_json_place *place,
	void *into, const struct weir_json_keys_read *read) {
	const struct weir_config_agents *agents = into;

	if (weir_json_valid(read, "key_file") && agents->key_file[0] != '/') {
		weir_json_error_at(reader, place, "key_file",
			"must begin with \"/\", such as \"/etc/weir/agent.keys\"");
	}
}

void weir_config_check_agent_type(struct weir_json_reader *reader,
	const struct weir_json_place *place, const struct weir_json_keys_read *read) {
	static const char *const keys[] = {"port", "interval_ms", "timeout_ms"};

	if (weir_json_present(read, "retry_interval_ms")) {
		weir_json_error_at(reader, place, "retry_interval_ms",
			"is not used by type \"agent\"; remove it");
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (weir_json_present(read, keys[i])) {
			weir_json_error_at(reader, place, keys[i],
				"is not used by type \"agent\"; set \"%s\" in \"agent\" of the "
				"service",
				keys[i]);
		}
	}
}

// Reports an error only for the first backend, because one correction fixes the error for all
// backends.
static void check_weights(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_config_service *service) {
	const struct weir_json_place backends = weir_json_place_member(place, "backends");

	for (uint32_t i = 0; i < service->backend_count; i++) {
		struct weir_json_place at = weir_json_place_element(&backends, i);

		if (service->backends[i].weight_auto) {
			weir_json_error_at(reader, &at, "weight",
				"\"auto\" is derived from the CPUs that weir-agent reports, but "
				"the service has no agents; add \"agent\": {} to the service, or "
				"use a number");
			return;
		}
	}
}

void weir_config_check_service_agent(struct weir_json_reader *reader,
	const struct weir_json_place *place, struct weir_config_service *service, bool given) {
	const struct weir_json_place backends = weir_json_place_member(place, "backends");
	struct weir_config_checks at = {.service = service};

	if (given) {
		return;
	}
	service->agent.port = 0;
	while (weir_config_next_check(&at)) {
		const struct weir_json_place backend =
			weir_json_place_element(&backends, at.next > 0 ? at.next - 1 : 0);

		if (at.check->type == WEIR_CHECK_AGENT) {
			weir_json_error_at(reader, at.backend != NULL ? &backend : place,
				"health_check",
				"has type \"agent\", but the service has no agents; add "
				"\"agent\": {} to the service");
		}
	}
	check_weights(reader, place, service);
}

void weir_config_identify_gcu(const void *element, char *text, size_t bytes) {
	snprintf(text, bytes, "%s", ((const struct weir_config_gcu *)element)->cpu);
}

void weir_config_check_gcu(struct weir_json_reader *reader, const struct weir_json_place *root,
	const struct weir_config *config) {
	const struct weir_json_place table = weir_json_place_member(root, "gcu");

	for (uint32_t i = 1; i < config->gcu_count; i++) {
		const struct weir_json_place at = weir_json_place_element(&table, i);

		for (uint32_t j = 0; j < i; j++) {
			if (config->gcu[i].cpu[0] != '\0' &&
				strcmp(config->gcu[i].cpu, config->gcu[j].cpu) == 0) {
				weir_json_error_at(reader, &at, "cpu",
					"is equal to the cpu of gcu[%u]; keep one of the two", j);
				break;
			}
		}
	}
}
