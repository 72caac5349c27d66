// SPDX-License-Identifier: BSD-3-Clause
//
// Agents: probes the weir-agents of backends with datagrams (agent_message.h), and receives
// solicited and unsolicited answers. There is one UDP socket for each address family, regardless of
// the number of agents.
//
// The first probes of agents are spread over time. Each later probe is sent up to 1/16 of the
// interval early, by a random time, but not before the timeout of the previous probe. An agent
// whose backends have no flows is probed at the longer inactive interval after `settled`
// consecutive probes have had the same outcome. Backends with the same address and port share one
// agent, which is probed once for all of them: at the shortest interval, with the longest timeout,
// but at most this interval. A server with several addresses is probed at each address, because
// each address is a path that can fail. Each address has its own balancer ID.
//
// An answer is accepted only if it is authentic, comes from the address that was probed, contains
// the balancer ID of the prober, and has the challenge of one of the last two probes to the agent.
// A solicited answer, or an answer from a different agent process than the last answer, is accepted
// only if neither this probe nor a later probe was answered before. Any other unsolicited answer is
// accepted only if it announces a newer state than the last announced state. Unsolicited answers
// are also refused while new states arrive too often. Refused datagrams are counted by reason. A
// refused answer that repeats the last announced state can cause an extra probe. Other refused
// datagrams change nothing.
//
// A steal request requests permission from an agent to move a TCP flow that the backend has
// possibly not accepted yet. Each request has an id and is sent once. An answer is accepted if it
// arrives in time, is the first authentic answer with the id and the flow of the request, and comes
// from the agent process that the request names. Without such an answer the flow is not moved.
//
// A shed order makes an agent end connections. The order is sent repeatedly until an answer reports
// that the order is over, or until WEIR_AGENTS_SHED_LATE_MS after its deadline. An agent that
// receives an order again only repeats its answer.
//
// Threads: only the event loop's thread. No globals and no logging: events are reported through
// callbacks. The callbacks are called from the event loop, never during a call of a function below.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "agent_keys.h"
#include "agent_message.h"
#include "config.h"
#include "report.h"

#define WEIR_AGENTS_BACKENDS_MAX 65535u // backend ids are below this
#define WEIR_AGENTS_DETAIL_BYTES 96
// maximum number of steal requests in flight, to all agents together
#define WEIR_AGENTS_STEALS_MAX 256u
// A steal request or shed order is refused if the agent's last accepted answer is older than this.
#define WEIR_AGENTS_STEAL_ANSWER_MS 60000u

struct weir_agents;

enum weir_agents_outcome {
	WEIR_AGENTS_ANSWERED,
	// No answer within the timeout, or a network error.
	WEIR_AGENTS_SILENT,
	// This host could not send the probe, has no key, or had no link to the agent (see excuse).
	WEIR_AGENTS_UNKNOWN,
};

struct weir_agents_steal { // request: may this TCP flow be moved from this backend?
	uint16_t backend; // backend id; the request is sent to the backend's agent
	uint16_t client_port, vip_port; // host order
	struct weir_address client,
		vip; // addresses in the client's packets; both have the same family
	uint32_t timeout_ms; // 1 to WEIR_AGENT_STEAL_AHEAD_MS
	uint64_t token; // chosen by the caller, and returned unchanged with the result
};

// Called at the end of a request. steal: the request, valid during the call. result: the agent's
// result, or WEIR_AGENT_STEAL_NO_RESULT if the request could not be sent, no answer arrived in
// time, or the agent is no longer configured. With NO_RESULT, the flow must not be moved.
typedef void (*weir_agents_steal_ended)(void *context, const struct weir_agents_steal *steal,
	enum weir_agent_steal_result result, uint32_t duration_ms);

#define WEIR_AGENTS_SHEDS_MAX 64u // maximum number of shed orders in flight, to all agents together
#define WEIR_AGENTS_SHED_AGAIN_MS 250u // time after which an order is sent again
// An answer is accepted until this time after the deadline of its order.
#define WEIR_AGENTS_SHED_LATE_MS 500u

struct weir_agents_shed { // order: end some connections of this backend
	uint16_t backend; // backend id; the order is sent to the backend's agent
	uint32_t duration_ms; // time after which the order ends; 1 to WEIR_AGENT_STEAL_AHEAD_MS
	// See struct weir_agent_shed.
	uint32_t count, rate_milli_per_s, keep, idle_ms;
	char service[WEIR_CONFIG_NAME_BYTES]; // truncated in the message to the agent
	uint8_t bind_count;
	struct weir_agent_shed_bind binds[WEIR_AGENT_SHED_BINDS];
};

struct weir_agents_shed_result {
	// At least one answer was accepted. `result` to `leaving` are from the last accepted
	// answer.
	bool answered;
	bool over; // the last answer reports that the order has ended
	enum weir_agent_shed_result result;
	enum weir_agent_shed_method method;
	// See struct weir_agent_shed_answer. 0 if the agent has not counted its connections.
	uint32_t connections, candidates, leaving;
	// Number of connections that the agent has ended, or passed to its hook. If no answer has
	// reported that the order has ended, or if the last answer was LATE, the number is the
	// `count` of the order, because the agent may have ended that many connections.
	uint32_t ended;
};

// Called once for each order: when an answer reports its end, WEIR_AGENTS_SHED_LATE_MS after its
// deadline, or when the agent is no longer configured. The callback may call
// weir_agents_order_shed.
typedef void (*weir_agents_shed_ended)(void *context, const struct weir_agents_shed *order,
	const struct weir_agents_shed_result *result);

// Callbacks of this module. They must not call weir_agents_configure or weir_agents_free.
struct weir_agents_events {
	// Called when a solicited or unsolicited answer was accepted, unless the same agent process
	// sent another accepted answer later.
	void (*report)(void *context, uint16_t backend, const struct weir_report *report);
	// Called when TCP statistics were accepted for a backend that requests them in `wants`.
	// NULL = TCP statistics are ignored.
	void (*tcp)(void *context, uint16_t backend, const struct weir_agent_tcp *tcp);
	// Called when a probe has ended. detail: describes the outcome in one line.
	void (*probed)(void *context, uint16_t backend, enum weir_agents_outcome outcome,
		const char *detail, uint32_t duration_ms);
	// Called for one of the agent's backends before a probe ends as SILENT. If this host had no
	// link to the agent, returns true and sets `why`: the probe then ends as UNKNOWN, with
	// `why` as its detail. NULL = never true.
	bool (*excuse)(void *context, uint16_t backend, uint64_t took_ms, uint32_t timeout_ms,
		char *why, size_t bytes);
	// Called once for each of an agent's backends when WEIR_AGENT_SILENT_PROBES consecutive
	// probes of the agent were not answered, if the agent has answered a probe before, or if
	// one of its backends has moved to it from another agent. Called again only after another
	// answered probe or move.
	void (*lost)(void *context, uint16_t backend);
	void *context;
};

struct weir_agents_target {
	uint16_t backend; // backend id; at most one target per backend
	uint16_t port; // host order
	struct weir_address address;
	uint32_t interval_ms, inactive_interval_ms, timeout_ms;
	// The inactive interval is used after this number of consecutive probes with the same
	// outcome.
	uint32_t settled;
	uint32_t wants; // WEIR_REPORT(...), WEIR_AGENT_PORT_WORDS, WEIR_AGENT_TCP_FIGURES
};

struct weir_agents_status { // status of a backend's agent
	bool answers; // the last probe that ended was answered; UNKNOWN probes are ignored
	bool has_answer; // an answer was accepted
	uint64_t interval_ms; // current interval between probes
	uint64_t age_ms; // time since the last accepted answer, if has_answer
	uint64_t agent; // random number of the agent's process, if has_answer
	uint32_t serial; // serial number of the agent's announced state
	// number of consecutive probes with the outcome of the last probe, since the agent last got
	// a backend or weir_agents_hasten was called; UNKNOWN probes are ignored
	uint32_t streak;
	uint64_t probes, answered; // probes sent and answered since the agent was configured
};

struct weir_agents_counts { // counts since the start of this process
	uint64_t agents; // number of agents that are configured now
	uint64_t probes;
	uint64_t answers; // accepted answers, including unsolicited answers
	uint64_t unasked; // accepted unsolicited answers
	uint64_t silent; // probes that ended as SILENT
	uint64_t dropped_fields; // fields with invalid values in answers
	uint64_t late_ms; // maximum time by which a probe was sent too late
	uint64_t steals; // number of steal requests
	// Number of steal requests by result. NO_RESULT counts requests that ended without an
	// accepted answer. The sum is `steals` minus the requests in flight.
	uint64_t steal_results[WEIR_AGENT_STEAL_RESULT_COUNT];
	uint64_t refused[WEIR_AGENT_REFUSAL_COUNT];
};

// Create without agents. events: copied. loop: must outlive the handles: after weir_agents_free,
// run the loop until uv_run returns 0. Returns 0 or negative errno.
int weir_agents_create(
	uv_loop_t *loop, const struct weir_agents_events *events, struct weir_agents **ret);

// Sets the keys for the messages to and from agents. keys: copied. Without keys no agent is probed.
void weir_agents_set_keys(struct weir_agents *agents, const struct weir_agent_keys *keys);

// Probe the agents of these backends, and no longer probe other agents. Agents that were already
// configured keep their state. Returns 0, -EINVAL (duplicate backend, an interval of 0, ...),
// -ENOMEM, or the negative errno of opening a socket. After an error, the agents are unchanged.
int weir_agents_configure(
	struct weir_agents *agents, const struct weir_agents_target *targets, uint32_t n);

// Set whether a backend has flows. A backend is treated as having no flows until this function is
// called, and again after weir_agents_configure has changed the agent of the backend. Does nothing
// for a backend without an agent.
void weir_agents_set_active(struct weir_agents *agents, uint16_t backend, bool active);

// Set the fields to request for a backend, until the next call of weir_agents_configure. Additional
// fields are requested within an interval. Until the agent has had time to measure these fields, it
// is probed at the interval of a backend with flows. Does nothing for a backend without an agent.
void weir_agents_set_wants(struct weir_agents *agents, uint16_t backend, uint32_t wants);

// Probe the agent of a backend at the interval of a backend with flows, until `settled` consecutive
// probes have had the same outcome. Does nothing for a backend without an agent.
void weir_agents_hasten(struct weir_agents *agents, uint16_t backend);

// Requests permission from the agent of a backend to move a flow. steal: copied. The request is
// sent in the next iteration of the loop. The callback weir_agents_steal_ended is called once,
// after timeout_ms at the latest (later if the loop is busy). Returns 0, -EINVAL (families, ports
// or timeout_ms), -ENOENT (no agent), -ENOKEY (no keys), or
//  -EAGAIN    the last probe was not answered, or no answer came for WEIR_AGENTS_STEAL_ANSWER_MS
//  -EALREADY  a request for this flow is in flight
//  -EBUSY     WEIR_AGENTS_STEALS_MAX requests are in flight
int weir_agents_request_steal(struct weir_agents *agents, const struct weir_agents_steal *steal);
// Set the callback for the end of each steal request. Call this function before the first request.
// The callback may send further requests.
void weir_agents_on_steal_ended(
	struct weir_agents *agents, weir_agents_steal_ended ended, void *context);

// Orders the agent of a backend to end connections. order: copied. The order is sent in the next
// iteration of the loop. Returns 0, or the errors of weir_agents_request_steal, of which three
// differ: -EINVAL means that a field of the order is out of its range, -EALREADY that an order for
// this backend is in flight, and -EBUSY that WEIR_AGENTS_SHEDS_MAX orders are in flight.
int weir_agents_order_shed(struct weir_agents *agents, const struct weir_agents_shed *order);
// Set the callback for the end of each order. Call this function before the first order.
void weir_agents_on_shed_ended(
	struct weir_agents *agents, weir_agents_shed_ended ended, void *context);

// Get the status of a backend's agent. Returns 0, or -ENOENT if the backend has no agent.
int weir_agents_status(
	const struct weir_agents *agents, uint16_t backend, struct weir_agents_status *ret);
struct weir_agents_counts weir_agents_counts(const struct weir_agents *agents);

// Frees everything. No more callbacks are called; the libuv handles are closed in the next
// iterations of the loop. NULL is allowed.
void weir_agents_free(struct weir_agents *agents);
