// SPDX-License-Identifier: BSD-3-Clause
//
// TCP report: the last TCP statistics of a backend's agent, and rates. The rates are computed from
// the sums in the statistics, over about the last 10 to 20 seconds, or over one interval if
// statistics arrive at intervals of more than 10 seconds.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent_message.h"

#define WEIR_TCP_WINDOW_MS 10000u

struct weir_tcp_report { // zeroed = no statistics yet
	uint64_t taken_ms; // time of the last statistics, 0 = none
	struct weir_agent_tcp last;
	struct weir_agent_tcp newer,
		older; // newer: start of the next window; older: start of the current window
};

struct weir_tcp_family_status {
	bool seen; // there were connections since the start of the agent
	struct weir_agent_tcp_family last;
	double retransmitted_percent; // percentage of the sent segments; below 0 = unknown
	double sent_bytes_per_s; // below 0 = unknown
};

struct weir_tcp_status {
	uint64_t age_ms; // time since the agent read the statistics
	bool partial;
	struct weir_tcp_family_status ipv4, ipv6;
};

// Adds statistics that were accepted at now_ms, which must not be 0.
void weir_tcp_report_take(
	struct weir_tcp_report *report, const struct weir_agent_tcp *tcp, uint64_t now_ms);

// Computes the current statistics. Returns 0, or -ENOENT if there are no statistics, or if the last
// statistics arrived more than lifetime_ms ago.
int weir_tcp_report_status(const struct weir_tcp_report *report, uint64_t now_ms,
	uint64_t lifetime_ms, struct weir_tcp_status *ret);
