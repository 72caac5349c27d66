// SPDX-License-Identifier: BSD-3-Clause
//
// Fragment split: splits packets that do not fit the path to their backend. An IPv4 packet without
// DF is split before encapsulation (RFC 2003, 3.1). An IPv6 packet of at most 1,280 bytes (the
// minimum MTU) is encapsulated, and then the outer packet is split, because senders ignore an MTU
// below the minimum (RFC 2473, 7.1; RFC 4213, 3.2). Without an outer header (l2), an IPv6 packet is
// not split.
//
// Threads: only the worker that owns the packet. New packets come from the pool of the packet.
#pragma once

#include <rte_mbuf.h>

#include "descriptor.h"

#define WEIR_IPV6_MTU_MIN 1280u
#define WEIR_PIECES_MAX 256 // maximum number of additional packets from one burst

// Returns whether this packet may be fragmented: IPv4 without DF.
bool weir_fragment_allowed(const struct rte_mbuf *m, const struct weir_descriptor *d);

// Returns whether this packet must be forwarded even if it does not fit: an IPv6 packet of at most
// 1,280 bytes, whose sender ignores "packet too big".
static inline bool weir_fragment_unavoidable(const struct weir_descriptor *d) {
	return d->key.family == 6 && d->ip_bytes <= WEIR_IPV6_MTU_MIN;
}

// Splits the IPv4 packet of m, d->ip_bytes long, into pieces of at most piece_max bytes each. m
// keeps the first piece after its layer 2 header. The other pieces begin with their IP header.
// They are stored in pieces[], which has room for `room` pieces. The packet may already be a
// fragment.
//
// All pieces keep the identification. The first piece keeps all options; the other pieces keep
// only the options that must be copied.
//
// Returns the number of other pieces; 0 if the packet need not be split. On an error, m is
// unchanged: -ENOBUFS (no packet buffers, or no room in pieces[]), -EMSGSIZE (less than 8 bytes
// of data fit into a piece).
int weir_fragment_split(struct rte_mbuf *m, const struct weir_descriptor *d, uint32_t piece_max,
	struct rte_mbuf **pieces, uint32_t room);

// Split an IPv6 packet without extension headers, `bytes` long at l3_offset. Parameters and result
// are as for weir_fragment_split, but all pieces get a fragment header, even if there is only one
// piece. m needs 8 bytes of headroom, otherwise -ENOBUFS.
int weir_fragment_split6(struct rte_mbuf *m, uint32_t l3_offset, uint32_t bytes, uint32_t id,
	uint32_t piece_max, struct rte_mbuf **pieces, uint32_t room);
