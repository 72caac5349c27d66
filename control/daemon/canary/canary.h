// SPDX-License-Identifier: BSD-3-Clause
//
// Canaries: raises the weight of a backend step by step, so that it gets a growing share of the new
// flows of its service, and judges it at the end of each step, and before if it is plainly worse
// (canary_judge.h). Worse: rolled back, to weight 0; existing flows continue. Good at the end of
// the last step: promoted, to its configured weight.
//
//   weights, health --> canaries --weight--> tables
//   reports, counters of workers --> canaries --events--> states, audit, log
//
// A canary is paused, and its step begins again afterwards, while it is drained, lame duck or not
// yet checked, its agent is silent, it has no next hop, no other backend takes new flows, or there
// is no dataplane. It is rolled back if it is refusing or ejected, and if its service gets a policy
// that ignores weights, or subsets.
//
// Guarantees:
//   N1 at most one canary per service; its weight is set by nothing else while it runs.
//   N2 a canary continues in the next process, at the start of its step (canary_file.h): the file
//   is
//      written before a higher weight, and before the answer to a command.
//   N3 a rolled-back backend has weight 0 until an operator sets its weight, or starts a canary,
//      also after reloads and restarts.
//
// Threads: one, that of the loop.
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
	// While it runs:
	int service, backend; // ids, as last looked up; negative: none
	const char *paused; // reason; NULL = not paused
	bool publishing; // its promotion is not published yet
	uint32_t step_weight; // that of its last step, meanwhile
	bool begun; // the step: its time passes
	bool prolonged; // too few requests at its end
	uint64_t began_ms; // monotonic
	uint64_t passed_ms; // since then, at the last look
	uint64_t others; // sum of the weights of other backends that take new flows
	struct weir_canary_signs signs;
};

// Read the canaries of an earlier process. Returns 0 or -ENOMEM; a file that cannot be read is
// logged.
int weir_canaries_create(const struct weir_canaries_of *of, struct weir_canaries **ret);
void weir_canaries_free(struct weir_canaries *canaries); // NULL is allowed

// A configuration was applied to the tables (borrowed until the next call): end canaries that are
// no longer configured, and set the weights that it has dropped. Publish afterwards.
void weir_canaries_follow(struct weir_canaries *canaries, struct weir_tables *tables);
// Call once a second. Returns whether the tables must be published. published: nothing is waiting
// for a publication.
bool weir_canaries_second(struct weir_canaries *canaries, uint64_t now_ms, bool published);

// Whether a canary could start. Returns 0, or -EINVAL with the reason and a remedy in why.
// *ret_others: sum of the weights of the other backends that take new flows.
int weir_canaries_check(const struct weir_canaries *canaries, const struct weir_tables *tables,
	uint16_t backend, const struct weir_canary_plan *plan, uint64_t *ret_others, char *why,
	size_t why_bytes);
// Save what has changed. published: as above. Returns 0 or negative errno (logged, and retried).
int weir_canaries_save(struct weir_canaries *canaries, bool published);
// Start what was checked. Replaces an ended canary of the service. Returns 0 or negative errno
// (nothing changed): not saved.
int weir_canaries_start(struct weir_canaries *canaries, struct weir_tables *tables,
	uint16_t backend, const struct weir_canary_plan *plan, const struct weir_audit_who *who);
// End the running canary of a service for an operator: promote it, roll it back, or (STOPPED) leave
// its weight. Publish, and save, afterwards. Returns 0 or -ENOENT.
int weir_canaries_stop(
	struct weir_canaries *canaries, const char *service, enum weir_canary_state state);
// An operator sets the weight of a backend: forget its ended canary. Returns false, without a
// change, if its canary runs.
bool weir_canaries_let_go(struct weir_canaries *canaries, const char *service, const char *backend);

// Whether the file could not be written since the last change: a restart would undo it.
bool weir_canaries_are_unsaved(const struct weir_canaries *canaries);
uint32_t weir_canaries_count(const struct weir_canaries *canaries);
const struct weir_canary *weir_canaries_at(const struct weir_canaries *canaries, uint32_t i);
// The canary of a service, or NULL.
const struct weir_canary *weir_canaries_find(
	const struct weir_canaries *canaries, const char *service);
bool weir_canary_is_running(const struct weir_canary *canary);
// The state of the canary that keeps the weight of a backend, also through a reload with another
// configured one; NULL = none does. canaries: a struct weir_canaries.
const char *weir_canaries_keeping(const void *canaries, const char *service, const char *backend);
// "running", "paused", "promoted", "rolled-back" or "stopped".
const char *weir_canary_state_text(const struct weir_canary *canary);
// For the audit: "step 2 of 4, 5 %, weight 15", or its end. Returns buffer.
const char *weir_canary_describe(const struct weir_canary *canary, char *buffer, size_t bytes);
