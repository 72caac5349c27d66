// SPDX-License-Identifier: BSD-3-Clause
// Declarations that the files of the canaries share: canary.c (the list of canaries and its file,
// the end of a canary, commands of operators) and canary_run.c (called once a second: weights,
// pauses, the judge).
//
// Threads: the thread of the loop.
#pragma once

#include "canary.h"

struct weir_canaries {
	struct weir_canaries_of of;
	struct weir_tables *tables; // NULL until the first weir_canaries_follow
	struct weir_canary *canary; // [count]
	uint32_t count;
	bool unsaved; // the file does not contain the last changes of the canaries yet
	bool save_failed; // writing the file has failed, and the failure was logged
	bool changed; // the tables must be published
	uint64_t second_ms; // time of the last weir_canaries_second; 0 = none yet
};

// canary.c: logs an event of a canary, and adds it to the health history of its backend.
void weir_canary_note(const struct weir_canaries *canaries, const struct weir_canary *canary,
	enum weir_log_level level, const char *format, ...) __attribute__((format(printf, 4, 5)));
// canary.c: sets the run-time weight of a canary's backend, and stores the weight in the canary.
void weir_canary_set_weight(
	struct weir_canaries *canaries, struct weir_canary *canary, uint32_t weight);
// canary.c: sets the weight of a canary's backend so that it gets the share of the current step.
// exact: if false, a weight whose share is close enough is kept, because each change of a weight
// rebuilds the selection of the service.
void weir_canary_set_share(struct weir_canaries *canaries, struct weir_canary *canary, bool exact);
// canary.c: promotes a canary or rolls it back without a command of an operator. why: the reason.
void weir_canary_end(struct weir_canaries *canaries, struct weir_canary *canary,
	enum weir_canary_state state, const char *why);
// canary.c: checks whether a service can have a canary. Returns NULL if it can, or if the id is not
// known. Otherwise writes the reason to why, and returns why.
const char *weir_canary_misfit(
	const struct weir_tables *tables, int service, char *why, size_t why_bytes);
// canary.c: looks up the ids of a canary's service and backend, which may have changed. If the
// backend has another id, the step begins again.
void weir_canary_find_ids(const struct weir_tables *tables, struct weir_canary *canary);
