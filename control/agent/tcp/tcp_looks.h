// SPDX-License-Identifier: BSD-3-Clause
//
// TCP looks: lists the connections at the service's ports once a second while a balancer requests
// TCP statistics. Each listing is a scan (called look in the code). A scan runs in slices, so that
// the loop is never busy for long: a slice ends after WEIR_TCP_SLICE_NS of CPU time, and all slices
// use at most 1/WEIR_TCP_SHARE of a CPU. With many connections a scan takes longer than a second,
// so the reported statistics are older. A scan stops reading the sockets of an address family when
// it has stored WEIR_TCP_LOOK_MOST connections of this family. The kernel lists connections in the
// order of a hash with a random key, so these connections are a random sample.
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

struct weir_tcp_looks_params { // pointers: must outlive struct weir_tcp_looks
	struct weir_log *log;
	const uint16_t *ports; // ports of the service; without ports there are no scans
	uint32_t port_count;
	// Maximum number of connections to store for each address family; 0 = WEIR_TCP_LOOK_MOST.
	uint32_t most;
};

struct weir_tcp_looks {
	struct weir_tcp_looks_params params;
	uv_loop_t *loop;
	uv_timer_t timer;
	bool wanted;
	int fd; // netlink; -1 = none
	uint8_t family; // family of the dump in progress; 0 = no dump
	uint32_t sequence;
	uint32_t before; // number of connections that this scan had read when this dump began
	bool partial; // this scan has not read all connections
	int error; // negative errno that was logged last; 0 = the last scan had no error
	uint64_t began_ms,
		ended_ms; // start of the newest scan; end of the last scan that has ended, 0 = none
	uint64_t took_ms; // duration of the last scan that has ended
	uint64_t looks; // number of scans that have ended
	struct weir_look_budget budget;
	struct weir_tcp_figures figures;
};

// Initialize. The first scan starts after weir_tcp_looks_want(looks, true). Returns 0 or negative
// errno.
int weir_tcp_looks_start(
	uv_loop_t *loop, const struct weir_tcp_looks_params *params, struct weir_tcp_looks *ret);
// Stop. Run the event loop after this call, so that libuv can close the handle.
void weir_tcp_looks_stop(struct weir_tcp_looks *looks);

// Set whether a balancer requests TCP statistics. Without a request there are no scans.
void weir_tcp_looks_want(struct weir_tcp_looks *looks, bool wanted);

// Fill in the TCP statistics of a datagram, and their age. Returns false if there are none, because
// no scan has ended yet or the last scan failed.
bool weir_tcp_looks_fill(const struct weir_tcp_looks *looks, struct weir_agent_tcp *tcp);

// Returns {"looks", "took_ms", "partial", "ipv4_FIELD"..., "ipv6_FIELD"..., "problem"?}, owned by
// the caller; NULL: no balancer requests TCP statistics.
json_t *weir_tcp_looks_status(const struct weir_tcp_looks *looks);
