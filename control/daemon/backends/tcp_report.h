// SPDX-License-Identifier: BSD-3-Clause
//
// TCP report: the last TCP figures of a backend's agent, and what its sums grew by in the last 10
// to 20 seconds.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent_message.h"

#define WEIR_TCP_WINDOW_MS 10000u

struct weir_tcp_report { // zeroed = none yet
	uint64_t taken_ms; // 0 = none
	struct weir_agent_tcp last;
	struct weir_agent_tcp newer,
		older; // starts of the windows: of the next one and of this one
};

struct weir_tcp_family_status {
	bool seen; // there are connections, or there were some since the agent's start
	struct weir_agent_tcp_family last;
	double retransmitted_percent; // of the segments; below 0 = unknown
	double sent_bytes_per_s; // below 0 = unknown
};

struct weir_tcp_status {
	uint64_t age_ms; // since the agent's look
	bool partial;
	struct weir_tcp_family_status ipv4, ipv6;
};

// Take figures that were accepted at this time, which is not 0.
void weir_tcp_report_take(
	struct weir_tcp_report *report, const struct weir_agent_tcp *tcp, uint64_t now_ms);

// Returns 0, or -ENOENT: there are none, or the last ones arrived more than lifetime_ms ago.
int weir_tcp_report_status(const struct weir_tcp_report *report, uint64_t now_ms,
	uint64_t lifetime_ms, struct weir_tcp_status *ret);
