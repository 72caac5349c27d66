// SPDX-License-Identifier: BSD-3-Clause
//
// Canaries: a canary is a backend whose weight weir-control raises step by step, so that the
// backend gets a growing share of the new flows of its service. weir-control judges the canary once
// a second. Before the end of a step, only a canary that is much worse than the other backends
// counts as worse (canary_judge.h). A canary that is worse is rolled back: it gets weight 0, and
// existing flows continue. A canary that is good at the end of the last step is promoted: it gets
// its configured weight, or keeps the weight of the last step if its configured weight is 0.
//
//   weights, health --> canaries --weight--> tables
//   reports, counters of workers --> canaries --events--> states, audit, log
//
// A canary is paused while
//  - it is drained, in maintenance, lame duck or not yet checked;
//  - its agent is silent, or it gets no new flows, for example because it has no next hop;
//  - no other backend gets new flows, or no dataplane is attached;
//  - it has no id yet.
// After a pause the step begins again. A canary is rolled back if it is refusing or ejected, or if
// its service gets subsets, or a policy other than maglev and weighted-round-robin.
//
// Guarantees:
//   N1 at most one canary per service runs; nothing else sets the weight of a running canary.
//   N2 after a restart of this process, a canary continues at the start of its step. The file of
//      canaries (canary_file.h) is written before the weight is raised, and before the reply to a
//      command. If writing fails, a canary does not start, but other changes are made
//      (weir_canaries_are_unsaved).
//   N3 a rolled-back backend has weight 0 until an operator sets its weight or makes it a canary
//      again, even after reloads and restarts, and while other canaries run.
//
// Threads: the thread of the loop.
#pragma once

#include "canary_file.h"
#include "canary_signs.h"
#include "log.h"
#include "probed_agents.h"
#include "states.h"
#include "tables.h"

struct weir_canaries;

struct weir_canaries_of { // all borrowed
	const struct weir_log *log;
	struct weir_audit *audit;
	struct weir_states *states;
	struct weir_reports *reports;
	struct weir_probed_agents *agents;
	const char *run_dir;
};

struct weir_canary {
	struct weir_canary_record record;
	// The members below, except the ids, `publishing` and `step_weight`, are used only while
	// the canary runs.
	int service, backend; // ids found by the last lookup; negative: not found
	const char *paused; // reason of a pause; NULL = not paused
	bool publishing; // the canary is promoted, but the promotion is not published yet
	uint32_t step_weight; // while publishing: the weight of the last step
	bool begun; // the step has begun; false after a pause, until the step begins again
	bool prolonged; // the time of the step is over, but there were too few requests or
			// latencies
	uint64_t began_ms; // start of the step, monotonic
	uint64_t passed_ms; // time since began_ms, updated once a second
	uint64_t others; // sum of the weights of the other backends that get new flows
	struct weir_canary_signs signs;
};

// Create, and read the canaries that an earlier process has saved. Returns 0 or -ENOMEM. A file
// that cannot be read is logged and ignored.
int weir_canaries_create(const struct weir_canaries_of *of, struct weir_canaries **ret);
void weir_canaries_free(struct weir_canaries *canaries); // NULL is allowed

// Call this function after a configuration was applied to the tables. tables: borrowed until the
// next call. Removes canaries whose backends are no longer configured, and rolls back canaries
// whose services can no longer have a canary. If the configuration has replaced a weight that a
// canary keeps, sets the weight again. Saves the canaries. The caller publishes the tables
// afterwards.
void weir_canaries_follow(struct weir_canaries *canaries, struct weir_tables *tables);
// Advances all canaries; call this function once a second. published: true if no change waits for
// publication. Returns whether the tables must be published.
bool weir_canaries_second(struct weir_canaries *canaries, uint64_t now_ms, bool published);

// Check whether a canary of this backend can start. plan: a valid plan. Returns 0, or -EINVAL with
// the reason in why. *ret_others: sum of the weights of the service's other backends that get new
// flows.
int weir_canaries_check(const struct weir_canaries *canaries, const struct weir_tables *tables,
	uint16_t backend, const struct weir_canary_plan *plan, uint64_t *ret_others, char *why,
	size_t why_bytes);
// Writes the canaries to the file if something has changed. published: true if no change waits for
// publication. Returns 0 or negative errno. After an error, the next call tries again; only the
// first failure in a row is logged.
int weir_canaries_save(struct weir_canaries *canaries, bool published);
// Starts a canary; call weir_canaries_check first. The new canary replaces an ended canary of its
// service, except a rolled-back canary of another backend. who: the user who starts the canary. The
// caller publishes the tables afterwards. Returns 0, -ENOMEM, -ENOENT (no such backend), or another
// negative errno if the canary could not be saved; after an error, nothing has changed.
int weir_canaries_start(struct weir_canaries *canaries, struct weir_tables *tables,
	uint16_t backend, const struct weir_canary_plan *plan, const struct weir_audit_who *who);
// Ends the running canary of a service at the request of an operator. state: PROMOTED, ROLLED_BACK,
// or STOPPED, which keeps the canary's weight. The caller publishes and saves afterwards. Returns
// 0, or -ENOENT if no canary of the service is running.
int weir_canaries_stop(
	struct weir_canaries *canaries, const char *service, enum weir_canary_state state);
// Call this function before an operator sets the weight of a backend. Removes an ended canary of
// the backend, so that it no longer keeps the weight. If the canary of the backend is running,
// returns false and changes nothing.
bool weir_canaries_let_go(struct weir_canaries *canaries, const char *service, const char *backend);

// Returns whether the last change could not be written to the file, so that a restart would undo
// it.
bool weir_canaries_are_unsaved(const struct weir_canaries *canaries);
uint32_t weir_canaries_count(const struct weir_canaries *canaries);
// i: below weir_canaries_count. The result is valid until a canary is started or removed.
const struct weir_canary *weir_canaries_at(const struct weir_canaries *canaries, uint32_t i);
// Returns the running canary of a service. If no canary runs, returns the canary that was started
// last, or NULL. The result is valid until a canary is started or removed.
const struct weir_canary *weir_canaries_find(
	const struct weir_canaries *canaries, const char *service);
bool weir_canary_is_running(const struct weir_canary *canary);
// Returns the state of the canary that determines the weight of a backend even when a reload
// changes the configured weight, or NULL if there is no such canary. canaries: a struct
// weir_canaries.
const char *weir_canaries_keeping(const void *canaries, const char *service, const char *backend);
// Returns the state of a canary: "running", "paused", "promoted", "rolled-back" or "stopped".
const char *weir_canary_state_text(const struct weir_canary *canary);
// Write the state of a canary for the audit, such as "step 2 of 4, 5 %, weight 15" or "promoted,
// configured weight". Returns buffer.
const char *weir_canary_describe(const struct weir_canary *canary, char *buffer, size_t bytes);
