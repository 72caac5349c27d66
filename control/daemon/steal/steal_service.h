// SPDX-License-Identifier: BSD-3-Clause
//
// Steal service: a service that steals, and its backends. Finds victims and thieves by the accept
// queues that agents report and by the half-open flows that workers count, and plans which flows
// move to which backends.
//
// Threads: one, that of the loop. No clock: time is an argument.
#pragma once

#include "flow_scan.h"
#include "flow_steals.h"
#include "refused_places.h"
#include "stalling.h"
#include "steal_costs.h"
#include "steal_plan.h"

#define WEIR_STEAL_WAITING 256u // flows of a service in a plan

struct steal_member { // a backend of a service
	uint16_t id;
	bool full; // its accept queue
	bool stalls; // half-open flows accumulate at it
	bool thief; // takes new flows, and its accept queue has room
	double fill; // of its accept queue, 0 to 1
	double queue; // connections in it, with those that will arrive soon
	double service_s; // estimate of weir_steal_service_s; below 0 = unknown
	uint32_t room; // further connections that fit
	uint32_t longest_ms; // longest wait of a connection that it has not accepted, in a plan
	uint32_t requests; // requests to its agent in this round
	bool answered; // one of them was answered
	bool permitted; // one of them was permitted
	uint32_t refusals; // consecutive rounds without a permission
	uint64_t paused_ms; // no request to its agent before this time
	uint32_t pauses; // since its agent last helped
	bool silent; // reason of the last pause: no answer
	uint32_t logged; // obstacles already logged: a bit per outcome
	uint64_t logged_ms; // time of the first of them
	uint32_t given[2]; // connections moved to it in this second and in the previous one
	uint64_t given_ms; // start of this second
};

static inline bool weir_steal_member_saturated(const struct steal_member *member) {
	return member->full || member->stalls;
}

// member: saturated.
static inline enum weir_flow_steal_reason weir_steal_member_reason(
	const struct steal_member *member) {
	return member->full ? WEIR_FLOW_STEAL_FOR_ACCEPT_QUEUE : WEIR_FLOW_STEAL_FOR_HALF_OPEN;
}

struct steal_service {
	char name[WEIR_NAME_BYTES];
	uint16_t id;
	bool enabled;
	bool saturated;
	uint32_t after_ms; // as configured
	uint32_t per_second;
	bool many_ports; // clients may connect to several
	bool many_addresses; // clients may connect to several
	double tokens; // requests allowed now
	uint64_t filled_ms; // time of the last update of tokens
	uint32_t report_most_ms; // an older report is not used for a thief
	uint32_t count;
	struct steal_member *members; // [count]: workers of the plan
	struct weir_stalling_settings stalling;
	struct weir_stalling_backend *handshakes; // [count]
	struct weir_stalling_place *places; // [count]
	uint64_t counted_ms; // when half-open flows were last counted
	uint32_t stalling_count; // members
	uint64_t *thieves; // bit per member
	struct weir_steal_plan *plan; // tasks: a queue of each member, then waiting flows
	struct weir_refused_places refused;
	uint32_t turn; // member at which the search for victims starts
	uint64_t incomplete; // rounds
	uint64_t requests;
	uint64_t outcomes[WEIR_FLOW_STEAL_OUTCOME_COUNT];
};

struct steal_planned {
	uint32_t flow; // of the scan
	uint32_t victim, thief; // members
	uint16_t from, to; // backend ids of these
	enum weir_flow_steal_reason reason;
	uint32_t task, id; // of the plan
	uint16_t port; // that the client connects to, network order
	uint8_t family, address[16]; // the same
};

// syn_seen_ms: of the flow table. Returns 0 or -ENOMEM; the caller must call
// weir_steal_service_fini in both cases.
int weir_steal_service_init(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_config_service *config, uint32_t syn_seen_ms);
void weir_steal_service_fini(struct steal_service *service);

// Count the half-open flows of services, each about every WEIR_ROUND_MS. With many backends
// and workers, less often and a few services at a time, so that the loop is not blocked. first:
// service to start with. Returns `first` of the next call.
uint32_t weir_steal_services_count(struct steal_service *services, uint32_t count, uint32_t first,
	const struct weir_segment *segment, uint64_t now_ms);

// Find victims and thieves. Returns the number of backends to relieve now, up to
// WEIR_WAITING_BACKENDS, and their ids; the next call continues with others. 0 if there is no
// thief.
uint32_t weir_steal_service_look(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_reports *reports, uint64_t now_ms,
	uint16_t victims[WEIR_WAITING_BACKENDS]);

// Update its backends for a further plan of the same scan.
void weir_steal_service_refresh(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_reports *reports, uint64_t now_ms);

// Let the next weir_steal_service_look begin with this backend.
void weir_steal_service_begin_with(struct steal_service *service, uint16_t id);

// The next backend from *place on that weir_steal_service_look last selected for relief. Returns
// false if there is none.
bool weir_steal_service_relieved(const struct steal_service *service,
	const struct weir_tables *tables, uint32_t *place, struct weir_flow_steals_relieved *ret);

// Plan requests for the flows that the scan found. The service must have none in flight. Returns
// their number, up to WEIR_FLOW_STEALS_AT_ONCE.
uint32_t weir_steal_service_plan(struct steal_service *service, const struct weir_flow_scan *scan,
	uint64_t now_ms, struct steal_planned *planned);

// Whether to log this outcome, an obstacle at the victim's agent: not if it was logged recently.
bool weir_steal_service_is_to_log(struct steal_service *service,
	const struct steal_planned *planned, enum weir_flow_steal_outcome outcome, uint64_t now_ms);

// Copy the state that a changed service keeps: its counts and rate, and its members' pauses and
// recently moved connections. place: [WEIR_BACKEND_NONE], all 0 before and after.
void weir_steal_service_take_over(
	struct steal_service *to, const struct steal_service *from, uint32_t *place);
// Whether nothing relevant differs, so that one may continue as the other.
bool weir_steal_service_is_same(const struct steal_service *a, const struct steal_service *b);

// Process the end of a planned request.
void weir_steal_service_ended(struct steal_service *service, const struct steal_planned *planned,
	enum weir_flow_steal_outcome outcome, uint64_t now_ms);
