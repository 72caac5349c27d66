// SPDX-License-Identifier: BSD-3-Clause
//
// Drain: when a lame duck may stop. Either every balancer has acknowledged the state and there has
// been no connection for a while, or the interval has passed. Half-open connections count only for
// a short time after the last acknowledgement: a handshake that lasts longer is lost or forged.
// While no balancer is known, none can be notified, and each may still send new connections: a
// patient drain then lasts for the whole interval.
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
	uint64_t acknowledged_ms; // when the last balancer acknowledged; 0 = some have not
	uint64_t quiet_ms; // since when there is no connection; 0 = there is one
	uint32_t pending, connections; // at the last check
	bool patient;
	bool notified; // some balancer has acknowledged
	bool whole; // the interval: patient, and no balancer was known before any was notified
};

// Packets of a new connection may still be in flight when the last balancer acknowledges.
#define WEIR_DRAIN_QUIET_MS 300
// A client retransmits its SYN or ACK after 1 s.
#define WEIR_DRAIN_HANDSHAKE_MS 1500

// Start a drain, or change the deadline of one that runs.
void weir_drain_begin(
	struct weir_drain *drain, uint64_t now_ms, uint64_t interval_ms, bool patient);
void weir_drain_end(struct weir_drain *drain);

// Before each step: the number of known balancers, and of those that have not acknowledged.
void weir_drain_note_balancers(struct weir_drain *drain, uint32_t known, uint32_t pending);

// pending: number of balancers that have not acknowledged. open, half_open: current connections;
// UINT32_MAX = unknown.
enum weir_drain_state weir_drain_step(struct weir_drain *drain, uint64_t now_ms, uint32_t pending,
	uint32_t open, uint32_t half_open);

const char *weir_drain_state_name(enum weir_drain_state state);

// A number of connections as text; UINT32_MAX = unknown. Returns text.
#define WEIR_DRAIN_COUNT_BYTES 40
const char *weir_drain_count_text(uint32_t connections, char text[WEIR_DRAIN_COUNT_BYTES]);
