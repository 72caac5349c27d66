// SPDX-License-Identifier: BSD-3-Clause
//
// TCP figures: statistics of the service's connections (medians, percentiles, sums) from the
// kernel's tcp_info, for each address family of clients. A look is one scan of all connections. The
// kernel counts the segments and bytes of a connection from its start, and each look adds the
// growth since the previous look. Therefore the last counters of each connection are stored by its
// cookie, which the kernel never reuses.
//
// If the previous look did not contain a connection, the connection is counted from its start,
// unless the previous look was partial or the current look is the first. Data that a connection
// sends after its last look is not counted. If a look misses a connection, the counters of the
// connection are kept until the next look.
//
// Threads: one. Uses no clock and no socket. No logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent_message.h"
#include "socket_dump.h"

// Maximum connections that a look stores; at most 13 MB.
#define WEIR_TCP_FIGURES_MOST 131072u

// Histogram buckets for all 64-bit numbers: 16 buckets for each power of two.
#define WEIR_TCP_CLASSES (16 * 61)

struct weir_tcp_histogram {
	uint32_t count; // number of values in all buckets
	uint32_t in[WEIR_TCP_CLASSES];
};

struct weir_tcp_seen { // a connection at a look
	uint64_t cookie; // 0 = unused
	uint64_t bytes : 63;
	uint64_t missed : 1; // the last look has missed the connection
	uint32_t segments, retransmitted;
};
_Static_assert(sizeof(struct weir_tcp_seen) == 24, "24 bytes for each connection");

struct weir_tcp_table { // hash table with open addressing
	struct weir_tcp_seen *slots; // NULL = none
	uint32_t bits, used; // the table has 1 << bits slots, `used` of them in use
};

struct weir_tcp_look { // figures of the clients of one address family
	uint32_t connections;
	uint64_t segments, retransmitted, bytes; // growth since the previous look
	struct weir_tcp_histogram rtt_us, rate;
};

struct weir_tcp_figures { // zeroed = no look yet
	struct weir_agent_tcp_family ipv4, ipv6; // figures of the last look; sums of all looks
	bool looked; // there was a look
	bool partial; // the last look was partial
	int error; // error of the current look
	struct weir_tcp_table now, before;
	struct weir_tcp_look look[2]; // the current look: IPv4, IPv6
};

void weir_tcp_figures_free(struct weir_tcp_figures *figures);

// Remove the connections and the figures of the last look, but keep the sums. Call this function
// when looks stop for a while.
void weir_tcp_figures_pause(struct weir_tcp_figures *figures);

// Begin a look. Discards an earlier look that was not ended.
void weir_tcp_figures_begin(struct weir_tcp_figures *figures);
// Add a socket of a dump with INET_DIAG_INFO. A weir_socket_take, whose context is struct
// weir_tcp_figures. A socket that is listed twice counts once, and a socket of a client on this
// host (loopback) does not count.
void weir_tcp_figures_take(void *figures, const struct weir_socket *socket);
// Returns the number of connections that the look has taken.
uint32_t weir_tcp_figures_taken(const struct weir_tcp_figures *figures);
// End a look. partial: the look has left out sockets. Returns 0 or -ENOMEM; after -ENOMEM the next
// look is treated as the first look.
int weir_tcp_figures_end(struct weir_tcp_figures *figures, bool partial);

// --- for tests ---

void weir_tcp_histogram_add(struct weir_tcp_histogram *histogram, uint64_t value);
// Returns a quantile of the values, within 3.2 %. share: 0 to 1; 0.5 is the median. Returns 0 if
// there are no values.
uint64_t weir_tcp_histogram_quantile(const struct weir_tcp_histogram *histogram, double share);
