// SPDX-License-Identifier: BSD-3-Clause
//
// Fragments: how fragments that arrive find the backend of their datagram's flow. The first one has
// ports: it goes through the pipeline like a whole packet, and the fragment table remembers what
// became of it. The others follow at the end of the burst.
//
// Threads: part of a pipeline; its worker only.
#pragma once

#include "burst.h"

// Packet i was parsed as a fragment: note it. A first one becomes a packet of its flow
// (WEIR_PACKET_FLOW), another one stays WEIR_PACKET_FRAGMENT and waits for weir_fragment_finish.
// What is not for a VIP, or wrong, gets another kind.
void weir_fragment_note(struct weir_burst *b, unsigned int i);

// All other packets of the burst have their verdicts: give theirs to the fragments that have none.
void weir_fragment_finish(struct weir_burst *b);

// The flow hash of a packet that was parsed as a fragment, for the distributor: of a first one that
// of its ports; of another one that of the ports of its datagram's first fragment, or of addresses
// alone when that has not come.
uint64_t weir_fragment_hash(
	struct weir_pipeline *pipeline, const struct rte_mbuf *m, struct weir_descriptor *d);
