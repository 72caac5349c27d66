// SPDX-License-Identifier: BSD-3-Clause
//
// Asked agents: which weir-agents are asked, with which keys, for what and how often, and what
// becomes of their answers.
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

struct weir_asked_agents;

// health, reports: borrowed. Returns 0 or negative errno.
int weir_asked_agents_create(uv_loop_t *loop, struct weir_log *log, struct weir_health *health,
	struct weir_reports *reports, struct weir_asked_agents **ret);
void weir_asked_agents_free(struct weir_asked_agents *asked); // NULL is fine

// Ask the agents of this configuration, and read the keys again (a failure is logged, and the
// former ones stay). After the health checks were configured. tables: borrowed until the next call.
// Returns 0 or negative errno.
int weir_asked_agents_configure(struct weir_asked_agents *asked, struct weir_tables *tables,
	const struct weir_config *config);
// Ask for what is of use now: policies, or what they use, may have changed.
void weir_asked_agents_follow(struct weir_asked_agents *asked);
// Ask no agent until the next configure.
void weir_asked_agents_forget(struct weir_asked_agents *asked);

// An operator looks at the utilization of a service's backends: ask their agents for it, for five
// minutes. Returns in how many milliseconds those that answer will have reported it; 0 = they have,
// as far as they do, or the service has no agents.
uint32_t weir_asked_agents_look(struct weir_asked_agents *asked, uint16_t service);

// Once a second: look who has flows.
void weir_asked_agents_second(struct weir_asked_agents *asked);

struct weir_agents *weir_asked_agents_of(const struct weir_asked_agents *asked);
