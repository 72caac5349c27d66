// SPDX-License-Identifier: BSD-3-Clause
//
// Flow steals: moves connections that a backend does not accept to another backend. A round, at
// most every WEIR_ROUND_MS, or when a report of a full accept queue arrives, or as soon as a
// connection has waited long enough; rounds of the latter two use a thousandth of a CPU at most:
//
//   1. find backends with a full accept queue, reported by their agents, or with many half-open
//      flows (policy/stalling.h)
//   2. workers report their flows whose clients sent a SYN and then nothing for a while
//      (flow_scan.h)
//   3. the planner (policy/steal_plan.h) chooses flows and new backends
//   4. for each, the backend's agent is requested to confirm that it has no such connection, or has
//      removed it; any other answer, or none, is a refusal
//   5. the worker moves the flow, unless it had a packet since it was reported
//
// Each step may be the last one. After step 4 the backend has no state of the connection, so that
// the client's next SYN starts it at any backend. Nothing is stored for the next control process.
//
// Threads: one, that of the loop. Callbacks are called from the loop only.
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
#include "round_times.h"
#include "tables.h"

#define WEIR_FLOW_STEALS_AT_ONCE 64u // requests in a round
#define WEIR_FLOW_STEALS_OF_AGENT 20u // of them to one agent, which accepts 200 per second
#define WEIR_FLOW_STEALS_ANSWER_MS 250u // for the agent
#define WEIR_FLOW_STEALS_MOVE_MS 250u // for the worker, after that
#define WEIR_FLOW_STEALS_RECENT 256u

struct weir_flow_steals;

struct weir_flow_steals_service { // since the start of this process
	const char *name;
	bool enabled;
	bool saturated; // one of its backends was saturated in the last round
	uint64_t incomplete; // rounds in which a worker did not report all waiting flows in time
	uint64_t requests;
	uint64_t outcomes[WEIR_FLOW_STEAL_OUTCOME_COUNT]; // requests, except those in flight
};

struct weir_flow_steals_relieved { // a backend from which connections move
	const char *name;
	enum weir_flow_steal_reason reason;
	uint64_t half_open; // flows, of all workers
};

struct weir_flow_steals_event { // a completed request
	uint64_t time_ms; // of day
	char service[WEIR_NAME_BYTES], from[WEIR_NAME_BYTES], to[WEIR_NAME_BYTES];
	struct weir_address client, vip;
	uint16_t client_port, vip_port; // host order
	uint32_t took_ms; // since it was planned
	enum weir_flow_steal_reason reason;
	enum weir_flow_steal_outcome outcome;
};

// log, mailboxes: borrowed. reports, agents: borrowed, and not used by weir_flow_steals_free, after
// which no report may be taken.
// Returns 0 or -ENOMEM.
int weir_flow_steals_create(uv_loop_t *loop, struct weir_log *log, struct weir_mailboxes *mailboxes,
	struct weir_reports *reports, struct weir_agents *agents, struct weir_flow_steals **ret);
// Handles close in the next iterations of the loop. NULL is allowed.
void weir_flow_steals_free(struct weir_flow_steals *steals);

// Set the services of this configuration. Unchanged services continue; changed ones keep counts,
// rate and pauses of agents, and their requests in flight are abandoned. tables: borrowed until the
// next call. Returns 0 or -ENOMEM (nothing is stolen until the next call).
int weir_flow_steals_configure(struct weir_flow_steals *steals, struct weir_tables *tables,
	const struct weir_config *config);
// Abandon the requests in flight: the dataplane exited. NULL is allowed.
void weir_flow_steals_abandon(struct weir_flow_steals *steals);
// Steal nothing until the next configure: ids of the tables changed.
void weir_flow_steals_clear(struct weir_flow_steals *steals);

// --- status ---

// The n-th service that steals, or did. Returns false if there is none. Valid until the next call
// that changes anything.
bool weir_flow_steals_service(
	const struct weir_flow_steals *steals, uint32_t n, struct weir_flow_steals_service *ret);
// The next backend to be relieved in the last round of that service. Returns false if there is
// none. *place: 0 in the first call, then unchanged by the caller.
bool weir_flow_steals_relieved(const struct weir_flow_steals *steals, uint32_t n, uint32_t *place,
	struct weir_flow_steals_relieved *ret);
// The n-th newest event. Returns false if there is none.
bool weir_flow_steals_recent(const struct weir_flow_steals *steals, uint32_t n,
	const struct weir_flow_steals_event **ret);
// Whether a worker does not support these messages: weir-dataplane is older than this program.
bool weir_flow_steals_unsupported(const struct weir_flow_steals *steals);
