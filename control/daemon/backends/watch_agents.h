// SPDX-License-Identifier: BSD-3-Clause
//
// The part of watch.c that has to do with weir-agents: who is asked, with which keys and how often,
// and what becomes of the answers.
//
// A backend is active while it has flows, and for one inactive interval after it had any.
//
// Threads: one, that of the loop.
#pragma once

#include <uv.h>

#include "agents.h"
#include "config.h"
#include "health.h"
#include "log.h"
#include "reports.h"
#include "tables.h"

struct weir_watch_agents;

// health, reports: borrowed. Returns 0 or negative errno.
int weir_watch_agents_create(uv_loop_t *loop, struct weir_log *log, struct weir_health *health,
	struct weir_reports *reports, struct weir_watch_agents **ret);
void weir_watch_agents_free(struct weir_watch_agents *watch); // NULL is fine

// Ask the agents of this configuration, and read the keys again (a failure is logged, and the
// former ones stay). After the health checks were configured. tables: borrowed until the next call.
// Returns 0 or negative errno.
int weir_watch_agents_configure(struct weir_watch_agents *watch, struct weir_tables *tables,
	const struct weir_config *config);
// Ask for what is of use now: policies, or what they use, may have changed.
void weir_watch_agents_follow(struct weir_watch_agents *watch);
// Ask nobody until the next configure.
void weir_watch_agents_forget(struct weir_watch_agents *watch);

// Somebody looks at the utilization of a service's backends: ask their agents for it, for five
// minutes. Returns in how many milliseconds those that answer will have told it; 0 = they have, as
// far as they do, or the service has no agents.
uint32_t weir_watch_agents_look(struct weir_watch_agents *watch, uint16_t service);

// Once a second: look who has flows.
void weir_watch_agents_second(struct weir_watch_agents *watch);

// How a request to an agent about a flow has ended, as weir_agents_events.steal_ended.
typedef void (*weir_watch_steal_ended)(
	void *context, uint64_t token, enum weir_agent_steal_result result);
// Who is told, until the next call.
void weir_watch_agents_tell_steals(
	struct weir_watch_agents *watch, weir_watch_steal_ended ended, void *context);
// As weir_agents_ask_steal.
int weir_watch_agents_ask_steal(
	struct weir_watch_agents *watch, const struct weir_agents_steal *steal);

const struct weir_agents *weir_watch_agents_of(const struct weir_watch_agents *watch);
