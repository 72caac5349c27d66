// SPDX-License-Identifier: BSD-3-Clause
//
// Flow steals: if a backend does not accept connections, moves these connections to another
// backend. A round begins WEIR_ROUND_MS after the last regular round, or earlier, when a report of
// a full accept queue arrives or as soon as a connection has waited long enough. Early rounds use
// at most a thousandth of a CPU. The steps of a round:
//
//   1. find backends with a full accept queue, reported by their agents, or with many half-open
//      flows (policy/stalling.h)
//   2. the workers report flows whose client has sent a SYN and no packet after it for some time
//      (flow_scan.h)
//   3. the planner (policy/steal_plan.h) chooses flows and new backends
//   4. for each flow, the agent of the current backend must confirm that the backend has no state
//      of the connection, or has removed it; any other answer, or no answer, is a refusal
//   5. the worker moves the flow, unless a packet of the flow has arrived since it was reported
// A round can end after any step. After step 4 the backend has no state of the connection, so the
// client's next SYN can start the connection at any backend. Nothing is stored for the next control
// process.
//
// Threads: the thread of the loop. Callbacks are called from the loop only.
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

#define WEIR_FLOW_STEALS_AT_ONCE 64u // maximum number of requests in a round
// Maximum number of requests to an agent in a round. An agent accepts 200 requests per second, and
// bursts of 24.
#define WEIR_FLOW_STEALS_OF_AGENT 20u
#define WEIR_FLOW_STEALS_ANSWER_MS 250u // timeout for the answer of an agent
// timeout for the response of the worker, after the agent's answer
#define WEIR_FLOW_STEALS_MOVE_MS 250u
#define WEIR_FLOW_STEALS_RECENT 256u

struct weir_flow_steals;

struct weir_flow_steals_service { // counts since the start of this process
	const char *name;
	bool enabled;
	// a backend was saturated in the last round: connections had to be moved away from it
	bool saturated;
	uint64_t incomplete; // rounds in which a worker did not report all waiting flows in time
	uint64_t requests;
	uint64_t outcomes[WEIR_FLOW_STEAL_OUTCOME_COUNT]; // number of completed requests
};

struct weir_flow_steals_relieved { // a backend from which connections are moved away
	const char *name;
	enum weir_flow_steal_reason reason;
	uint64_t half_open; // half-open flows of all workers
};

struct weir_flow_steals_event { // a completed request
	uint64_t time_ms; // since 1970
	char service[WEIR_NAME_BYTES], from[WEIR_NAME_BYTES], to[WEIR_NAME_BYTES];
	struct weir_address client, vip;
	uint16_t client_port, vip_port; // host order
	uint32_t took_ms; // time from the planning of the request to its outcome
	enum weir_flow_steal_reason reason;
	enum weir_flow_steal_outcome outcome;
};

// Creates the module, without services. log, mailboxes, reports, agents: borrowed.
// weir_flow_steals_free does not use reports and agents. After weir_flow_steals_free, `reports`
// must not process any report, and `agents` must not end any steal. Returns 0 or -ENOMEM.
int weir_flow_steals_create(uv_loop_t *loop, struct weir_log *log, struct weir_mailboxes *mailboxes,
	struct weir_reports *reports, struct weir_agents *agents, struct weir_flow_steals **ret);
// Frees everything. Call this function after weir_mailboxes_fini. The libuv handles are closed in
// the next iterations of the loop. NULL is allowed.
void weir_flow_steals_free(struct weir_flow_steals *steals);

// Replaces the services with the services of this configuration. Unchanged services continue.
// Changed services keep their counts, their rates and the pauses of their agents, but their
// requests in flight are abandoned. tables: borrowed until the next call. Returns 0 or -ENOMEM (no
// connection is moved until the next call).
int weir_flow_steals_configure(struct weir_flow_steals *steals, struct weir_tables *tables,
	const struct weir_config *config);
// Abandons the scan and the requests in flight. Call this function when the dataplane has exited.
// NULL is allowed.
void weir_flow_steals_abandon(struct weir_flow_steals *steals);
// Disables the stealing of connections until the next weir_flow_steals_configure. Call this
// function when ids of the tables have changed.
void weir_flow_steals_clear(struct weir_flow_steals *steals);

// --- status ---

// Gets the n-th service that steals connections now, or has requested steals before. *ret is
// valid until the next call that changes the services. Returns false if there is no such service.
bool weir_flow_steals_service(
	const struct weir_flow_steals *steals, uint32_t n, struct weir_flow_steals_service *ret);
// Iterates over the saturated backends of the n-th service, from which connections are moved away,
// as its last round has found them. Gets the next backend; returns false after the last backend.
// *place: 0 in the first call; the caller must not change it between calls.
bool weir_flow_steals_relieved(const struct weir_flow_steals *steals, uint32_t n, uint32_t *place,
	struct weir_flow_steals_relieved *ret);
// Gets the n-th newest event; n = 0 is the newest. Returns false if there is no such event.
bool weir_flow_steals_recent(const struct weir_flow_steals *steals, uint32_t n,
	const struct weir_flow_steals_event **ret);
// Returns true if connections cannot be moved, because weir-dataplane is older than weir-control
// and a worker does not support the necessary messages.
bool weir_flow_steals_unsupported(const struct weir_flow_steals *steals);
