// SPDX-License-Identifier: BSD-3-Clause
//
// States: the health of every backend, from checks, reports and operators. Only this module writes
// it to the tables. Each change is logged and recorded.
//
// policy/health_state.h computes the state from the facts; docs/guide/health.md explains it.
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
#define WEIR_STATES_EVENT_BYTES 320 // of an event of a service, which may name binds
#define WEIR_STATES_HISTORY 1024u // changes kept, of all backends

struct weir_states;

// A state in the tables changed and must be published.
typedef void (*weir_states_changed)(void *context);

// The word of a backend with checks was DOWN and is no longer: its server may have been started
// again, and earlier checks do not count. Its verdict is no longer PASSING.
typedef void (*weir_states_recheck)(void *context, uint16_t backend);

struct weir_states_status {
	struct weir_health_facts facts;
	enum weir_health_state state;
	uint64_t since_ms; // time in this state, limited to the life of this process
	const char *why; // reason of the last change; "" = none since the start
};

struct weir_states_change {
	uint64_t time_ms; // since 1970
	char service[WEIR_NAME_BYTES];
	char backend[WEIR_NAME_BYTES]; // "": an event of the service
	enum weir_health_state from, to; // equal: an event without a change of state
	char source[16]; // of the change: "check", ...
	char why[WEIR_STATES_EVENT_BYTES];
};

// Returns 0 or -ENOMEM.
int weir_states_create(
	struct weir_log *log, weir_states_changed changed, void *context, struct weir_states **ret);
void weir_states_free(struct weir_states *states); // NULL is allowed
// Set the callback for the checks to begin again; it has the context of weir_states_create.
void weir_states_on_recheck(struct weir_states *states, weir_states_recheck recheck);

// Set the backends: those of this configuration and these tables. The facts of backends that stay
// are kept; those of new ones are derived from the state in the tables. tables: borrowed until the
// next call. Returns 0 or -ENOMEM (nothing changed).
int weir_states_configure(
	struct weir_states *states, struct weir_tables *tables, const struct weir_config *config);

// Set the verdict of a backend's checks, which may be unchanged. why: one line. Does nothing for an
// unused id.
void weir_states_set_verdict(struct weir_states *states, uint16_t backend,
	enum weir_health_verdict verdict, const char *why);

// Set the word of the backend, which may be unchanged. source: up to 15 characters.
void weir_states_set_word(struct weir_states *states, uint16_t backend, enum weir_health_word word,
	const char *source, const char *why);

// The word of the backend expired without a new report.
void weir_states_expire(struct weir_states *states, uint16_t backend, const char *source);

// Record an event of the backend that does not change its health. Does nothing for an unused id.
void weir_states_record(
	struct weir_states *states, uint16_t backend, const char *source, const char *why);

// The same for a service, by its name.
void weir_states_record_service(
	struct weir_states *states, const char *service, const char *source, const char *why);

// Set whether its next hop is resolved, which may be unchanged; why: one line if not. Changes are
// recorded, except the first resolution.
void weir_states_next_hop(
	struct weir_states *states, uint16_t backend, bool resolved, const char *why);

// Returns 0, -ENOENT (no such backend).
int weir_states_status(
	const struct weir_states *states, uint16_t backend, struct weir_states_status *ret);

// The n-th last change, counted from 0. Returns false if there is none.
bool weir_states_history(
	const struct weir_states *states, uint32_t n, struct weir_states_change *ret);
