// SPDX-License-Identifier: BSD-3-Clause
//
// SYN cookies: determines whether a client may have a valid cookie. The kernel keeps no state for a
// SYN that it answers with a cookie, so the client's ACK can complete a connection although a
// socket lookup has found nothing.
//
// The sysctl tcp_syncookies determines when the kernel sends cookies: 0 = never, 1 (the default) =
// while the queue of half-open connections of a socket is full, 2 = always. A cookie is
// valid for at most two minutes. The kernel counts cookies per network namespace (SyncookiesSent),
// so cookies of one socket affect the result for all sockets. Cookies made by a firewall or a BPF
// program are not counted.
//
// Threads: one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Lifetime of a cookie: MAX_SYNCOOKIE_AGE (2) periods of a minute.
#define WEIR_SYN_COOKIES_GOOD_MS 120000

struct weir_syn_cookies {
	const char *proc_root; // the directory /proc; borrowed
	bool known; // sent is valid
	uint64_t sent; // last value of SyncookiesSent
	uint64_t since_ms; // no cookie was sent from this time to the last check; valid if `known`
};

// Set the initial state: cookies that the kernel sent before may be valid for
// WEIR_SYN_COOKIES_GOOD_MS.
void weir_syn_cookies_init(
	struct weir_syn_cookies *cookies, const char *proc_root, uint64_t now_ms);

// Returns whether a client may have a valid cookie that was sent before this call. Returns false if
// the sysctl is 0. Otherwise returns true if the sysctl or the counter cannot be read. A missing
// sysctl is treated as 1. Reads two files of /proc.
bool weir_syn_cookies_possible(struct weir_syn_cookies *cookies, uint64_t now_ms);
