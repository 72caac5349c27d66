// SPDX-License-Identifier: BSD-3-Clause
//
// Reset: a TCP RST made in place from the packet that is refused.
//
// Threads: pure functions on the worker's own packet.
#pragma once

#include <rte_mbuf.h>

#include "descriptor.h"

// Turn a TCP packet into the RST for its sender (RFC 9293, 3.10.7.1): with the number that the
// packet acknowledges, or else one that acknowledges the packet. The packet must be no RST itself.
// Returns 0, -EBADMSG (wrong TCP checksum; packet untouched), -ENOBUFS (no headroom for a VLAN tag
// that the NIC stripped; packet untouched).
int weir_reset(struct rte_mbuf *m, const struct weir_descriptor *d);
