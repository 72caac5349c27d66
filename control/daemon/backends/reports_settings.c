// SPDX-License-Identifier: BSD-3-Clause
#include "reports_settings.h"

#include <math.h>
#include <string.h>

#include "report.h"
#include "reports.h"

#define SILENT_INTERVALS 4u // minimum lifetime of a report, in intervals of its source

static bool has_auto_weights(const struct weir_config_service *service) {
	for (uint32_t i = 0; i < service->backend_count; i++) {
		if (service->backends[i].weight_auto) {
			return true;
		}
	}
	return false;
}

uint32_t weir_reports_wants(const struct weir_config_service *service) {
	uint32_t wants = WEIR_REPORT(MAX_ACTIVE);

	if (service->workload == WEIR_WORKLOAD_REQUESTS) {
		wants |= WEIR_REPORT(ACTIVE);
	}
	if (has_auto_weights(service)) {
		wants |= WEIR_REPORT(CPUS) | WEIR_REPORT(CPU_MHZ) | WEIR_REPORT(GCU);
	}
	if (service->flow_control.accept_queue_percent > 0) {
		wants |= WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT);
	}
	if (service->steal.enabled) {
		wants |= WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT) |
			 WEIR_REPORT(ACTIVE);
	}
	return wants;
}

// The fields of the limit and the weight. Every service uses them.
#define ALWAYS_USED (WEIR_REPORT(MAX_ACTIVE) | WEIR_REPORT(WEIGHT) | WEIR_REPORT(WEIGHT_PERCENT))

// The additional fields for services that steal connections.
#define STEALS_USE (WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT) | WEIR_REPORT(ACTIVE))

uint32_t weir_reports_used(uint32_t wants, bool limited) {
	uint32_t fields = ALWAYS_USED | (wants & (WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT)));

	if ((wants & WEIR_REPORT(SERVICE_TIME)) != 0) {
		fields |= STEALS_USE;
	}
	if (limited) {
		// weir_reports_share uses the active requests.
		fields |= wants & WEIR_REPORT(ACTIVE);
	}
	return fields;
}

// The lifetime is longer than the longest interval of probes and checks, because an unchanged
// backend reports only in replies to probes and checks.
uint64_t weir_reports_expire_ms(
	const struct weir_config_service *service, const struct weir_config_health_check *check) {
	// If the service has agents, this is also the interval of the checks of idle backends.
	uint32_t slowest = service->agent.inactive_interval_ms;

	slowest = service->agent_check.interval_ms > slowest ? service->agent_check.interval_ms
							     : slowest;
	slowest = check->interval_ms > slowest ? check->interval_ms : slowest;
	return (uint64_t)SILENT_INTERVALS * slowest > WEIR_REPORTS_EXPIRE_MS
		       ? (uint64_t)SILENT_INTERVALS * slowest
		       : WEIR_REPORTS_EXPIRE_MS;
}

// With subsets, only some balancers of the fleet use each backend.
uint32_t weir_reports_divisor(const struct weir_config_service *service, uint32_t sharers) {
	const struct weir_config_subset *subset = &service->subset;
	uint64_t users = sharers;

	if (subset->algorithm != WEIR_SUBSET_NONE && subset->size > 0 &&
		subset->size < service->backend_count) {
		users = (users * subset->size + service->backend_count - 1) /
			service->backend_count;
	}
	return users > 0 ? (uint32_t)users : 1;
}

uint32_t weir_reports_share(uint32_t limit, uint32_t divisor, double active, uint32_t held) {
	uint32_t fewest = limit > 0;
	double share = floor((double)limit / divisor);

	if (active >= 0) {
		active = active > held ? active : held;
		share = held + floor((limit - active) / divisor);
	}
	return share < fewest ? fewest : share > limit ? limit : (uint32_t)share;
}

static bool is_http(const char *source) {
	for (enum weir_config_check http = WEIR_CHECK_HTTP; http <= WEIR_CHECK_GRPC; http++) {
		if (strcmp(source, weir_config_check_name(http)) == 0) {
			return true;
		}
	}
	return false;
}

bool weir_reports_read_load(const struct weir_config_health_check *check, const char *source) {
	return !is_http(source) || check->orca;
}

bool weir_reports_source_keeps(const char *source) {
	return strcmp(source, weir_config_check_name(WEIR_CHECK_AGENT_CHECK)) == 0;
}

bool weir_reports_have_source(const struct weir_config_service *service,
	const struct weir_config_health_check *check, const char *source) {
	const enum weir_config_check type = check->type;

	if (strcmp(source, weir_config_check_name(WEIR_CHECK_AGENT)) == 0) {
		return service->agent.port != 0;
	}
	if (strcmp(source, weir_config_check_name(WEIR_CHECK_AGENT_CHECK)) == 0) {
		return service->agent_check.type != WEIR_CHECK_NONE ||
		       type == WEIR_CHECK_AGENT_CHECK;
	}
	if (strcmp(source, weir_config_check_name(WEIR_CHECK_EXEC)) == 0) {
		return type == WEIR_CHECK_EXEC && check->weight_from_exit;
	}
	return !is_http(source) || // the source is weirctl, which can report at any time
	       (type >= WEIR_CHECK_HTTP && type <= WEIR_CHECK_GRPC);
}
