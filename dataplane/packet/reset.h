// SPDX-License-Identifier: BSD-3-Clause
//
// Reset: rewrites a received TCP packet in place into a reply to its sender: an RST or a challenge
// ACK.
//
// Threads: only the worker that owns the packet.
#pragma once

#include <rte_mbuf.h>

#include "descriptor.h"

// Rewrite a TCP packet into an RST to its sender (RFC 9293, 3.10.7.1). The sequence number of the
// RST is the acknowledgment number of the packet. If the packet has no ACK flag, the sequence
// number of the RST is 0, and the RST acknowledges the packet. The packet must not be an RST.
// Returns 0, -EBADMSG (wrong TCP checksum; packet untouched), -ENOBUFS (no headroom for a VLAN tag
// that the NIC stripped; packet untouched).
int weir_reset(struct rte_mbuf *m, const struct weir_descriptor *d);

// Rewrite a SYN into a challenge ACK to its sender (RFC 5961, 4.2): an ACK whose acknowledgment
// number is the SYN's sequence number, so that it acknowledges no data. A client that has sent the
// SYN replies with an RST (RFC 9293, 3.10.7.3) and retransmits the SYN; a client with an open
// connection ignores the ACK or repeats its last ACK. Returns the same values as weir_reset.
int weir_reset_challenge(struct rte_mbuf *m, const struct weir_descriptor *d);
