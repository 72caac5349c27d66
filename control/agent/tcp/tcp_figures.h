// SPDX-License-Identifier: BSD-3-Clause
//
// TCP figures: the kernel's tcp_info of the service's connections, look by look, as medians,
// percentiles and sums by family of the clients. The kernel's numbers of a connection run
// since it was opened; each look adds what they grew by since the look before, so each connection
// is remembered by its cookie, which the kernel never uses again.
//
// A connection that was not there at the look before is counted from its start, unless that look
// was partial or the first one. What a connection sends after its last look is not counted. One
// that a look has missed is remembered for another one.
//
// Threads: one. Uses no clock and no socket. No logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent_message.h"
#include "socket_dump.h"

// Connections that a look remembers; at most 13 MB.
#define WEIR_TCP_FIGURES_MOST 131072u

// Classes of 1/16 of an octave of all numbers of 64 bits.
#define WEIR_TCP_CLASSES (16 * 61)

struct weir_tcp_histogram {
	uint32_t count; // in all classes
	uint32_t in[WEIR_TCP_CLASSES];
};

struct weir_tcp_seen { // a connection at a look
	uint64_t cookie; // 0 = unused
	uint64_t bytes : 63;
	uint64_t missed : 1; // it was not there at that look, but at the one before
	uint32_t segments, retransmitted;
};
_Static_assert(sizeof(struct weir_tcp_seen) == 24, "there are many");

struct weir_tcp_table { // open addressing
	struct weir_tcp_seen *slots; // NULL = none
	uint32_t bits, used; // 1 << bits slots
};

struct weir_tcp_look { // of one family of clients
	uint32_t connections;
	uint64_t segments, retransmitted, bytes; // since the look before
	struct weir_tcp_histogram rtt_us, rate;
};

struct weir_tcp_figures { // zeroed = no look yet
	struct weir_agent_tcp_family ipv4, ipv6; // of the last look; sums: of all
	bool looked; // there was a look
	bool partial; // the last one
	int error; // of this look
	struct weir_tcp_table now, before;
	struct weir_tcp_look look[2]; // this one: IPv4, IPv6
};

void weir_tcp_figures_free(struct weir_tcp_figures *figures);

// Forget the connections and the figures of the last look, not the sums: looks pause.
void weir_tcp_figures_pause(struct weir_tcp_figures *figures);

// Begin a look. One that was not ended leaves nothing.
void weir_tcp_figures_begin(struct weir_tcp_figures *figures);
// Take a socket of a dump with INET_DIAG_INFO: a weir_socket_take, context: the figures. The same
// one counts once, one of a client on this host (loopback) not at all.
void weir_tcp_figures_take(void *figures, const struct weir_socket *socket);
// The number of connections that the look has taken.
uint32_t weir_tcp_figures_taken(const struct weir_tcp_figures *figures);
// End a look. partial: there are more sockets. Returns 0 or -ENOMEM, after which the next look is
// like the first one.
int weir_tcp_figures_end(struct weir_tcp_figures *figures, bool partial);

// --- for tests ---

void weir_tcp_histogram_add(struct weir_tcp_histogram *histogram, uint64_t value);
// The value below which this share (0..1) of the values is, within 3.2 %; 0 = there are none.
uint64_t weir_tcp_histogram_quantile(const struct weir_tcp_histogram *histogram, double share);
