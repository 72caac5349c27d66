// SPDX-License-Identifier: BSD-3-Clause
//
// A service that steals, and its backends: flow_steals_look.c (who has too much, who has room) and
// flow_steals_plan.c (which flows are to go where). flow_steals.c (rounds and requests) uses
// nothing of its members.
#pragma once

#include "flow_scan.h"
#include "flow_steals.h"
#include "stalling.h"
#include "steal_plan.h"

#define WEIR_STEAL_WAITING 256u // flows of a service that are planned for at a time
#define WEIR_STEAL_PLACES 64u // refused ones of a service that are remembered

struct steal_member { // a backend of a service
	uint16_t id;
	bool full; // its accept queue
	bool stalls; // half-open flows pile up at it
	bool thief; // it takes new flows, and reports that its accept queue has room
	double fill; // of its accept queue, 0 to 1
	uint32_t room; // connections that may still wait there
	uint32_t asked; // requests of the round to its agent
	bool answered; // one of them was answered
	bool permitted; // one of them by a yes
	uint32_t refusals; // rounds in a row without one
	uint64_t paused_ms; // its agent is not asked until then
	uint32_t pauses; // since it was of help
	bool silent; // the reason of the last one
	uint32_t logged; // what keeps its agent from helping: a bit per outcome
	uint64_t logged_ms; // the first of them
	uint32_t given[2]; // connections moved to it: in this second, and in the one before
	uint64_t given_ms; // when this second began
};

// Where clients connect to, at a backend whose agent lets no connection to it go.
struct steal_place {
	uint16_t member;
	uint16_t port; // network order
	uint8_t family; // 0 = any address
	uint8_t address[16];
	uint64_t until_ms; // it is not asked about it before; 0 = none is remembered
};

struct steal_service {
	char name[WEIR_NAME_BYTES];
	uint16_t id;
	bool enabled;
	bool saturated;
	uint32_t after_ms; // as configured
	uint32_t per_second;
	bool many_ports; // clients choose to which one they connect
	bool many_addresses; // the same
	double tokens; // requests that may be made now
	uint64_t filled_ms; // when they were counted
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
	struct steal_place refused[WEIR_STEAL_PLACES]; // by what it is, one in each element
	uint32_t turn; // member from which victims are looked for
	uint64_t incomplete; // rounds
	uint64_t asked;
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

static inline bool weir_steal_is_saturated(const struct steal_member *member) {
	return member->full || member->stalls;
}

// Of a saturated one.
static inline enum weir_flow_steal_reason weir_steal_reason(const struct steal_member *member) {
	return member->full ? WEIR_FLOW_STEAL_FOR_ACCEPT_QUEUE : WEIR_FLOW_STEAL_FOR_HALF_OPEN;
}

// syn_seen_ms: of the flow table. Returns 0 or -ENOMEM; in either case weir_steal_service_fini is
// due.
int weir_steal_service_init(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_config_service *config, uint32_t syn_seen_ms);
void weir_steal_service_fini(struct steal_service *service);

// Count the half-open flows of services, of each about every WEIR_FLOW_STEALS_MS. With many
// backends and workers more seldom, and of some services at a time, so that the loop is not held
// for all. first: with which to begin. Returns with which the next call is to begin.
uint32_t weir_steal_services_count(struct steal_service *services, uint32_t count, uint32_t first,
	const struct weir_segment *segment, uint64_t now_ms);

// So many more connections were moved to a member, which no report has yet.
void weir_steal_member_given(struct steal_member *member, uint64_t now_ms, uint32_t more);

// Look who has too much and who has room. Returns how many backends are to be relieved now, up to
// WEIR_WAITING_BACKENDS, and their ids: others of them with the next call. 0 if none has room.
uint32_t weir_steal_service_look(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_reports *reports, uint64_t now_ms,
	uint16_t victims[WEIR_WAITING_BACKENDS]);

// The next backend from *place on that was to be relieved by the last look; false = there are no
// more.
bool weir_steal_service_relieved(const struct steal_service *service,
	const struct weir_tables *tables, uint32_t *place, struct weir_flow_steals_relieved *ret);

// Which of the flows that the scan has found go where. Nothing of the service is in flight. Returns
// how many requests, up to WEIR_FLOW_STEALS_AT_ONCE.
uint32_t weir_steal_service_plan(struct steal_service *service, const struct weir_flow_scan *scan,
	uint64_t now_ms, struct steal_planned *planned);

// Whether to log this outcome, which keeps the agent of the victim from
// helping: not if that was done of late.
bool weir_steal_service_is_to_log(struct steal_service *service,
	const struct steal_planned *planned, enum weir_flow_steal_outcome outcome, uint64_t now_ms);

// A service that changes keeps its counts and rate, and its members the pauses of their agents and
// what was moved to them of late.
// place: [WEIR_BACKEND_NONE], all 0 before and after.
void weir_steal_service_take_over(
	struct steal_service *to, const struct steal_service *from, uint32_t *place);
// Whether nothing has changed, so that the one can go on as the other.
bool weir_steal_service_is_same(const struct steal_service *a, const struct steal_service *b);

// A request that was planned has ended.
void weir_steal_service_ended(struct steal_service *service, const struct steal_planned *planned,
	enum weir_flow_steal_outcome outcome, uint64_t now_ms);
