// SPDX-License-Identifier: BSD-3-Clause
//
// States: the health of every backend, from checks, reports and operators. Only this module writes
// it to the tables. Each change is logged and recorded.
//
// The state follows from the facts as policy/health_state.h says; docs/guide/health.md explains it.
//
// Threads: that of the loop.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "health_state.h"
#include "log.h"
#include "tables.h"

#define WEIR_STATES_WHY_BYTES 96
#define WEIR_STATES_HISTORY 1024u // changes that are remembered, of all backends

struct weir_states;

// A state in the tables was changed and is to be published.
typedef void (*weir_states_changed)(void *context);

struct weir_states_status {
	struct weir_health_facts facts;
	enum weir_health_state state;
	uint64_t since_ms; // how long it has been in this state, since this process started at most
	const char *why; // what changed the state last; "" = nothing since the start
};

struct weir_states_change {
	uint64_t time_ms; // of the day, since 1970
	char service[WEIR_NAME_BYTES];
	char backend[WEIR_NAME_BYTES];
	enum weir_health_state from, to; // the same: something else has changed
	char source[16]; // of the change: "check", ...
	char why[WEIR_STATES_WHY_BYTES];
};

// Returns 0 or -ENOMEM.
int weir_states_create(
	struct weir_log *log, weir_states_changed changed, void *context, struct weir_states **ret);
void weir_states_free(struct weir_states *states); // NULL is fine

// The backends of this configuration and these tables, and no others. What is known of those that
// stay is kept; of the others the state in the tables is all that is known. tables: borrowed until
// the next call. Returns 0 or -ENOMEM (nothing changed).
int weir_states_configure(
	struct weir_states *states, struct weir_tables *tables, const struct weir_config *config);

// The verdict of its checks, new or repeated. why: one line. Nothing for an id that no backend has.
void weir_states_judge(struct weir_states *states, uint16_t backend,
	enum weir_health_verdict verdict, const char *why);

// The word of the backend, new or repeated. source: how it came, up to 15 characters.
void weir_states_say(struct weir_states *states, uint16_t backend, enum weir_health_word word,
	const char *source, const char *why);

// No report came before the word of the backend expired.
void weir_states_expire(struct weir_states *states, uint16_t backend, const char *source);

// An event of the backend that does not concern its health: record it alongside.
// Nothing for an id that no backend has.
void weir_states_note(
	struct weir_states *states, uint16_t backend, const char *source, const char *why);

// Its next hop is resolved or not, as it may have been before; why: one line if not. A change is
// remembered, but not that the first one was found.
void weir_states_next_hop(
	struct weir_states *states, uint16_t backend, bool resolved, const char *why);

// Returns 0, -ENOENT (no such backend).
int weir_states_status(
	const struct weir_states *states, uint16_t backend, struct weir_states_status *ret);

// The n-th last change, counted from 0. False: no more are remembered.
bool weir_states_history(
	const struct weir_states *states, uint32_t n, struct weir_states_change *ret);
