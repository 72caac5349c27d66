// SPDX-License-Identifier: BSD-3-Clause
//
// Estimates from reported errors and requests in progress: shares of requests for policies that
// count flows, and charges for fair-share.
#include "backend_signal.h"
#include "estimates_private.h"

// Returns the mean number of workers, of all instances, that send flows to a backend of the
// service.
static uint32_t sharers(
	const struct weir_estimates *estimates, const struct service_estimates *service) {
	uint64_t groups = estimates->groups;

	if (service->subset > 0 && service->subset < service->count) {
		groups = (groups * service->subset + service->count - 1) / service->count;
	}
	return (uint32_t)(groups * estimates->members * estimates->workers);
}

static uint32_t errors_of(const struct weir_estimates *estimates,
	const struct backend_estimates *backend, uint64_t now_ns) {
	const struct service_estimates *service = backend->service;

	if (backend->errors == NULL) {
		return 0;
	}
	return weir_reported_errors_active(backend->errors, sharers(estimates, service),
		weir_estimates_error_window_ns(estimates, service), now_ns);
}

// Returns the address of the backend's signal (backend_signal.h), or NULL if no dataplane is
// attached.
static uint64_t *signal_at(const struct weir_estimates *estimates, uint16_t id) {
	const struct weir_segment *segment =
		estimates->tables != NULL ? weir_tables_segment(estimates->tables) : NULL;

	return segment != NULL && id < segment->max_backends ? &segment->costs[id] : NULL;
}

void weir_estimates_count_users(
	struct weir_estimates *estimates, struct service_estimates *service) {
	struct weir_service_state state;

	service->users_most = 0;
	for (uint32_t i = 0; i < service->count; i++) {
		estimates->backend[service->member[i]].users = 0;
	}
	if (weir_tables_service(estimates->tables, service->id, &state) < 0) {
		return;
	}
	for (uint32_t subset = 0; subset < state.subsets; subset++) {
		uint32_t n = weir_tables_subset_parts(
			estimates->tables, service->id, subset, service->part, service->room);

		for (uint32_t i = 0; i < n; i++) {
			struct backend_estimates *backend =
				service->part[i].backend < estimates->ids
					? &estimates->backend[service->part[i].backend]
					: NULL;

			if (backend == NULL || backend->service != service ||
				service->part[i].parts == 0) {
				continue;
			}
			backend->users += state.subsets > 1 ? 1 : estimates->workers;
			service->users_most = backend->users > service->users_most
						      ? backend->users
						      : service->users_most;
		}
	}
}

void weir_estimates_write_count(struct weir_estimates *estimates, uint16_t id, uint64_t now_ns) {
	const struct backend_estimates *backend = &estimates->backend[id];
	uint32_t errors = errors_of(estimates, backend, now_ns);
	uint64_t *signal = signal_at(estimates, id);

	if (signal != NULL) {
		uint64_t word =
			backend->users > 0
				? weir_reported_share_refresh(&backend->service->share,
					  &backend->count, backend->users, errors, *signal, now_ns)
				: weir_signal_of_errors(errors);

		__atomic_store_n(signal, word, __ATOMIC_RELAXED);
	}
}

void weir_estimates_write_counts(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns) {
	for (uint32_t i = 0; i < service->count; i++) {
		uint16_t id = service->member[i];

		if (service->share.reports > 0 || estimates->backend[id].errors != NULL) {
			weir_estimates_write_count(estimates, id, now_ns);
		}
	}
}

static struct weir_reported_own flows_of(const struct weir_segment *segment, uint16_t id) {
	struct weir_reported_own sum = {0};

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		const struct weir_share_counters *counters =
			weir_segment_backend_counters(segment, worker, id);

		sum.flows += weir_counter_read(&counters->open_flows);
		sum.begun += weir_counter_read(&counters->new_flows);
	}
	return sum;
}

uint32_t weir_estimates_take_active(struct weir_estimates *estimates, uint16_t id,
	const struct weir_report *report, uint64_t now_ns) {
	const struct weir_segment *segment = weir_tables_segment(estimates->tables);
	struct backend_estimates *backend = &estimates->backend[id];
	struct service_estimates *service = backend->service;
	uint64_t *signal = signal_at(estimates, id);
	struct weir_reported_own flows;
	uint32_t errors;
	uint64_t word;

	if (!service->requests || (report->given & WEIR_REPORT(ACTIVE)) == 0) {
		return 0;
	}
	if (signal == NULL) { // no dataplane is attached
		return WEIR_REPORT(ACTIVE);
	}
	flows = flows_of(segment, id);
	flows.outside = backend->users == 0;
	weir_reported_share_add(&service->share, &backend->count, service->count,
		report->active_requests, &flows, now_ns);
	if (service->charges) {
		weir_estimates_changed(estimates, id);
		weir_estimates_write_changed(estimates, service, now_ns);
		return WEIR_REPORT(ACTIVE);
	}
	errors = errors_of(estimates, backend, now_ns);
	word = backend->users > 0 ? weir_reported_share_signal(&service->share, &backend->count,
					    backend->users, errors, *signal, now_ns)
				  : weir_signal_of_errors(errors);
	__atomic_store_n(signal, word, __ATOMIC_RELAXED);
	return WEIR_REPORT(ACTIVE);
}

const char *weir_estimates_requests_unused(
	const struct weir_estimates *estimates, uint16_t service, uint64_t now_ns) {
	static const struct weir_reported_share none = {0};
	const struct service_estimates *found =
		estimates->service != NULL && service < WEIR_SERVICES_MAX
			? estimates->service[service]
			: NULL;

	if (found == NULL) {
		return weir_reported_share_unused(&none, 1, now_ns);
	}
	return weir_reported_share_unused(&found->share,
		found->charges          ? 1
		: found->users_most > 0 ? found->users_most
					: estimates->workers,
		now_ns);
}
