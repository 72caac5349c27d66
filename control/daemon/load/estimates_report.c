// SPDX-License-Identifier: BSD-3-Clause
//
// Load reports of backends, and why they are refused.
#include <errno.h>
#include <stdio.h>

#include "estimates_private.h"

static uint32_t take_time(
	struct backend_estimates *backend, const struct weir_report *report, uint64_t now_ns) {
	bool busy = backend->service->config.measurement == WEIR_MEASUREMENT_BUSY;
	uint32_t field = busy ? WEIR_REPORT(BUSY_TIME) : WEIR_REPORT(SERVICE_TIME);
	double ms = busy ? report->busy_time_ms : report->service_time_ms;

	if ((report->given & field) == 0) {
		return 0;
	}
	weir_moving_add(backend->times, (uint64_t)(ms * 1e6 + 0.5), now_ns);
	backend->service->changed = true;
	return field;
}

static uint32_t take_load(
	struct backend_estimates *backend, const struct weir_report *report, uint64_t now_ns) {
	struct weir_capability_settings settings = weir_capability_defaults();
	uint32_t fields = WEIR_REPORT(REQUESTS) | WEIR_REPORT(UTILIZATION);
	struct weir_capability_report load = {
		.requests_per_second = report->requests_per_second,
		.errors_per_second =
			(report->given & WEIR_REPORT(ERRORS)) != 0 ? report->errors_per_second : 0,
		.utilization = report->utilization,
	};

	if ((report->given & fields) != fields ||
		weir_capability_add(backend->capability, &settings, &load, now_ns) == 0) {
		return 0;
	}
	return fields | (report->given & WEIR_REPORT(ERRORS));
}

static void explain(const struct backend_estimates *backend, char *why, size_t bytes) {
	const struct service_estimates *service = backend->service;
	const char *policy = weir_policy_name(service->policy);

	if (service->weights) {
		snprintf(why, bytes,
			"policy %s needs requests-per-second (above 0) and utilization in each "
			"report; errors-per-second defaults to 0",
			policy);
	} else if (service->config.service_time == WEIR_SERVICE_TIME_FLOW) {
		snprintf(why, bytes,
			"policy %s uses service times measured by the workers: set "
			"\"service_time\" to \"reported\" in the configuration to report them",
			policy);
	} else {
		snprintf(why, bytes, "policy %s needs %s in each report", policy,
			service->config.measurement == WEIR_MEASUREMENT_BUSY ? "busy-time-ms"
									     : "service-time-ms");
	}
}

int weir_estimates_report(struct weir_estimates *estimates, uint16_t id,
	const struct weir_report *report, uint64_t now_ns, char *why, size_t why_bytes) {
	struct backend_estimates *backend = id < estimates->ids ? &estimates->backend[id] : NULL;
	uint32_t used = 0;

	if (backend == NULL || (backend->times == NULL && backend->capability == NULL)) {
		snprintf(why, why_bytes, "the policy of the service does not use reports");
		return -EINVAL;
	}
	if (backend->times != NULL &&
		backend->service->config.service_time == WEIR_SERVICE_TIME_REPORTED) {
		used |= take_time(backend, report, now_ns);
	}
	if (backend->capability != NULL) {
		used |= take_load(backend, report, now_ns);
	}
	if (used == 0) {
		explain(backend, why, why_bytes);
		return -EINVAL;
	}
	if (backend->service->changed) {
		weir_estimates_write(estimates, backend->service, now_ns);
	}
	return (int)used;
}
