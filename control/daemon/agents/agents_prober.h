// SPDX-License-Identifier: BSD-3-Clause
//
// Agents' probers: each probes one weir-agent, checks its answers, and determines when the next
// probe is due. Knows neither the agent's backends nor the other agents.
//
// The caller keeps the time: whenever it has called one of these functions, it reads
// weir_agents_prober_due_ms again, and calls weir_agents_prober_run then.
//
// Threads: that of the loop.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agents.h"
#include "agents_socket.h"

struct weir_agents_prober;

// Common to all probers, and owned by the caller. The callbacks are called by
// weir_agents_prober_take, _run and _unsent.
struct weir_agents_probing {
	struct weir_agents_sockets *sockets;
	const struct weir_agent_keys *keys;
	struct weir_agents_counts *counts;
	uint64_t started_ns; // of the clock of probes
	uint64_t random; // for jitter: not secret
	// An answer was accepted.
	void (*report)(void *owner, const struct weir_report *report);
	// TCP figures were accepted.
	void (*tcp)(void *owner, const struct weir_agent_tcp *tcp);
	// A probe was not answered, as in struct weir_agents_events.
	bool (*excuse)(void *owner, uint32_t took_ms, uint32_t timeout_ms, char *why, size_t bytes);
	// A probe has ended. lost: since the last answer, WEIR_AGENT_SILENT_PROBES of them without
	// one.
	void (*ended)(void *owner, enum weir_agents_outcome outcome, const char *detail,
		uint32_t duration_ms, bool lost);
};

struct weir_agents_peer { // a weir-agent at one of its addresses
	struct weir_address address;
	uint16_t port;
	// Random number of this process, per address: the agent tracks the sequence of each number
	// separately, so neither probes at its other addresses nor those of an earlier process
	// interfere.
	uint64_t balancer;
};

struct weir_agents_probe_settings {
	uint32_t interval_ms, inactive_interval_ms, timeout_ms, settled, wants;
	bool active; // the agent has active backends
};

// probing, peer: must outlive the prober. owner: of the callbacks, and of the probes in the batch
// of the sockets. Returns NULL if out of memory.
struct weir_agents_prober *weir_agents_prober_create(
	struct weir_agents_probing *probing, const struct weir_agents_peer *peer, void *owner);
void weir_agents_prober_free(struct weir_agents_prober *prober); // NULL is allowed

// Set the first settings, and when the first probe is due.
void weir_agents_prober_start(struct weir_agents_prober *prober,
	const struct weir_agents_probe_settings *settings, uint64_t due_ms);
// Postpone the first probe. Does nothing once it was sent.
void weir_agents_prober_delay(struct weir_agents_prober *prober, uint64_t delay_ms);
// Change the settings. A shorter interval holds at once. Additional fields are requested soon, and
// again when the agent has had time to measure them.
void weir_agents_prober_set(
	struct weir_agents_prober *prober, const struct weir_agents_probe_settings *settings);
// A new backend has no report yet: the next weir_agents_prober_set makes a probe due soon. moved:
// it had another agent, whose reports still apply, so that this one counts as lost even if it never
// answers.
void weir_agents_prober_restart(struct weir_agents_prober *prober, bool moved);

// When weir_agents_prober_run has something to do.
uint64_t weir_agents_prober_due_ms(const struct weir_agents_prober *prober);
// End the probe that was not answered in time, and add the next one to the batch of the sockets, if
// due. unread: datagrams in the receive buffer may include its answer, so wait longer.
void weir_agents_prober_run(struct weir_agents_prober *prober, uint64_t now_ms, bool unread);
// Process a datagram from the agent's address. May add a probe to the batch.
void weir_agents_prober_take(struct weir_agents_prober *prober, const uint8_t *bytes, size_t count);
// The same for TCP figures: from the process of the last accepted answer, with the challenge of one
// of the last two probes, and no earlier than those before.
void weir_agents_prober_take_tcp(
	struct weir_agents_prober *prober, const uint8_t *bytes, size_t count);
// The newest probe could not be sent: a negative errno.
void weir_agents_prober_unsent(struct weir_agents_prober *prober, int error);

// The process of the agent, and the minimum value of its clock now. Returns 0, -EAGAIN (the last
// probe was not answered, or no answer was accepted for max_age_ms).
int weir_agents_prober_clock(const struct weir_agents_prober *prober, uint64_t max_age_ms,
	uint64_t *ret_agent, uint64_t *ret_clock_ms);
void weir_agents_prober_status(
	const struct weir_agents_prober *prober, struct weir_agents_status *ret);
