// SPDX-License-Identifier: BSD-3-Clause
//
// Probed agents: selects the weir-agents to probe, their intervals, the keys, and the fields to
// request. Passes the answers to health and reports. A backend is active while it has flows, and
// for one inactive interval after its last flow.
//
// Threads: only the event loop's thread.
#pragma once

#include <uv.h>

#include "agents.h"
#include "config.h"
#include "health.h"
#include "log.h"
#include "reports.h"
#include "tables.h"
#include "tcp_report.h"

struct weir_probed_agents;

// State of the weir-agent of a backend. X(NAME, "name")
#define WEIR_AGENT_STATES(X) \
	X(NONE, "none") /* the service has no agents */ \
	X(NO_KEYS, "no-keys") /* weir-control has no keys: no agent is probed */ \
	X(STARTING, "starting") /* has not answered yet, and is not silent yet */ \
	X(ANSWERS, "answers") \
	X(SILENT, "silent") /* WEIR_AGENT_SILENT_PROBES probes in a row were not answered */

enum weir_agent_state {
#define X(name, key) WEIR_AGENT_##name,
	WEIR_AGENT_STATES(X)
#undef X
};

// health, reports: borrowed. excuse, excuse_context: called for unanswered probes, see struct
// weir_agents_events. Returns 0 or negative errno.
int weir_probed_agents_create(uv_loop_t *loop, struct weir_log *log, struct weir_health *health,
	struct weir_reports *reports, weir_health_excuse_fn excuse, void *excuse_context,
	struct weir_probed_agents **ret);
void weir_probed_agents_free(struct weir_probed_agents *probed); // NULL is allowed

// Probe the agents of this configuration, and reread the keys. Call after the health checks and the
// reports have been configured. tables: borrowed until the next call. Returns 0 or negative errno.
int weir_probed_agents_configure(struct weir_probed_agents *probed, struct weir_tables *tables,
	const struct weir_config *config);
// Reread the keys, if the configuration has agents. A failure is logged, and the previous keys stay
// in use.
void weir_probed_agents_read_keys(
	struct weir_probed_agents *probed, const struct weir_config *config);
// Returns why the last read of the keys failed, in one line that names the file. Returns NULL if
// the read succeeded, or if no service has agents. The text is valid until the next read.
const char *weir_probed_agents_keys_problem(const struct weir_probed_agents *probed);
// The result of the last read of the keys, compared with the previous keys.
struct weir_probed_agents_keys {
	bool read; // false: the read failed, or no service has agents
	uint32_t count;
	// Number of new keys: none of the previous keys has the same id and secret.
	uint32_t added;
	uint32_t removed;
};
struct weir_probed_agents_keys weir_probed_agents_keys(const struct weir_probed_agents *probed);
// Returns whether there are keys, from the last read or from an earlier read. Without keys no agent
// is probed.
bool weir_probed_agents_has_keys(const struct weir_probed_agents *probed);
// Updates the fields to request from agents. Call when the policy of a service, or the fields that
// a policy uses, may have changed.
void weir_probed_agents_update(struct weir_probed_agents *probed);
// Stops probing agents until the next weir_probed_agents_configure.
void weir_probed_agents_stop(struct weir_probed_agents *probed);

// Requests the utilization of a service's backends from their agents for five minutes, because an
// operator needs it. Returns the time in milliseconds until all agents that answer have reported.
// Returns 0 if they have reported already, if they report the utilization anyway, or if the service
// has no agents.
uint32_t weir_probed_agents_request_utilization(
	struct weir_probed_agents *probed, uint16_t service);

// Requests from the agent of a backend the values that are used to judge a canary. Call this
// function once a second while the canary runs: the request ends 10 s after the last call. Does
// nothing for a backend without an agent.
void weir_probed_agents_request_figures(struct weir_probed_agents *probed, uint16_t backend);

// Call once a second: finds the active and the idle backends, ends requests, and logs agents that
// become silent or answer again.
void weir_probed_agents_second(struct weir_probed_agents *probed);

// Returns the state of a backend's agent. *ret_age_ms: time since the agent's last answer;
// UINT64_MAX if it has not answered so far.
enum weir_agent_state weir_probed_agents_state(
	const struct weir_probed_agents *probed, uint16_t backend, uint64_t *ret_age_ms);

// Gets the TCP statistics of a backend. Returns 0; -ENOENT if no statistics are requested; or
// -EAGAIN if no statistics have arrived, or the last statistics arrived longer ago than four times
// inactive_interval_ms.
int weir_probed_agents_tcp(
	const struct weir_probed_agents *probed, uint16_t backend, struct weir_tcp_status *ret);

struct weir_agents *weir_probed_agents_of(const struct weir_probed_agents *probed);
