// SPDX-License-Identifier: BSD-3-Clause
//
// Private to the files estimates*.c.
#pragma once

#include "balanced.h"
#include "capability.h"
#include "estimates.h"
#include "moving.h"
#include "reported_errors.h"
#include "reported_share.h"

// State of the weight of a backend.
struct backend_weight {
	struct weir_capability capability; // for weights "reported"
	struct weir_balanced_load load; // for weights "balanced"
	double correction;
};

// One service that needs estimates.
struct service_estimates {
	unsigned __int128 known_ns; // sum of the known estimates
	struct service_estimates *next_leaving;
	char name[WEIR_NAME_BYTES];
	uint64_t times_pass; // pass in which its statistics of times started
	uint64_t seen; // last pass of weir_estimates_follow that contained the service
	uint64_t adopted_until_ns; // weights of the previous process are used until this time
	uint64_t stepped_ns; // when weights were last balanced
	uint64_t adjusted_ns; // when weights were last derived from reports
	struct weir_moving *times; // times of all flows of the service, for the error window
	struct weir_reported_share share; // with errors: share of this instance in requests
	struct weir_config_policy config; // a copy of the configuration
	enum weir_policy policy;
	uint32_t subset; // backends that a group of instances uses; 0 = all
	uint32_t known; // number of known estimates
	uint32_t known_then; // value of known when unknown estimates were last set to the mean
	uint32_t count; // number of members
	uint32_t users_most; // largest `users` of its backends
	uint32_t room;
	uint16_t *member; // [room] backend ids
	uint16_t *changed; // [room] ids with new samples since the last write
	double *capability; // [room] capabilities or utilizations
	double *correction; // [room]
	uint32_t *weight; // [room]
	struct weir_subset_part *part; // [room]
	uint32_t changed_count;
	uint16_t id;
	bool costs; // needs costs of its backends
	bool errors; // reported errors and requests count as active flows
	bool probes; // needs reported requests in progress and latency
	bool window; // needs an automatic error window
	bool weights; // needs weights from reports
	bool weights_known; // two backends have reported since this process started
	bool leaves; // the service and its backends are removed at the end of the pass
	bool inherits; // costs in the segment were measured as this configuration requires
};

// Estimates of one backend id. Zeroed: no estimates.
struct backend_estimates {
	struct service_estimates *service;
	struct weir_moving *times; // NULL = no sample yet
	struct backend_weight *weight; // with service->weights
	struct weir_reported_errors *errors; // with service->costs or ->errors; NULL = no error yet
	uint64_t times_pass; // times_pass of the service when these estimates began
	uint64_t owner; // hash of the backend that has the id
	uint64_t inherited_ns; // cost from the segment, used until inherited_until_ns
	uint64_t inherited_until_ns;
	struct weir_reported_count count; // with service->errors: last report of requests
	uint32_t users; // with service->errors: workers that give it new flows, as of the last
			// second
	uint64_t latency_ns; // with service->probes: latest latency; 0 = unknown
	uint64_t probed_ns; // time of the latest probe; 0 = none
	uint64_t known_ns; // estimate in the sum of the service; 0 = unknown
	bool collected; // with service->costs: service times are collected
	bool changed; // in the list `changed` of the service
	bool ready; // may get new flows, as of the last second
};

struct weir_estimates {
	struct weir_tables *tables;
	uint64_t pass;
	uint64_t samples;
	uint64_t epoch; // epoch of the segment to which costs were last written
	uint32_t first_worker; // modulo workers: its ring is read first in the next iteration
	bool measures;
	uint32_t workers; // workers of an instance
	uint32_t groups; // groups of instances
	uint32_t members; // instances in a group
	weir_estimates_listener listener; // or NULL
	void *listener_context;
	uint32_t services; // number of services that need estimates
	uint32_t ids; // elements of backend[]
	struct service_estimates **service; // [WEIR_SERVICES_MAX], NULL without estimates
	struct backend_estimates *backend; // [ids], NULL if no service needs estimates
	struct service_estimates *leaving; // services that are no longer in service[]
};

// --- estimates_times.c ---

// Discard the samples in the rings, because they belong to other backends.
void weir_estimates_skip(struct weir_estimates *estimates);
// Read samples, at most for this work, in the units of WEIR_ESTIMATES_TURN. Returns whether samples
// are still waiting.
bool weir_estimates_take(struct weir_estimates *estimates, uint64_t work, uint64_t now_ns);
// The statistics of a backend with service->costs, allocated at the first call; NULL = out of
// memory.
struct weir_moving *weir_estimates_times(struct backend_estimates *backend);
// Write the signal of a backend: its reported requests in progress and its latency.
void weir_estimates_write_probe(
	struct weir_estimates *estimates, uint16_t id, double active, uint64_t now_ns);
// Clear outdated probes.
void weir_estimates_expire_probes(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// The error window of a service: how long an error counts.
uint64_t weir_estimates_error_window_ns(
	const struct weir_estimates *estimates, const struct service_estimates *service);
// The estimate of one backend; 0 = unknown.
uint64_t weir_estimates_cost(const struct backend_estimates *backend, uint64_t now_ns);
// Mark a backend of a service with costs: the backend has new samples.
void weir_estimates_changed(struct weir_estimates *estimates, uint16_t id);
// Clear the marks of all backends of a service.
void weir_estimates_none_changed(
	struct weir_estimates *estimates, struct service_estimates *service);
// Write the costs of the marked backends to the segment, if a dataplane is attached. Other backends
// keep their costs: an unknown cost is the mean of the known costs, as of the last second, or as of
// the time when half as many costs were known.
void weir_estimates_write_changed(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// Write all costs of a service.
void weir_estimates_write(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// Adjust the error window of a service. Returns whether the tables are to be published.
bool weir_estimates_adjust_window(
	struct weir_estimates *estimates, struct service_estimates *service);

// --- estimates_counts.c ---

// Take the requests in progress of a report, for a policy that counts flows. Returns the fields
// that were used.
uint32_t weir_estimates_take_active(struct weir_estimates *estimates, uint16_t id,
	const struct weir_report *report, uint64_t now_ns);
// Count the workers that give flows to each backend of a service with service->errors: with
// subsets, and while a backend is drained or down, only some workers do.
void weir_estimates_count_users(
	struct weir_estimates *estimates, struct service_estimates *service);
// For a service whose policy counts flows: write the signals of its backends, which are errors and
// shares of reported requests.
void weir_estimates_write_counts(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// Write the signal of one backend, as weir_estimates_write_counts.
void weir_estimates_write_count(struct weir_estimates *estimates, uint16_t id, uint64_t now_ns);

// --- estimates_weights.c ---

// Adjust the weights of the backends. Returns whether the tables are to be published.
bool weir_estimates_adjust_weights(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// The settings by which weights are derived from reports.
struct weir_capability_settings weir_estimates_capability(const struct weir_config_policy *policy);
bool weir_estimates_is_ready(const struct weir_backend_state *state);
