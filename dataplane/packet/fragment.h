// SPDX-License-Identifier: BSD-3-Clause
//
// Fragments: finds the backend of received fragments from the flow of their datagram. The first
// fragment has ports: it is processed like a whole packet, and the fragment table stores its
// verdict. Later fragments are processed at the end of the burst.
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"

// Register packet i, which was parsed as a fragment. A first fragment becomes a packet of its flow
// (WEIR_PACKET_FLOW); a later fragment stays WEIR_PACKET_FRAGMENT and waits for
// weir_fragment_finish. A fragment that is invalid or offered, or whose destination is not a VIP,
// gets another kind.
void weir_fragment_note(struct weir_burst *b, unsigned int i);

// Set the verdicts of the later fragments. All other packets of the burst must have verdicts.
void weir_fragment_finish(struct weir_burst *b);

// Returns the flow hash of a packet that was parsed as a fragment, for the distributor. The hash
// includes the ports of the datagram's first fragment, which a later fragment gets in d->key. If
// the first fragment is not known, the hash covers only the addresses and the protocol of the
// fragment.
uint64_t weir_fragment_hash(
	struct weir_pipeline *pipeline, const struct rte_mbuf *m, struct weir_descriptor *d);
