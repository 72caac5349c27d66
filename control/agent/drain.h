// SPDX-License-Identifier: BSD-3-Clause
//
// Drain: decides when a lame duck may stop: after every balancer has acknowledged the state and
// there has been no connection for a short time, or after the interval. Half-open connections count
// only for a short time after the last acknowledgement: a longer handshake is lost or forged. While
// no balancer is known, no balancer can be notified, and unknown balancers may still send new
// connections: a patient drain then lasts for the whole interval.
//
// Threads: one. Uses no clock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// X(NAME, "name", "meaning")
#define WEIR_DRAIN_STATES(X) \
	X(NONE, "none", "not a lame duck") \
	X(TELLING, "telling", "some balancers have not acknowledged it") \
	X(SERVING, "serving", "waiting for open connections to end") \
	X(DONE, "done", "no connection is left") \
	X(DEADLINE, "deadline", "the interval is over")

enum weir_drain_state {
#define X(name, key, meaning) WEIR_DRAIN_##name,
	WEIR_DRAIN_STATES(X)
#undef X
};

struct weir_drain { // zeroed = NONE
	enum weir_drain_state state;
	uint64_t deadline_ms;
	uint64_t acknowledged_ms; // time of the last balancer's acknowledgement; 0 = some are
				  // missing
	uint64_t quiet_ms; // time since which there is no connection; 0 = there are connections
	uint32_t pending, connections; // numbers at the last step
	bool patient;
	bool notified; // some balancer has acknowledged
	bool whole; // lasts for the whole interval: patient, and no balancer was known at first
};

// Packets of a new connection may still be in flight when the last balancer acknowledges.
#define WEIR_DRAIN_QUIET_MS 300
// A client retransmits its SYN or ACK after 1 s.
#define WEIR_DRAIN_HANDSHAKE_MS 1500

// Start a drain, or change the deadline of a running drain.
void weir_drain_begin(
	struct weir_drain *drain, uint64_t now_ms, uint64_t interval_ms, bool patient);
void weir_drain_end(struct weir_drain *drain);

// Call this before each step. known: number of known balancers; pending: number of balancers that
// have not acknowledged.
void weir_drain_note_balancers(struct weir_drain *drain, uint32_t known, uint32_t pending);

// pending: number of balancers that have not acknowledged. open, half_open: current connections;
// UINT32_MAX = unknown.
enum weir_drain_state weir_drain_step(struct weir_drain *drain, uint64_t now_ms, uint32_t pending,
	uint32_t open, uint32_t half_open);

const char *weir_drain_state_name(enum weir_drain_state state);

// Write a number of connections as text; UINT32_MAX = unknown. Returns text.
#define WEIR_DRAIN_COUNT_BYTES 40
const char *weir_drain_count_text(uint32_t connections, char text[WEIR_DRAIN_COUNT_BYTES]);
