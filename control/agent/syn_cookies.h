// SPDX-License-Identifier: BSD-3-Clause
//
// SYN cookies: whether a client may hold one. The kernel keeps nothing of a SYN that it answers
// with a cookie, so that the client's ACK makes a connection of what no look-up finds.
//
// They are sent while the queue of half-open connections of a socket is full (tcp_syncookies 1, the
// default), always (2) or never (0), and are good for two minutes. The kernel counts them for a
// network namespace (SyncookiesSent), so one socket that sends them counts for all. Those that a
// firewall or a BPF program makes are not in its count.
//
// Threads: one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_SYN_COOKIES_GOOD_MS 120000 // MAX_SYNCOOKIE_AGE periods of a minute

struct weir_syn_cookies {
	const char *proc_root; // /proc; borrowed
	bool known; // sent is
	uint64_t sent; // as it was read last
	uint64_t since_ms; // it is so since then at the latest, if not 0
};

// The state at the start: cookies that were sent before may be good for GOOD_MS.
void weir_syn_cookies_init(
	struct weir_syn_cookies *cookies, const char *proc_root, uint64_t now_ms);

// Whether a client may hold a cookie that is good, of those sent up to now. Also true if it cannot
// be read. Costs the reading of two files of /proc.
bool weir_syn_cookies_possible(struct weir_syn_cookies *cookies, uint64_t now_ms);
