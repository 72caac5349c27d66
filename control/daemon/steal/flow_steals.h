// SPDX-License-Identifier: BSD-3-Clause
//
// Flow steals: connections that wait at a backend which does not let them in go to another one.
// A round, at most every WEIR_FLOW_STEALS_MS:
//
//   1. which backends have a full accept queue, as their agents report, or half-open flows that
//      pile up (policy/stalling.h)
//   2. workers list the flows there that have sent a SYN and nothing else for a while (flow_scan.h)
//   3. the planner (policy/steal_plan.h) decides which are to go where
//   4. the agent of the backend is asked about each, and answers that it has nothing of it, or has
//      removed it; anything else, and silence, means no
//   5. the worker moves the flow, unless it had a packet since it was listed
//
// Each step may be the last one. After step 4 the backend has nothing of the connection, so that
// its client's next SYN begins it, wherever that goes. Nothing is remembered for the next control
// process.
//
// Threads: one, that of the loop. Callbacks come from the loop alone.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agents.h"
#include "config.h"
#include "flow_steals_outcome.h"
#include "log.h"
#include "mailboxes.h"
#include "reports.h"
#include "tables.h"

#define WEIR_FLOW_STEALS_MS 100u
#define WEIR_FLOW_STEALS_AT_ONCE 64u // requests of a round
#define WEIR_FLOW_STEALS_OF_AGENT 20u // of them about one backend; its agent takes 200 in a second
#define WEIR_FLOW_STEALS_ANSWER_MS 250u // for the agent
#define WEIR_FLOW_STEALS_MOVE_MS 250u // for the worker, after that
#define WEIR_FLOW_STEALS_RECENT 256u

struct weir_flow_steals;

struct weir_flow_steals_service { // since the start of this process
	const char *name;
	bool enabled;
	bool saturated; // one of its backends was in the last round
	uint64_t incomplete; // rounds in which a worker did not list all that waits in time
	uint64_t asked;
	uint64_t outcomes[WEIR_FLOW_STEAL_OUTCOME_COUNT]; // asked, but for those in flight
};

struct weir_flow_steals_relieved { // a backend that connections leave
	const char *name;
	enum weir_flow_steal_reason reason;
	uint64_t half_open; // flows, of all workers
};

struct weir_flow_steals_event { // a request that has ended
	uint64_t time_ms; // of day
	char service[WEIR_NAME_BYTES], from[WEIR_NAME_BYTES], to[WEIR_NAME_BYTES];
	struct weir_address client, vip;
	uint16_t client_port, vip_port; // host order
	uint32_t took_ms; // since it was planned
	enum weir_flow_steal_reason reason;
	enum weir_flow_steal_outcome outcome;
};

// log, mailboxes, reports: borrowed. agents: borrowed, and not used by weir_flow_steals_free.
// Returns 0 or -ENOMEM.
int weir_flow_steals_create(uv_loop_t *loop, struct weir_log *log, struct weir_mailboxes *mailboxes,
	const struct weir_reports *reports, struct weir_agents *agents,
	struct weir_flow_steals **ret);
// Memory is released by the loop's next iterations. NULL is fine.
void weir_flow_steals_free(struct weir_flow_steals *steals);

// The services of this configuration. Those that stay as they are go on; of others that stay,
// counts, the rate and the pauses of agents are kept, and requests in flight abandoned. tables:
// borrowed until the next call. Returns 0 or -ENOMEM (nothing is stolen until it is called again).
int weir_flow_steals_configure(struct weir_flow_steals *steals, struct weir_tables *tables,
	const struct weir_config *config);
// The dataplane has gone: give up what is in flight. NULL is fine.
void weir_flow_steals_abandon(struct weir_flow_steals *steals);
// The ids of the tables are others than they were: steal nothing until the next configure.
void weir_flow_steals_forget(struct weir_flow_steals *steals);

// --- to look at ---

// The n-th service that steals, or did; false = there are no more. Valid until the next call that
// changes anything.
bool weir_flow_steals_service(
	const struct weir_flow_steals *steals, uint32_t n, struct weir_flow_steals_service *ret);
// The next backend that was to be relieved in the last round of that service; false = there are no
// more. *place: 0 at first, then as it was left.
bool weir_flow_steals_relieved(const struct weir_flow_steals *steals, uint32_t n, uint32_t *place,
	struct weir_flow_steals_relieved *ret);
// The n-th newest event. False = so many are not remembered.
bool weir_flow_steals_recent(const struct weir_flow_steals *steals, uint32_t n,
	const struct weir_flow_steals_event **ret);
// A worker does not know these messages: weir-dataplane is older than this program.
bool weir_flow_steals_unsupported(const struct weir_flow_steals *steals);
