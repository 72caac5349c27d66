// SPDX-License-Identifier: BSD-3-Clause
//
// SYN cookies: whether a client may hold a valid one. The kernel keeps no state for a SYN answered
// with a cookie, so the client's ACK can complete a connection that no lookup finds.
//
// The kernel sends cookies while the queue of half-open connections of a socket is full
// (tcp_syncookies 1, the default), always (2) or never (0); they are valid for two minutes. It
// counts them per network namespace (SyncookiesSent), so one socket that sends them affects all.
// Cookies made by a firewall or a BPF program are not counted.
//
// Threads: one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_SYN_COOKIES_GOOD_MS 120000 // MAX_SYNCOOKIE_AGE periods of a minute

struct weir_syn_cookies {
	const char *proc_root; // the directory /proc; borrowed
	bool known; // sent is
	uint64_t sent; // last value read
	uint64_t since_ms; // cookies were sent at this time at the latest; 0 = none
};

// The initial state: cookies sent earlier may be valid for GOOD_MS.
void weir_syn_cookies_init(
	struct weir_syn_cookies *cookies, const char *proc_root, uint64_t now_ms);

// Whether a client may hold a valid cookie sent before this call. Also true if the count cannot be
// read. Costs reading two files of /proc.
bool weir_syn_cookies_possible(struct weir_syn_cookies *cookies, uint64_t now_ms);
