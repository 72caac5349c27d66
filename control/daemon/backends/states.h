// SPDX-License-Identifier: BSD-3-Clause
//
// States: determines the health of every backend from checks, reports and operators. Only this
// module writes the health to the tables. Logs and records each change. policy/health_state.h
// computes the state from the facts; docs/guide/health.md explains the states.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "changes.h"
#include "config.h"
#include "health_state.h"
#include "log.h"
#include "tables.h"

#define WEIR_STATES_WHY_BYTES 96

struct weir_states;

// Called when a state in the tables has changed and must be published.
typedef void (*weir_states_changed)(void *context);

// Called when a backend with checks is no longer announced as down. Its server may have been
// restarted, so a PASSING verdict was changed to UNKNOWN, and the checks must start again.
typedef void (*weir_states_recheck)(void *context, uint16_t backend);

// Called when the state of a backend changes. Strings are valid only during the call.
struct weir_states_transition {
	uint16_t id;
	const char *service, *backend;
	const struct weir_address *address;
	enum weir_health_state from, to;
	const char *why;
};
typedef void (*weir_states_moved)(void *context, const struct weir_states_transition *transition);

struct weir_states_status {
	struct weir_health_facts facts;
	enum weir_health_state state;
	// time in this state, at most the time since this process added the backend
	uint64_t since_ms;
	// Reason of the last change, valid until the next change; "" = no change since this process
	// was started or the backend was added.
	const char *why;
};

// Returns 0 or -ENOMEM.
int weir_states_create(
	struct weir_log *log, weir_states_changed changed, void *context, struct weir_states **ret);
void weir_states_free(struct weir_states *states); // NULL is allowed
// Sets the callback that starts the checks again; the callback gets the context of
// weir_states_create.
void weir_states_on_recheck(struct weir_states *states, weir_states_recheck recheck);

// Sets the callback for changes of states; the callback gets the context of weir_states_create.
void weir_states_on_moved(struct weir_states *states, weir_states_moved moved);

// Replaces all backends with the backends of this configuration and these tables. Backends that are
// still configured, with the same address, keep their facts, unless a health check was added or
// removed. The facts of other backends are derived from the state in the tables. A backend that has
// got another id, because of a restart of the dataplane, keeps the age and the reason of its state.
// tables: borrowed until the next call. Returns 0 or -ENOMEM (nothing changed).
int weir_states_configure(
	struct weir_states *states, struct weir_tables *tables, const struct weir_config *config);

// Sets the verdict of a backend's checks, which may be the same verdict as before. why: one line.
// Does nothing for an unused id.
void weir_states_set_verdict(struct weir_states *states, uint16_t backend,
	enum weir_health_verdict verdict, const char *why);

// Sets the announced state of the backend, which may be the same state as before. source: up to 15
// characters. Does nothing for an unused id.
void weir_states_set_word(struct weir_states *states, uint16_t backend, enum weir_health_word word,
	const char *source, const char *why);

// Call when the announced state of the backend has expired without a new report. The state lame
// duck does not expire. Does nothing for an unused id.
void weir_states_expire(struct weir_states *states, uint16_t backend, const char *source);

// Record an event of the backend that does not change its health. Does nothing for an unused id.
void weir_states_record(
	struct weir_states *states, uint16_t backend, const char *source, const char *why);

// Record an event of a service, by the service's name.
void weir_states_record_service(
	struct weir_states *states, const char *service, const char *source, const char *why);

// Sets whether the backend's next hop is resolved. The value may be the same as before. why: one
// line if the next hop is unresolved. Changes are recorded, except the first resolution. Does
// nothing for an unused id.
void weir_states_next_hop(
	struct weir_states *states, uint16_t backend, bool resolved, const char *why);

// Returns 0, -ENOENT (no backend with this id).
int weir_states_status(
	const struct weir_states *states, uint16_t backend, struct weir_states_status *ret);

// Gets the n-th most recent change or event; n = 0 is the last one. Returns false if there is no
// such change or event.
bool weir_states_history(
	const struct weir_states *states, uint32_t n, struct weir_states_change *ret);

// Returns the number of changes and events of a service that are no longer kept if no later one is
// kept; otherwise 0. 0 unless there are more services than WEIR_STATES_HISTORY.
uint64_t weir_states_history_lost(const struct weir_states *states, const char *service);
