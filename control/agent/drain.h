// SPDX-License-Identifier: BSD-3-Clause
//
// Drain: when a lame duck may stop. Every balancer must have heard it, and then no connection be
// there for a while, or the interval must have passed. Half-open connections count for a moment
// after the last balancer has heard: a handshake that lasts longer is lost, or forged.
//
// Threads: one. Knows no clock.
#pragma once

#include <stdint.h>

// X(NAME, "name", "meaning")
#define WEIR_DRAIN_STATES(X) \
	X(NONE, "none", "not a lame duck") \
	X(TELLING, "telling", "not every balancer has heard it yet") \
	X(SERVING, "serving", "connections are being served to their end") \
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
	uint64_t heard_ms; // since then every balancer has heard; 0 = not all have
	uint64_t quiet_ms; // since then there was no connection; 0 = there was one
	uint32_t unheard, connections; // when it was last looked at
};

// Packets of a new connection may be on their way when the last balancer has heard.
#define WEIR_DRAIN_QUIET_MS 300
// A client sends a lost part of its handshake again after 1 s.
#define WEIR_DRAIN_HANDSHAKE_MS 1500

// Begin, or give one that has begun another deadline.
void weir_drain_begin(struct weir_drain *drain, uint64_t now_ms, uint64_t interval_ms);
void weir_drain_end(struct weir_drain *drain);

// unheard: balancers that have not heard. open, half_open: connections that are there; UINT32_MAX =
// not known.
enum weir_drain_state weir_drain_step(struct weir_drain *drain, uint64_t now_ms, uint32_t unheard,
	uint32_t open, uint32_t half_open);

const char *weir_drain_state_name(enum weir_drain_state state);
