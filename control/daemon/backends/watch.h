// SPDX-License-Identifier: BSD-3-Clause
//
// Watch: joins the tables with what is watched for them: health checks, neighbours and the steer
// programs' VIP maps. Those modules know addresses and ids; this one knows which belong together,
// and logs changes of backends.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "agents.h"
#include "data_path_tunnel.h"
#include "handover.h"
#include "health.h"
#include "log.h"
#include "path_mtu.h"
#include "reports.h"
#include "states.h"
#include "tables.h"
#include "watch_agents.h"

struct weir_watch;

// A state in the tables was changed and is to be published.
typedef void (*weir_watch_changed)(void *context);

// estimates: borrowed; told what backends report. Returns 0 or negative errno.
int weir_watch_create(uv_loop_t *loop, struct weir_log *log, struct weir_estimates *estimates,
	weir_watch_changed changed, void *context, struct weir_watch **ret);
// Take the path MTU of backends from these sockets, which are the watch's from here on.
void weir_watch_listen(struct weir_watch *watch, struct weir_path_mtu_sockets *sockets);
// Send health checks via the data path by this tunnel, which is the watch's from here on. Returns 0
// or negative errno.
int weir_watch_set_data_path(struct weir_watch *watch, struct weir_data_path_tunnel *tunnel);
// Memory is released by the loop's next iterations. NULL is fine.
void weir_watch_free(struct weir_watch *watch);

// Watch what this configuration and these tables hold, over the ports of the tables' segment (the
// former ones while there is none). After each weir_tables_apply and each new segment.
// tables: borrowed until the next call. Returns 0 or negative errno (logged).
int weir_watch_configure(
	struct weir_watch *watch, struct weir_tables *tables, const struct weir_config *config);

// Ask agents for what the estimates have a use for now. After each weir_estimates_follow.
void weir_watch_follow(struct weir_watch *watch);

// Check the backends that are not about to be used at a slower pace, as the tables say who they
// are. After each publication, and now and then for what only a tick published.
void weir_watch_pace(struct weir_watch *watch);

// Once a second: look which backends have flows, and forget reports that have expired.
void weir_watch_second(struct weir_watch *watch);

// An operator overrules what a backend has said of itself: it is forgotten. What the backend says
// from then on counts. why: one line.
void weir_watch_overrule(struct weir_watch *watch, uint16_t backend, const char *why);

// Check nothing until the next configure: the ids of the tables are others than they were.
void weir_watch_forget(struct weir_watch *watch);

// Why the VIP maps are not as the configuration says, or NULL: they are, or there are none.
const char *weir_watch_unsteered(const struct weir_watch *watch);

// Bring the VIP maps of the steered ports to the configuration, after its tables were published.
// A failure is logged and is to be tried again. Returns 0 or negative errno.
int weir_watch_steer(struct weir_watch *watch, const struct weir_handover *handover,
	const struct weir_config *config);

// Where to tell what is heard of a backend's health, and to ask for it.
struct weir_states *weir_watch_states(struct weir_watch *watch);

// Where to hand what a backend says of itself, and to ask for it.
struct weir_reports *weir_watch_reports(struct weir_watch *watch);

// As weir_watch_agents_look.
uint32_t weir_watch_look(struct weir_watch *watch, uint16_t service);

// As weir_watch_agents_tell_steals and weir_watch_agents_ask_steal.
void weir_watch_tell_steals(struct weir_watch *watch, weir_watch_steal_ended ended, void *context);
int weir_watch_ask_steal(struct weir_watch *watch, const struct weir_agents_steal *steal);

// The agents of backends.
const struct weir_agents *weir_watch_agents(const struct weir_watch *watch);

// As weir_health_status.
int weir_watch_health(const struct weir_watch *watch, uint16_t backend, bool beside,
	struct weir_health_status *ret);
