// SPDX-License-Identifier: BSD-3-Clause
//
// Private declarations of the files estimates*.c.
#pragma once

#include "balanced.h"
#include "capability.h"
#include "estimates.h"
#include "moving.h"
#include "reported_errors.h"
#include "reported_share.h"

// State of the weight of a backend.
struct backend_weight {
	struct weir_capability capability; // state for weights "reported"
	struct weir_balanced_load load; // state for weights "balanced"
	double correction;
};

// One service that needs estimates.
struct service_estimates {
	unsigned __int128 known_ns; // sum of the known estimates
	struct service_estimates *next_leaving;
	char name[WEIR_NAME_BYTES];
	// Number of the last pass of weir_estimates_follow in which the statistics of the service
	// times were restarted.
	uint64_t times_pass;
	// Number of the last pass of weir_estimates_follow in which the service was configured.
	uint64_t seen;
	// Until this time, the weights of the previous process are in use, if no weights are known.
	uint64_t adopted_until_ns;
	uint64_t stepped_ns; // when weights were last balanced
	uint64_t adjusted_ns; // when an update of the weights was last due
	// service times of all samples of the service, for the error window
	struct weir_moving *times;
	// Used if `requests` is true: the share of all requests that this instance forwards.
	struct weir_reported_share share;
	struct weir_config_policy config; // a copy of the configuration
	enum weir_policy policy;
	uint32_t subset; // number of backends that a group of instances uses; 0 = all
	uint32_t known; // number of known estimates
	// Value of `known` when the costs of backends without an estimate were last written.
	uint32_t known_then;
	uint32_t count; // number of members
	uint32_t users_most; // maximum of `users` over the service's backends
	uint32_t room;
	uint16_t *member; // [room] backend ids
	uint16_t *changed; // [room] ids with new samples since the last write
	double *capability; // [room] capabilities or utilizations
	double *correction; // [room]
	uint32_t *weight; // [room]
	struct weir_subset_part *part; // [room]
	uint32_t changed_count;
	uint16_t id;
	bool costs; // the service needs costs of its backends
	// The service needs reported errors and requests in progress, which are counted as active
	// flows.
	bool errors;
	bool charges; // costs include the charges of backends (reported_share.h)
	bool requests; // the service uses reported requests in progress: errors or charges
	bool probes; // the service needs reported requests in progress and latency
	bool window; // the service needs an automatic error window
	bool weights; // the service needs weights from reports
	// At least two backends have had known values at the same time since these estimates began.
	bool weights_known;
	bool leaves; // the service and its backends are removed at the end of the current pass
	// The costs in the segment were measured in the way that this configuration requires, so
	// they can be used.
	bool inherits;
};

// Estimates of one backend id. Zeroed: no estimates.
struct backend_estimates {
	struct service_estimates *service;
	struct weir_moving *times; // NULL = no sample yet
	struct backend_weight *weight; // used if service->weights
	// Used if service->costs, errors or probes is true; NULL = no error was reported yet.
	struct weir_reported_errors *errors;
	uint64_t times_pass; // value of the service's times_pass when these estimates began
	uint64_t owner; // hash of the backend to which the estimates belong
	uint64_t inherited_ns; // cost from the segment, used until inherited_until_ns
	uint64_t inherited_until_ns;
	struct weir_reported_count count; // if service->requests: last report of requests
	// Used if service->requests is true: number of workers that give the backend new flows,
	// updated every second.
	uint32_t users;
	uint64_t latency_ns; // if service->probes: latest latency; 0 = unknown
	uint64_t probed_ns; // time of the latest probe; 0 = none
	// The part of the service's sum known_ns that this backend contributes; 0 = its estimate is
	// unknown.
	uint64_t known_ns;
	bool collected; // if service->costs: service times are collected
	bool changed; // in the list `changed` of the service
	// The backend is ready for new flows; if service->weights, updated every second.
	bool ready;
};

struct weir_estimates {
	struct weir_tables *tables;
	uint64_t pass;
	uint64_t samples;
	uint64_t epoch; // epoch of the segment to which costs were last written
	// The worker (modulo the number of workers) whose ring is read first in the next iteration.
	uint32_t first_worker;
	bool measures;
	uint32_t workers; // workers of an instance
	uint32_t groups; // groups of instances
	uint32_t members; // instances in a group
	weir_estimates_listener listener; // or NULL
	void *listener_context;
	uint32_t services; // number of services that need estimates
	uint32_t ids; // elements of backend[]
	// [WEIR_SERVICES_MAX]; NULL if no service needs estimates
	struct service_estimates **service;
	struct backend_estimates *backend; // [ids], NULL if no service needs estimates
	struct service_estimates *leaving; // services that are no longer in service[]
};

// --- estimates_times.c ---

// Discards the samples in the rings.
void weir_estimates_skip(struct weir_estimates *estimates);
// Reads samples until this amount of work is done, in the unit of WEIR_ESTIMATES_TURN. Returns
// whether samples are still waiting.
bool weir_estimates_take(struct weir_estimates *estimates, uint64_t work, uint64_t now_ns);
// Returns the statistics of a backend whose service has `costs` set; the first call allocates them.
// NULL = out of memory.
struct weir_moving *weir_estimates_times(struct backend_estimates *backend);
// Writes the signal of a backend: the reported requests in progress (active) and the latency, both
// increased by reported errors.
void weir_estimates_write_probe(
	struct weir_estimates *estimates, uint16_t id, double active, uint64_t now_ns);
// Clear the outdated probes of a service's backends.
void weir_estimates_expire_probes(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// Returns the error window of a service: the time for which an error counts as an active flow.
uint64_t weir_estimates_error_window_ns(
	const struct weir_estimates *estimates, const struct service_estimates *service);
// Returns the estimate of one backend's cost; 0 = unknown.
uint64_t weir_estimates_cost(const struct backend_estimates *backend, uint64_t now_ns);
// Marks a backend that has new samples. The service of the backend must have `costs` set.
void weir_estimates_changed(struct weir_estimates *estimates, uint16_t id);
// Clear the marks of all backends of a service.
void weir_estimates_none_changed(
	struct weir_estimates *estimates, struct service_estimates *service);
// Writes the costs of the marked backends to the segment, if a dataplane is attached. When the
// number of known costs has doubled, also writes the cost of the backends without an estimate:
// about the mean of the known costs.
void weir_estimates_write_changed(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// Writes the costs of all backends of a service, if a dataplane is attached.
void weir_estimates_write(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// Adjusts the error window of a service. Returns whether the tables must be published.
bool weir_estimates_adjust_window(
	struct weir_estimates *estimates, struct service_estimates *service);

// --- estimates_counts.c ---

// Uses the requests in progress of a report, for a policy that counts flows, or that charges
// backends for requests. Returns the report fields that were used.
uint32_t weir_estimates_take_active(struct weir_estimates *estimates, uint16_t id,
	const struct weir_report *report, uint64_t now_ns);
// Counts, for each backend of a service with `requests` set, the workers that give the backend new
// flows. Not all workers do this if the service has subsets, or while the backend is drained or
// down.
void weir_estimates_count_users(
	struct weir_estimates *estimates, struct service_estimates *service);
// For a service whose policy counts flows: writes the signals of its backends. A signal contains
// errors and a share of reported requests.
void weir_estimates_write_counts(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// Writes the signal of one backend, as weir_estimates_write_counts does.
void weir_estimates_write_count(struct weir_estimates *estimates, uint16_t id, uint64_t now_ns);

// --- estimates_weights.c ---

// Adjusts the weights of a service's backends. Returns whether the tables must be published.
bool weir_estimates_adjust_weights(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// Returns the settings for deriving weights from reports.
struct weir_capability_settings weir_estimates_capability(const struct weir_config_policy *policy);
bool weir_estimates_is_ready(const struct weir_backend_state *state);
