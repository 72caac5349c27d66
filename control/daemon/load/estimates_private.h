// SPDX-License-Identifier: BSD-3-Clause
//
// Private to the files estimates*.c.
#pragma once

#include "balanced.h"
#include "capability.h"
#include "estimates.h"
#include "moving.h"
#include "reported_errors.h"

// What is known for the weight of a backend.
struct backend_weight {
	struct weir_capability capability; // "reported"
	struct weir_balanced_load load; // "balanced"
	double correction;
};

// One service that needs estimates.
struct service_estimates {
	unsigned __int128 known_ns; // sum of the known estimates
	struct service_estimates *next_leaving;
	char name[WEIR_NAME_BYTES];
	uint64_t times_pass; // when its statistics of times began
	uint64_t seen; // pass of weir_estimates_follow
	uint64_t adopted_until_ns; // weights of the process before hold
	uint64_t stepped_ns; // when weights were last balanced
	struct weir_moving *times; // of all its flows, for the window
	struct weir_config_policy config; // a copy
	enum weir_policy policy;
	uint32_t subset; // backends that a group of instances uses; 0 = all
	uint32_t known; // how many estimates are
	uint32_t known_then; // when the unknown ones were last given the mean
	uint32_t count; // members
	uint32_t room;
	uint16_t *member; // [room] backend ids
	uint16_t *changed; // [room] those that were given samples since the last write
	double *capability; // [room] or utilizations
	double *correction; // [room]
	uint32_t *weight; // [room]
	uint32_t changed_count;
	uint16_t id;
	bool costs; // of its backends
	bool errors; // that they report count as active flows
	bool probes; // requests in progress and latency, as reported
	bool window; // how long an error counts
	bool weights; // out of reports
	bool weights_known; // two backends reported since we began
	bool leaves; // its backends and it itself are forgotten at the end of the pass
	bool inherits; // what the segment holds as costs is in the measure of ours
};

// One backend id. Zeroed: not collected.
struct backend_estimates {
	struct service_estimates *service;
	struct weir_moving *times; // with service->costs
	struct backend_weight *weight; // with service->weights
	struct weir_reported_errors *errors; // with service->costs or ->errors, once it reports any
	uint64_t times_pass; // the service's, when times was made
	uint64_t owner; // who the id belongs to
	uint64_t inherited_ns; // cost found in the segment, in force until
	uint64_t inherited_until_ns;
	uint64_t latency_ns; // service->probes: the newest; 0 = unknown
	uint64_t probed_ns; // time of the newest probe; 0 = none
	uint64_t known_ns; // part of the service's sum; 0 = unknown
	bool changed; // in the service's list
	bool ready; // for new flows, as of the last second
};

struct weir_estimates {
	struct weir_tables *tables;
	uint64_t pass;
	uint64_t samples;
	uint64_t epoch; // of the segment that costs were written to last
	uint32_t first_worker; // whose ring is read first in the next turn
	bool measures;
	uint32_t workers; // of an instance
	uint32_t groups; // of instances
	uint32_t members; // instances of a group
	weir_estimates_listener listener; // or NULL
	void *listener_context;
	uint32_t services; // that need something
	uint32_t ids; // elements of backend[]
	struct service_estimates **service; // [WEIR_SERVICES_MAX], NULL while no service needs any
	struct backend_estimates *backend; // [ids], NULL likewise
	struct service_estimates *leaving; // no longer in service[]
};

// --- estimates_times.c ---

// Discard the samples in the rings: they belong to other backends.
void weir_estimates_skip(struct weir_estimates *estimates);
void weir_estimates_take(struct weir_estimates *estimates, uint64_t now_ns);
// Write what the reported errors of a service's backends count as, if its policy counts them.
void weir_estimates_write_errors(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// The same of one backend with errors.
void weir_estimates_write_error(struct weir_estimates *estimates, uint16_t id, uint64_t now_ns);
// Write what a backend reported: requests in progress and latency.
void weir_estimates_write_probe(
	struct weir_estimates *estimates, uint16_t id, double active, uint64_t now_ns);
// Take back probes that are of no use any more.
void weir_estimates_expire_probes(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// How long an error counts.
uint64_t weir_estimates_error_window_ns(
	const struct weir_estimates *estimates, const struct service_estimates *service);
// The estimate of one backend; 0 = unknown.
uint64_t weir_estimates_cost(const struct backend_estimates *backend, uint64_t now_ns);
// A backend with times was given samples.
void weir_estimates_changed(struct weir_estimates *estimates, uint16_t id);
// Forget which ones were.
void weir_estimates_none_changed(
	struct weir_estimates *estimates, struct service_estimates *service);
// Write the costs of those that changed into the segment, when there is one. The others keep
// theirs: one that is unknown costs the mean of the known ones, as of the last second, or of when
// half as many were known.
void weir_estimates_write_changed(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// Write all costs of a service.
void weir_estimates_write(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
// Returns whether the tables are to be published.
bool weir_estimates_adjust_window(
	struct weir_estimates *estimates, struct service_estimates *service);

// --- estimates_weights.c ---

// Returns whether the tables are to be published.
bool weir_estimates_adjust_weights(
	struct weir_estimates *estimates, struct service_estimates *service, uint64_t now_ns);
bool weir_estimates_is_ready(const struct weir_backend_state *state);
