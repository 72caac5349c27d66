// SPDX-License-Identifier: BSD-3-Clause
//
// Probes: receives the balancers' datagrams. Answers probes with the state and the load of this
// backend. Passes requests to move a flow (steal) and orders to end connections (shed) to functions
// of the caller.
//
// Threads: one, the event loop's.
#pragma once

#include <uv.h>

#include "agent_keys.h"
#include "balancers.h"
#include "datagrams.h"
#include "tcp_looks.h"

struct weir_probes_params { // pointers: must outlive the probes
	const struct weir_agent_keys *keys;
	const struct weir_datagrams *datagrams;
	struct weir_balancers *balancers;
	const struct weir_tcp_looks *tcp;
	uint64_t number; // random number of this process
	uint64_t started_ms; // time at which `clock_ms` in answers is 0
	uint16_t udp_port; // UDP port of this agent
	// Sets serial, word and why of an answer, and the values of the fields in `wants`.
	void (*fill)(void *context, uint32_t wants, struct weir_agent_answer *answer);
	// Called when the union of the fields that balancers request may have changed.
	void (*requested)(void *context, uint32_t wants);
	// Processes an authentic steal request that was sent to the address of this agent. Returns
	// why the request is refused, or NONE.
	enum weir_agent_refusal (*steal)(
		void *context, const struct weir_agent_steal *steal, const struct weir_path *path);
	// Processes an authentic shed order that was sent to the address of this agent. Returns why
	// the order is refused, or NONE.
	enum weir_agent_refusal (*shed)(
		void *context, const struct weir_agent_shed *order, const struct weir_path *path);
	void *context;
};

struct weir_probes {
	struct weir_probes_params params;
	uv_loop_t *loop;
	uint64_t answered, notices, tcp; // datagrams sent
	uint64_t refused[WEIR_AGENT_REFUSAL_COUNT];
	uint64_t other_key_ms; // time when a datagram was last refused as KEY or MAC
	uv_poll_t poll[WEIR_DATAGRAM_SOCKETS];
};

// Start receiving probes. Returns 0 or negative errno.
int weir_probes_start(
	uv_loop_t *loop, const struct weir_probes_params *params, struct weir_probes *ret);
// Stop. Run the event loop after this call, so that libuv can close the handles.
void weir_probes_stop(struct weir_probes *probes);

// Send the state to one balancer, without waiting for the balancer's next probe.
void weir_probes_notify(struct weir_probes *probes, const struct weir_balancer *balancer);
