// SPDX-License-Identifier: BSD-3-Clause
//
// Steal service: a service whose connections can be moved between its backends, from victims to
// thieves. Finds the victims and thieves by the accept queues that agents report, and by the
// half-open flows that workers count. Plans which flows move to which backends.
//
// Threads: the thread of the loop. No clock: time is an argument.
#pragma once

#include "flow_scan.h"
#include "flow_steals.h"
#include "refused_places.h"
#include "stalling.h"
#include "steal_costs.h"
#include "steal_plan.h"

#define WEIR_STEAL_WAITING 256u // maximum number of flows in the plan of a service

struct steal_member { // a backend of a service
	uint16_t id;
	bool full; // its accept queue is full
	bool stalls; // half-open flows accumulate at the backend
	bool thief; // takes new flows, and its accept queue has room
	double fill; // fill level of its accept queue, 0 to 1
	// Number of connections in its accept queue, including moved connections that have not
	// arrived yet.
	double queue;
	double service_s; // the estimate that weir_steal_service_s uses; below 0 = unknown
	uint32_t room; // further connections that fit into its accept queue
	// In a plan: the longest time, in milliseconds, that a connection has waited because the
	// backend has not accepted it.
	uint32_t longest_ms;
	uint32_t requests; // requests to its agent in this round
	bool answered; // the agent has answered a request in this round
	bool permitted; // the agent has permitted a request in this round
	// Number of consecutive rounds without a permission; counted only until the pause after a
	// round has its maximum duration.
	uint32_t refusals;
	uint64_t paused_ms; // until this time, no request is sent to its agent
	uint32_t pauses; // number of pauses since its agent last permitted a steal
	bool silent; // the last pause began because the agent did not answer
	uint32_t logged; // bit set of the outcomes that were already logged
	uint64_t logged_ms; // when the first outcome in `logged` was logged
	// Number of connections moved to the backend: [0] in the second that began at given_ms, [1]
	// in the second before.
	uint32_t given[2];
	uint64_t given_ms;
};

static inline bool weir_steal_member_saturated(const struct steal_member *member) {
	return member->full || member->stalls;
}

// Returns why connections are moved away from a saturated member.
static inline enum weir_flow_steal_reason weir_steal_member_reason(
	const struct steal_member *member) {
	return member->full ? WEIR_FLOW_STEAL_FOR_ACCEPT_QUEUE : WEIR_FLOW_STEAL_FOR_HALF_OPEN;
}

struct steal_service {
	char name[WEIR_NAME_BYTES];
	uint16_t id;
	bool enabled;
	bool saturated;
	uint32_t after_ms; // configured waiting time before a steal
	uint32_t per_second;
	bool many_ports; // clients can connect to more than one port
	bool many_addresses; // clients can connect to more than one address
	double tokens; // number of requests allowed now
	uint64_t filled_ms; // time of the last update of tokens
	// maximum age of a report; a backend with an older report cannot be a thief
	uint32_t report_most_ms;
	uint32_t count;
	struct steal_member *members; // [count]; named "workers" in the planner
	struct weir_stalling_settings stalling;
	struct weir_stalling_backend *handshakes; // [count]
	struct weir_stalling_place *places; // [count]
	uint64_t counted_ms; // when half-open flows were last counted
	uint32_t stalling_count; // number of members that stall
	uint64_t *thieves; // bitmap of members
	struct weir_steal_plan *plan; // tasks: the queue of each member, then the waiting flows
	struct weir_refused_places refused;
	uint32_t turn; // index of the member with which the next search for victims begins
	uint64_t incomplete; // rounds in which a worker did not report all waiting flows in time
	uint64_t requests;
	uint64_t outcomes[WEIR_FLOW_STEAL_OUTCOME_COUNT];
};

struct steal_planned {
	uint32_t flow; // index in the scan
	uint32_t victim, thief; // indexes of members
	uint16_t from, to; // backend ids of victim and thief
	enum weir_flow_steal_reason reason;
	uint32_t task, id; // index of the task, and ID of the request, in the plan
	uint16_t port; // destination port of the client, in network byte order
	uint8_t family, address[16]; // destination address of the client
};

// Initialize a service. syn_seen_ms: the timeout "syn_seen" of the flow table. Returns 0 or
// -ENOMEM; the caller must call weir_steal_service_fini in both cases.
int weir_steal_service_init(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_config_service *config, uint32_t syn_seen_ms);
void weir_steal_service_fini(struct steal_service *service);

// Counts the half-open flows of services, each about every WEIR_ROUND_MS. If there are many
// backends and workers, a call counts only a few services, so that it does not block the loop, and
// each service is counted less often. first: index of the first service to count. Returns the value
// of `first` for the next call.
uint32_t weir_steal_services_count(struct steal_service *services, uint32_t count, uint32_t first,
	const struct weir_segment *segment, uint64_t now_ms);

// Finds victims and thieves. victims: gets the ids of the backends from which connections should be
// moved now. Returns their number, at most WEIR_WAITING_BACKENDS; 0 if there is no thief. The next
// call continues with other backends.
uint32_t weir_steal_service_look(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_reports *reports, uint64_t now_ms,
	uint16_t victims[WEIR_WAITING_BACKENDS]);

// Updates the state of the backends of a service. Call this function before another plan is made
// with the flows of the last scan.
void weir_steal_service_refresh(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_reports *reports, uint64_t now_ms);

// Makes the next call of weir_steal_service_look start its search at this backend. Does nothing if
// the backend is not a member.
void weir_steal_service_begin_with(struct steal_service *service, uint16_t id);

// Iterates over the saturated members, as the last call of weir_steal_service_look or
// weir_steal_service_refresh has found them: gets the next member, starting at the index *place.
// Returns false after the last member.
bool weir_steal_service_relieved(const struct steal_service *service,
	const struct weir_tables *tables, uint32_t *place, struct weir_flow_steals_relieved *ret);

// Plans requests for the flows that the scan has found. planned: gets the requests. The service
// must have no requests in flight. Returns the number of requests, at most
// WEIR_FLOW_STEALS_AT_ONCE.
uint32_t weir_steal_service_plan(struct steal_service *service, const struct weir_flow_scan *scan,
	uint64_t now_ms, struct steal_planned *planned);

// Call this function if the outcome means that the victim's agent cannot permit steals. Returns
// whether the outcome must be logged; false if the same outcome was logged recently.
bool weir_steal_service_is_to_log(struct steal_service *service,
	const struct steal_planned *planned, enum weir_flow_steal_outcome outcome, uint64_t now_ms);

// Copies the state that a changed service keeps: the counts and the rate of the service, and the
// pauses and the recently moved connections of its members. place: working memory
// [WEIR_BACKEND_NONE], all 0 before and after the call.
void weir_steal_service_take_over(
	struct steal_service *to, const struct steal_service *from, uint32_t *place);
// Returns whether the state of service a is also valid for service b.
bool weir_steal_service_is_same(const struct steal_service *a, const struct steal_service *b);

// Call this function when a planned request has ended.
void weir_steal_service_ended(struct steal_service *service, const struct steal_planned *planned,
	enum weir_flow_steal_outcome outcome, uint64_t now_ms);
