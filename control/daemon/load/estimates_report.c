// SPDX-License-Identifier: BSD-3-Clause
//
// Processes load reports of backends, or refuses them with a reason.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "estimates_private.h"

struct times { // the service times in a report
	uint32_t used; // bit set of the report fields that were used; 0 = none
	double ms;
	double count; // number of requests that the mean or median `ms` covers
};

static struct times times_of(
	const struct weir_config_policy *config, const struct weir_report *report) {
	bool busy = config->measurement == WEIR_MEASUREMENT_BUSY;
	uint32_t count = busy ? WEIR_REPORT(BUSY_COUNT) : WEIR_REPORT(SERVICE_COUNT);
	struct times times = {.count = 1};

	if (busy) {
		times.used = report->given & WEIR_REPORT(BUSY_TIME);
		times.ms = report->busy_time_ms;
	} else if (config->statistic == WEIR_STATISTIC_MEDIAN &&
		   (report->given & WEIR_REPORT(SERVICE_MEDIAN)) != 0) {
		times.used = WEIR_REPORT(SERVICE_MEDIAN);
		times.ms = report->service_median_ms;
	} else {
		times.used = report->given & WEIR_REPORT(SERVICE_TIME);
		times.ms = report->service_time_ms;
	}
	if (times.used != 0 && (report->given & count) != 0) {
		times.used |= count;
		times.count = busy ? report->busy_count : report->service_count;
	}
	return times;
}

// Adds the service times of a report to the statistics. A report of n requests counts as n samples;
// a report of 0 requests is ignored. Returns the report fields that were used.
static uint32_t take_time(struct weir_estimates *estimates, uint16_t id,
	const struct weir_report *report, uint64_t now_ns) {
	struct backend_estimates *backend = &estimates->backend[id];
	struct times times = times_of(&backend->service->config, report);

	if (times.used != 0 && times.count >= 0.5 && weir_estimates_times(backend) != NULL) {
		weir_moving_add_many(backend->times, (uint64_t)(times.ms * 1e6 + 0.5),
			(uint64_t)(times.count + 0.5), now_ns);
		weir_estimates_changed(estimates, id);
		weir_estimates_write_changed(estimates, backend->service, now_ns);
	}
	return times.used;
}

// Uses the errors of a report, if the service counts errors as active flows, or if errors increase
// the costs or the latencies of its backends. Returns the report fields that were used.
static uint32_t take_errors(struct weir_estimates *estimates, uint16_t id,
	const struct weir_report *report, uint64_t now_ns) {
	struct backend_estimates *backend = &estimates->backend[id];
	struct service_estimates *service = backend->service;
	bool ratio = service->costs || service->probes;
	uint32_t fields = WEIR_REPORT(ERRORS) | (ratio ? WEIR_REPORT(REQUESTS) : 0);
	double requests = ratio ? report->requests_per_second : 0;

	if ((!ratio && !service->errors) || (report->given & fields) != fields) {
		return 0;
	}
	if (backend->errors == NULL && report->errors_per_second > 0) {
		backend->errors = calloc(1, sizeof(*backend->errors));
	}
	if (backend->errors == NULL) {
		return fields; // no errors yet, or out of memory
	}
	weir_reported_errors_add(backend->errors, requests, report->errors_per_second,
		weir_estimates_error_window_ns(estimates, service), now_ns);
	if (service->errors) {
		weir_estimates_write_count(estimates, id, now_ns);
	} else if (service->costs) {
		weir_estimates_changed(estimates, id);
		weir_estimates_write_changed(estimates, service, now_ns);
	}
	return fields;
}

// Uses the reported requests in progress, and the latency of completed requests. If no request was
// completed, the previous latency is kept. Returns the report fields that were used.
static uint32_t take_probe(struct weir_estimates *estimates, uint16_t id,
	const struct weir_report *report, uint64_t now_ns) {
	struct backend_estimates *backend = &estimates->backend[id];
	bool median = (report->given & WEIR_REPORT(SERVICE_MEDIAN)) != 0;
	uint32_t latency = median ? WEIR_REPORT(SERVICE_MEDIAN) : WEIR_REPORT(SERVICE_TIME);
	uint32_t count = report->given & WEIR_REPORT(SERVICE_COUNT);
	double ms = median ? report->service_median_ms : report->service_time_ms;

	if (!backend->service->probes || (report->given & WEIR_REPORT(ACTIVE)) == 0) {
		return 0;
	}
	if ((report->given & latency) != 0 && (count == 0 || report->service_count > 0)) {
		backend->latency_ns = (uint64_t)(ms * 1e6);
	}
	weir_estimates_write_probe(estimates, id, report->active_requests, now_ns);
	return WEIR_REPORT(ACTIVE) | (report->given & latency) | count;
}

static uint32_t take_capability(
	struct backend_estimates *backend, const struct weir_report *report, uint64_t now_ns) {
	struct weir_capability_settings settings =
		weir_estimates_capability(&backend->service->config);
	uint32_t fields = WEIR_REPORT(REQUESTS) | WEIR_REPORT(UTILIZATION);
	struct weir_capability_report load = {
		.requests_per_second = report->requests_per_second,
		.errors_per_second =
			(report->given & WEIR_REPORT(ERRORS)) != 0 ? report->errors_per_second : 0,
		.utilization = report->utilization,
	};

	if ((report->given & fields) != fields ||
		weir_capability_add(&backend->weight->capability, &settings, &load, now_ns) == 0) {
		return 0;
	}
	return fields | (report->given & WEIR_REPORT(ERRORS));
}

static uint32_t take_utilization(
	struct backend_estimates *backend, const struct weir_report *report, uint64_t now_ns) {
	struct weir_balanced_settings settings = weir_balanced_defaults();
	const uint32_t in_flight = WEIR_REPORT(ACTIVE) | WEIR_REPORT(MAX_ACTIVE);
	const uint32_t failed = WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS);
	bool has_limit = (report->given & in_flight) == in_flight;
	bool has_errors = (report->given & failed) == failed;
	double used;

	if ((report->given & WEIR_REPORT(UTILIZATION)) == 0) {
		return 0;
	}
	used = weir_balanced_utilization(report->utilization,
		has_limit ? report->active_requests : 0, has_limit ? report->max_active_flows : 0);
	weir_balanced_report(&backend->weight->load, &settings, used,
		has_errors ? report->requests_per_second : 0,
		has_errors ? report->errors_per_second : 0, now_ns);
	return WEIR_REPORT(UTILIZATION) | (has_limit ? in_flight : 0) | (has_errors ? failed : 0);
}

static uint32_t take_load(
	struct backend_estimates *backend, const struct weir_report *report, uint64_t now_ns) {
	return backend->service->config.weights == WEIR_WEIGHTS_BALANCED
		       ? take_utilization(backend, report, now_ns)
		       : take_capability(backend, report, now_ns);
}

static void explain(const struct backend_estimates *backend, char *why, size_t bytes) {
	const struct service_estimates *service = backend->service;
	const char *policy = weir_policy_name(service->policy);

	if (service->weights && service->config.weights == WEIR_WEIGHTS_BALANCED) {
		snprintf(why, bytes, "balanced weights need utilization in each report");
	} else if (service->weights) {
		snprintf(why, bytes,
			"policy %s needs requests-per-second (above 0) and utilization in each "
			"report; errors-per-second defaults to 0",
			policy);
	} else if (service->probes) {
		snprintf(why, bytes,
			"policy %s needs active-requests in each report, and service-time-ms or "
			"service-median-ms when requests have ended",
			policy);
	} else if (!service->costs) {
		snprintf(why, bytes,
			"policy %s needs active-requests or errors-per-second in each report",
			policy);
	} else if (service->config.service_time == WEIR_SERVICE_TIME_FLOW) {
		snprintf(why, bytes,
			"policy %s uses service times measured by the workers; to use reported "
			"service times, set \"service_time\" to \"reported\" in the "
			"configuration; the policy also uses %sreported errors-per-second with "
			"requests-per-second",
			policy, service->charges ? "active-requests, and " : "");
	} else {
		snprintf(why, bytes, "policy %s needs %s in each report", policy,
			service->config.measurement == WEIR_MEASUREMENT_BUSY ? "busy-time-ms"
									     : "service-time-ms");
	}
}

static uint32_t wanted_times(const struct weir_config_policy *config) {
	if (config->service_time != WEIR_SERVICE_TIME_REPORTED) {
		return 0;
	}
	if (config->measurement == WEIR_MEASUREMENT_BUSY) {
		return WEIR_REPORT(BUSY_TIME) | WEIR_REPORT(BUSY_COUNT);
	}
	return WEIR_REPORT(SERVICE_COUNT) | WEIR_REPORT(SERVICE_TIME) |
	       (config->statistic == WEIR_STATISTIC_MEDIAN ? WEIR_REPORT(SERVICE_MEDIAN) : 0);
}

uint32_t weir_estimates_wants(const struct weir_estimates *estimates, uint16_t id) {
	const struct service_estimates *service =
		id < estimates->ids ? estimates->backend[id].service : NULL;
	uint32_t wants = 0;

	if (service != NULL && service->costs) {
		wants |= WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) |
			 wanted_times(&service->config);
	}
	if (service != NULL && service->errors) {
		wants |= WEIR_REPORT(ERRORS) | WEIR_REPORT(ACTIVE);
	}
	if (service != NULL && service->charges) {
		wants |= WEIR_REPORT(ACTIVE);
	}
	if (service != NULL && service->probes) {
		wants |= WEIR_REPORT(ACTIVE) | WEIR_REPORT(SERVICE_TIME) |
			 WEIR_REPORT(SERVICE_COUNT) | WEIR_REPORT(SERVICE_MEDIAN) |
			 WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS);
	}
	if (service != NULL && service->weights) {
		wants |= WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) | WEIR_REPORT(UTILIZATION);
		wants |= service->config.weights == WEIR_WEIGHTS_BALANCED
				 ? WEIR_REPORT(ACTIVE) | WEIR_REPORT(MAX_ACTIVE)
				 : 0;
	}
	return wants;
}

int weir_estimates_report(struct weir_estimates *estimates, uint16_t id,
	const struct weir_report *report, uint64_t now_ns, char *why, size_t why_bytes) {
	struct backend_estimates *backend = id < estimates->ids ? &estimates->backend[id] : NULL;
	uint32_t used = 0;

	if (backend == NULL || backend->service == NULL ||
		(!backend->collected && backend->weight == NULL && !backend->service->errors &&
			!backend->service->probes)) {
		snprintf(why, why_bytes, "the policy of the service does not use reports");
		return -EINVAL;
	}
	if (backend->collected &&
		backend->service->config.service_time == WEIR_SERVICE_TIME_REPORTED) {
		used |= take_time(estimates, id, report, now_ns);
	}
	used |= take_errors(estimates, id, report, now_ns);
	used |= weir_estimates_take_active(estimates, id, report, now_ns);
	used |= take_probe(estimates, id, report, now_ns);
	if (backend->weight != NULL) {
		used |= take_load(backend, report, now_ns);
	}
	if (used == 0) {
		explain(backend, why, why_bytes);
		return -EINVAL;
	}
	return (int)used;
}
