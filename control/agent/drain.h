// SPDX-License-Identifier: BSD-3-Clause
//
// Drain: decides when a lame duck may stop. A lame duck may stop when the interval is over, or
// earlier if every balancer has acknowledged the state, and the service has had no connection for a
// short time. The drain waits for half-open connections only until a short time after the last
// acknowledgement, because a handshake that takes longer was lost or is forged. If no balancer
// probes the agent, the agent cannot notify any balancer, and balancers may still send new
// connections. In this case a patient drain lasts for the whole interval.
//
// Threads: one. Uses no clock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// X(NAME, "name", "meaning")
#define WEIR_DRAIN_STATES(X) \
	X(NONE, "none", "no drain in progress") \
	X(TELLING, "telling", "some balancers have not acknowledged the state") \
	X(SERVING, "serving", "waiting for open connections to end") \
	X(DONE, "done", "all connections have ended") \
	X(DEADLINE, "deadline", "the maximum time of the drain has expired")

enum weir_drain_state {
#define X(name, key, meaning) WEIR_DRAIN_##name,
	WEIR_DRAIN_STATES(X)
#undef X
};

struct weir_drain { // zeroed = NONE
	enum weir_drain_state state;
	uint64_t interval_ms; // as given to weir_drain_begin
	uint64_t deadline_ms;
	// Time of the first step at which all balancers had acknowledged the state; 0 = some
	// balancers have not acknowledged it.
	uint64_t acknowledged_ms;
	// Start of the time without pending acknowledgements and without connections; 0 = some are
	// left.
	uint64_t quiet_ms;
	// Values at the last call of weir_drain_step: acknowledgements and connections that the
	// drain waits for.
	uint32_t pending, connections;
	bool patient;
	bool notified; // at least one balancer has acknowledged the state
	// The drain lasts for the whole interval. Set if the drain is patient, and at some time
	// before the first acknowledgement no balancer was probing the agent.
	bool whole;
};

// The drain is done after this time without connections. When the last balancer acknowledges the
// state, packets of a new connection may still be in flight.
#define WEIR_DRAIN_QUIET_MS 300
// The drain waits for half-open connections until this time after the last acknowledgement. A lost
// SYN or SYN+ACK is retransmitted after 1 s.
#define WEIR_DRAIN_HANDSHAKE_MS 1500

// Start a drain with the deadline now_ms + interval_ms. patient: if no balancer probes the agent,
// the drain lasts for the whole interval. If a patient drain is running, the new drain is patient
// as well: the command that started the running drain then waits for the new drain.
void weir_drain_begin(
	struct weir_drain *drain, uint64_t now_ms, uint64_t interval_ms, bool patient);
void weir_drain_end(struct weir_drain *drain);
// Returns whether a drain is in progress: the state is TELLING or SERVING.
bool weir_drain_is_running(const struct weir_drain *drain);

// Set the numbers of balancers, for `notified` and for a patient drain. Call this function before
// each call of weir_drain_step of a patient drain. known: number of balancers that probe the agent.
// pending: number of these balancers that have not acknowledged the state.
void weir_drain_note_balancers(struct weir_drain *drain, uint32_t known, uint32_t pending);

// Update the state of the drain, and return it. pending: number of balancers that have not
// acknowledged the state. open, half_open: current connections. open: UINT32_MAX = unknown.
enum weir_drain_state weir_drain_step(struct weir_drain *drain, uint64_t now_ms, uint32_t pending,
	uint32_t open, uint32_t half_open);

// Returns the time until the next step: 100 ms; up to 1 s after an expensive step, so that steps
// use little CPU time; and never beyond the deadline. step_ns: CPU time of the last step, including
// counting the connections.
uint64_t weir_drain_pause_ms(const struct weir_drain *drain, uint64_t now_ms, uint64_t step_ns);

const char *weir_drain_state_name(enum weir_drain_state state);

// Write a number of connections as text. connections: UINT32_MAX = unknown. Returns text.
#define WEIR_DRAIN_COUNT_BYTES 40
const char *weir_drain_count_text(uint32_t connections, char text[WEIR_DRAIN_COUNT_BYTES]);
