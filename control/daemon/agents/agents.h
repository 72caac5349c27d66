// SPDX-License-Identifier: BSD-3-Clause
//
// Agents: asks the weir-agents of backends how they are, in datagrams (agent_message.h), and hears
// what they say unasked. One UDP socket for each family, whatever the number of agents.
//
// Probes of an agent are spread over its interval, each a little earlier than the interval says.
// An agent none of whose backends is active is probed at the inactive interval, once a few probes
// in a row ended alike. An answer is taken only if it is authentic, comes from the address that was
// asked, is addressed to who asked there, and has a challenge of one of the last two probes to that
// agent, each of which is answered once; an unasked one only if its word is newer than the last.
// Everything else is counted under a name and changes nothing.
//
// Backends with the same address and port have one agent: it is asked once for all of them. A
// server with several addresses is asked at each, as if by another balancer: each is a way that may
// fail.
//
// An agent can also be asked whether a TCP flow, which its backend may not have let in yet, may be
// moved (a steal). Each request has an id and is sent once. The first authentic answer in time, to
// that id, about that flow and from that process of the agent, is taken; without one the answer is
// no.
//
// Threads: one, that of the loop. No globals, no logging: callbacks report. No function calls back;
// callbacks come from the loop alone.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent_keys.h"
#include "agent_message.h"
#include "config.h"
#include "report.h"

#define WEIR_AGENTS_BACKENDS_MAX 65535u // ids are below
#define WEIR_AGENTS_DETAIL_BYTES 96
#define WEIR_AGENTS_STEALS_MAX 256u // in flight at a time, of all agents
#define WEIR_AGENTS_STEAL_HEARD_MS 60000u // an agent that was heard last before that is not asked

struct weir_agents;

enum weir_agents_outcome {
	WEIR_AGENTS_ANSWERED,
	WEIR_AGENTS_SILENT, // no answer within the timeout, or the network says that there is none
	WEIR_AGENTS_UNKNOWN, // this host could not even ask
};

struct weir_agents_steal { // whether this TCP flow may leave this backend
	uint16_t backend; // id; its agent is asked
	uint16_t client_port, vip_port; // host order
	struct weir_address client, vip; // as in the client's packets; of one family
	uint32_t timeout_ms; // 1 to WEIR_AGENT_STEAL_AHEAD_MS
	uint64_t token; // the caller's: comes back as it is
};

// How a request has ended. steal: as it was asked, valid during the call. result: the agent's, or
// WEIR_AGENT_STEAL_NO_RESULT (no answer in time, which means no).
typedef void (*weir_agents_steal_ended)(void *context, const struct weir_agents_steal *steal,
	enum weir_agent_steal_result result, uint32_t duration_ms);

// None of them may configure or free.
struct weir_agents_events {
	// An answer was taken, asked for or not.
	void (*report)(void *context, uint16_t backend, const struct weir_report *report);
	// A probe has ended. detail: one line.
	void (*probed)(void *context, uint16_t backend, enum weir_agents_outcome outcome,
		const char *detail, uint32_t duration_ms);
	// WEIR_AGENT_SILENT_PROBES in a row were not answered, after one that was.
	void (*gone)(void *context, uint16_t backend);
	void *context;
};

struct weir_agents_target {
	uint16_t backend; // id; at most one target each
	uint16_t port; // host order
	struct weir_address address;
	uint32_t interval_ms, inactive_interval_ms, timeout_ms;
	uint32_t settled; // probes in a row that end alike before it may be asked less often
	uint32_t wants; // WEIR_REPORT(...)
};

struct weir_agents_status { // of the agent of a backend
	bool answers; // the last probe was answered
	bool heard; // some was
	uint64_t interval_ms; // between probes, now
	uint64_t age_ms; // since the last answer that was taken, if heard
	uint64_t agent; // number of its process, if heard
	uint32_t serial; // of its word
	uint32_t streak; // probes in a row that ended as the last
	uint64_t probes, answered; // since it was configured
};

struct weir_agents_counts { // since the start of this process
	uint64_t agents; // that are asked now
	uint64_t probes;
	uint64_t answers; // taken, those unasked as well
	uint64_t unasked; // of them
	uint64_t silent; // probes without an answer in time
	uint64_t dropped_fields; // of answers, with values that cannot be
	uint64_t late_ms; // the latest start of a probe
	uint64_t steals; // steal requests
	// How they ended; NO_RESULT: no answer in time. The sum is `steals` but for those in
	// flight.
	uint64_t steal_results[WEIR_AGENT_STEAL_RESULT_COUNT];
	uint64_t refused[WEIR_AGENT_REFUSAL_COUNT];
};

// events: copied. Returns 0 or negative errno. The loop must outlive the handles: after
// weir_agents_free, run it until uv_run returns 0.
int weir_agents_create(
	uv_loop_t *loop, const struct weir_agents_events *events, struct weir_agents **ret);

// The keys from now on; copied. Without any nobody is asked.
void weir_agents_set_keys(struct weir_agents *agents, const struct weir_agent_keys *keys);

// The agents of these backends and no others. What is known of an agent that stays is kept. All or
// nothing. Returns 0, -EINVAL (a backend twice, an interval of 0, ...), -ENOMEM, or the negative
// errno of opening a socket.
int weir_agents_configure(
	struct weir_agents *agents, const struct weir_agents_target *targets, uint32_t n);

// Whether a backend has flows; it has not at first. Nothing for one without an agent.
void weir_agents_set_active(struct weir_agents *agents, uint16_t backend, bool active);

// The fields that are asked for, for a backend, until the next configure. An agent that is to
// measure more than before is told within an interval, and goes on being asked at the interval of
// one with flows until it can have measured that. Nothing for a backend without an agent.
void weir_agents_set_wants(struct weir_agents *agents, uint16_t backend, uint32_t wants);

// Ask the agent of a backend whether a flow may be moved; copied. It is sent in the next turn of
// the loop, and weir_agents_steal_ended comes once, after timeout_ms at the latest (later if the
// loop is busy). Returns 0, -EINVAL (families, ports, timeout_ms), -ENOENT (no agent), -ENOKEY (no
// keys), -EAGAIN (the agent did not answer the last probe, or was not heard for
// WEIR_AGENTS_STEAL_HEARD_MS), -EALREADY (it is asked about this flow), -EBUSY
// (WEIR_AGENTS_STEALS_MAX are in flight).
int weir_agents_ask_steal(struct weir_agents *agents, const struct weir_agents_steal *steal);
// Who is called at the end of each request that was taken. May ask again. Before the first request.
void weir_agents_on_steal_ended(
	struct weir_agents *agents, weir_agents_steal_ended ended, void *context);
uint32_t weir_agents_steals_in_flight(const struct weir_agents *agents);

// Returns 0, -ENOENT (no agent).
int weir_agents_status(
	const struct weir_agents *agents, uint16_t backend, struct weir_agents_status *ret);
struct weir_agents_counts weir_agents_counts(const struct weir_agents *agents);

// No callback comes any more; handles close in the next iterations of the loop. NULL is fine.
void weir_agents_free(struct weir_agents *agents);
