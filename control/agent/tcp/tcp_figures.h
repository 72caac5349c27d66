// SPDX-License-Identifier: BSD-3-Clause
//
// TCP figures: statistics of the service's connections (medians, percentiles, sums) from the
// kernel's tcp_info, for each address family of clients. A scan (called look in the code) lists all
// connections once. The kernel counts the segments and bytes of a connection from its start, but
// the sums need the growth since the previous scan. Therefore the counters of each connection are
// stored, with its socket cookie as key; the kernel never reuses a socket cookie.
//
// If the previous scan did not contain a connection, the connection is counted from its start,
// unless the previous scan was partial or the current scan is the first. Data that a connection
// sends after its last scan is not counted. If a scan misses a connection, the stored counters of
// the connection are kept until the next scan.
//
// Threads: one. Uses no clock and no socket. No logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent_message.h"
#include "socket_dump.h"

// Maximum number of connections that a scan stores. The tables of two scans use at most 13 MB.
#define WEIR_TCP_FIGURES_MOST 131072u

// Number of histogram buckets for all 64-bit numbers: 16 buckets for each power of two.
#define WEIR_TCP_CLASSES (16 * 61)

struct weir_tcp_histogram {
	uint32_t count; // number of values in all buckets
	uint32_t in[WEIR_TCP_CLASSES];
};

struct weir_tcp_seen { // counters of a connection at the last scan that found it
	uint64_t cookie; // 0 = unused
	uint64_t bytes : 63;
	uint64_t missed : 1; // the last scan has missed the connection
	uint32_t segments, retransmitted;
};
_Static_assert(sizeof(struct weir_tcp_seen) == 24, "24 bytes for each connection");

struct weir_tcp_table { // hash table with open addressing
	struct weir_tcp_seen *slots; // NULL = none
	uint32_t bits, used; // the table has 1 << bits slots, `used` of them in use
};

struct weir_tcp_look { // statistics of the clients of one address family
	uint32_t connections;
	uint64_t segments, retransmitted, bytes; // growth since the previous scan
	struct weir_tcp_histogram rtt_us, rate;
};

struct weir_tcp_figures { // zeroed = no scan yet
	// statistics of the last scan, and sums over all scans
	struct weir_agent_tcp_family ipv4, ipv6;
	bool looked; // there was a scan since the last pause
	bool partial; // the last scan was partial
	int error; // error of the current scan
	struct weir_tcp_table now, before;
	struct weir_tcp_look look[2]; // the current scan: IPv4, IPv6
};

void weir_tcp_figures_free(struct weir_tcp_figures *figures);

// Removes the connections and the statistics of the last scan, but keeps the sums. Call this
// function when scans stop for a while.
void weir_tcp_figures_pause(struct weir_tcp_figures *figures);

// Begin a scan. Discards an earlier scan that was not ended.
void weir_tcp_figures_begin(struct weir_tcp_figures *figures);
// Add a socket of a dump with INET_DIAG_INFO to the current scan. A callback of type
// weir_socket_take; figures: struct weir_tcp_figures. A socket that is listed twice is counted
// once. A socket is not counted if its client has a loopback address or the address of the server.
void weir_tcp_figures_take(void *figures, const struct weir_socket *socket);
// Returns the number of connections in the current scan.
uint32_t weir_tcp_figures_taken(const struct weir_tcp_figures *figures);
// End a scan. partial: the scan has left out sockets. Returns 0 or -ENOMEM; after -ENOMEM the next
// scan is treated as the first scan.
int weir_tcp_figures_end(struct weir_tcp_figures *figures, bool partial);

// --- for tests ---

void weir_tcp_histogram_add(struct weir_tcp_histogram *histogram, uint64_t value);
// Returns a quantile of the values, within 3.2 %. share: 0 to 1; 0.5 is the median. Returns 0 if
// there are no values.
uint64_t weir_tcp_histogram_quantile(const struct weir_tcp_histogram *histogram, double share);
