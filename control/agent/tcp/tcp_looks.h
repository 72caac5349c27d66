// SPDX-License-Identifier: BSD-3-Clause
//
// TCP looks: has the kernel list the connections at the service's ports while a balancer requests
// TCP figures, once a second and in slices, so that the loop is never busy for long: a slice ends
// after WEIR_TCP_SLICE_NS of CPU time, and all use at most 1/WEIR_TCP_SHARE of a CPU. With many
// connections a look takes longer than a second, and the figures are older. Of one with more than
// WEIR_TCP_LOOK_MOST connections of IPv4, or of IPv6, the rest is left out. The kernel's order is
// that of a hash with a random key, so that these are a random sample.
//
// Threads: one, the event loop's.
#pragma once

#include <jansson.h>
#include <uv.h>

#include "log.h"
#include "look_budget.h"
#include "tcp_figures.h"

#define WEIR_TCP_LOOK_MOST (WEIR_TCP_FIGURES_MOST / 2)
#define WEIR_TCP_SHARE 100 // 1 % of a CPU
#define WEIR_TCP_SLICE_NS 200000u
#define WEIR_TCP_EVERY_MS 1000u

struct weir_tcp_looks_params { // pointers: must outlive the looks
	struct weir_log *log;
	const uint16_t *ports; // of the service; none: there is nothing to look at
	uint32_t port_count;
	uint32_t most; // connections of a family of sockets; 0 = WEIR_TCP_LOOK_MOST
};

struct weir_tcp_looks {
	struct weir_tcp_looks_params params;
	uv_loop_t *loop;
	uv_timer_t timer;
	bool wanted;
	int fd; // netlink; -1 = none
	uint8_t family; // of the dump in progress; 0 = none
	uint32_t sequence;
	uint32_t before; // connections taken before this dump
	bool partial; // this look
	int error; // errno that was logged last; 0 = the last look was complete
	uint64_t began_ms,
		ended_ms; // began: of the newest; ended: of the last complete one, 0 = none
	uint64_t took_ms; // that one
	uint64_t looks; // complete ones
	struct weir_look_budget budget;
	struct weir_tcp_figures figures;
};

// Returns 0 or negative errno.
int weir_tcp_looks_start(
	uv_loop_t *loop, const struct weir_tcp_looks_params *params, struct weir_tcp_looks *ret);
// Run the loop afterwards to close its handle.
void weir_tcp_looks_stop(struct weir_tcp_looks *looks);

// Whether a balancer requests TCP figures. Without, nothing is looked at.
void weir_tcp_looks_want(struct weir_tcp_looks *looks, bool wanted);

// Set the figures of a datagram, and their age. Returns false if there are none yet.
bool weir_tcp_looks_fill(const struct weir_tcp_looks *looks, struct weir_agent_tcp *tcp);

// {"looks", "took_ms", "ipv4", "ipv6", "problem"?}, owned by the caller; NULL: not requested.
json_t *weir_tcp_looks_status(const struct weir_tcp_looks *looks);
