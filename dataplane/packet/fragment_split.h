// SPDX-License-Identifier: BSD-3-Clause
//
// Fragment split: an IPv4 packet that does not fit the path to its backend and may be fragmented
// becomes several that fit (RFC 791, 2.3), before each of them is encapsulated (RFC 2003, 3.1).
// Called by slow_path.c.
//
// Threads: pure functions on the worker's own packet; new packets come from its pool.
#pragma once

#include <rte_mbuf.h>

#include "descriptor.h"

#define WEIR_PIECES_MAX 256 // further packets that a burst can make

// May this packet be fragmented on its way? IPv4 without DF.
bool weir_fragment_allowed(const struct rte_mbuf *m, const struct weir_descriptor *d);

// Split the IPv4 packet of m, d->ip_bytes long, into pieces of at most piece_max bytes each. m
// keeps the first one behind its layer 2 header; the others, which begin with their IP header, are
// put into pieces[], which has room for `room`. All keep the identification; the first keeps the
// options, the others those that are to be copied. A packet that is a fragment itself is split
// likewise.
// Returns the number of the others (0: nothing to do), -ENOBUFS (no packet buffers, or no room in
// pieces[]), -EMSGSIZE (not even 8 bytes of data fit). m is untouched then.
int weir_fragment_split(struct rte_mbuf *m, const struct weir_descriptor *d, uint32_t piece_max,
	struct rte_mbuf **pieces, uint32_t room);
