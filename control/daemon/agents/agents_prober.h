// SPDX-License-Identifier: BSD-3-Clause
//
// Agents' probers: each prober probes one weir-agent, checks its answers, and determines when the
// next probe is due. A prober does not depend on the agent's backends or on other agents. The
// caller runs the timer: after each call of weir_agents_prober_start, delay, set, run, take or
// unsent, the caller reads weir_agents_prober_due_ms again, and calls weir_agents_prober_run at
// that time.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agents.h"
#include "agents_socket.h"

struct weir_agents_prober;

// The data that all probers share, owned by the caller. The functions weir_agents_prober_take,
// take_tcp, run and unsent call the callbacks.
struct weir_agents_probing {
	struct weir_agents_sockets *sockets;
	const struct weir_agent_keys *keys;
	struct weir_agents_counts *counts;
	uint64_t started_ns; // time of weir_agents_create; probes contain the time since then
	uint64_t random; // state of the random numbers for jitter, which need not be secret
	// Called when an answer was accepted; see report in struct weir_agents_events.
	void (*report)(void *owner, const struct weir_report *report);
	// Called when TCP statistics were accepted.
	void (*tcp)(void *owner, const struct weir_agent_tcp *tcp);
	// Called before a probe ends as SILENT; see excuse in struct weir_agents_events.
	bool (*excuse)(void *owner, uint32_t took_ms, uint32_t timeout_ms, char *why, size_t bytes);
	// Called when a probe has ended. lost: see lost in struct weir_agents_events.
	void (*ended)(void *owner, enum weir_agents_outcome outcome, const char *detail,
		uint32_t duration_ms, bool lost);
};

struct weir_agents_peer { // a weir-agent at one of its addresses
	struct weir_address address;
	uint16_t port;
	// Balancer ID that identifies this process to the agent. It is random, and different for
	// each address of an agent. An agent handles the probes with each ID separately. Probes to
	// two addresses of one agent, and probes of an earlier process, therefore do not interfere.
	uint64_t balancer;
};

struct weir_agents_probe_settings {
	uint32_t interval_ms, inactive_interval_ms, settled, wants;
	uint32_t timeout_ms; // at most interval_ms
	bool active; // the agent has active backends
};

// Create a prober. probing, peer: must outlive the prober. owner: passed to the callbacks, and
// stored with the probes in the batch of the sockets. Returns NULL if out of memory.
struct weir_agents_prober *weir_agents_prober_create(
	struct weir_agents_probing *probing, const struct weir_agents_peer *peer, void *owner);
void weir_agents_prober_free(struct weir_agents_prober *prober); // NULL is allowed

// Sets the initial settings. due_ms: time of the first probe.
void weir_agents_prober_start(struct weir_agents_prober *prober,
	const struct weir_agents_probe_settings *settings, uint64_t due_ms);
// Postpone the first probe. Does nothing if the first probe was already sent.
void weir_agents_prober_delay(struct weir_agents_prober *prober, uint64_t delay_ms);
// Changes the settings. A shorter interval applies immediately. If fields are added to `wants`, a
// probe requests them soon. Another probe requests them after the time that an agent needs to
// measure a field.
void weir_agents_prober_set(
	struct weir_agents_prober *prober, const struct weir_agents_probe_settings *settings);
// Call this function when the agent gets a new backend, which has no report yet, or when the agent
// must be probed again soon. The next call of weir_agents_prober_set then schedules a probe within
// interval_ms. moved: the backend had another agent before, and the reports of that agent are still
// in use. In this case, the new agent can be reported as lost before its first answer.
void weir_agents_prober_restart(struct weir_agents_prober *prober, bool moved);

// Returns the time at which weir_agents_prober_run must be called.
uint64_t weir_agents_prober_due_ms(const struct weir_agents_prober *prober);
// Call this function when the prober is due. If the last probe was not answered in time, ends that
// probe. If the next probe is due, adds it to the batch of the sockets; without keys, the probe
// ends immediately as UNKNOWN. unread: true if the receive buffer may contain the answer; the
// prober then waits longer.
void weir_agents_prober_run(struct weir_agents_prober *prober, uint64_t now_ms, bool unread);
// Process a datagram that came from the agent's address. May add a probe to the batch.
void weir_agents_prober_take(struct weir_agents_prober *prober, const uint8_t *bytes, size_t count);
// Processes TCP statistics that came from the agent's address. Accepts them only if they come from
// the agent process that sent the last accepted answer, contain the challenge of one of the last
// two probes, and are not older than the previous statistics.
void weir_agents_prober_take_tcp(
	struct weir_agents_prober *prober, const uint8_t *bytes, size_t count);
// Call this function when a probe could not be sent; see unsent in struct
// weir_agents_socket_events. If it is not the newest probe, this function does nothing.
void weir_agents_prober_unsent(struct weir_agents_prober *prober, const uint8_t *bytes, int error);

// Gets the random ID of the agent's process, and the lowest value that the agent's clock can
// have now. Returns 0, or -EAGAIN if the last probe was not answered, or if no answer was accepted
// for max_age_ms.
int weir_agents_prober_clock(const struct weir_agents_prober *prober, uint64_t max_age_ms,
	uint64_t *ret_agent, uint64_t *ret_clock_ms);
void weir_agents_prober_status(
	const struct weir_agents_prober *prober, struct weir_agents_status *ret);
