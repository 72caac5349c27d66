// SPDX-License-Identifier: BSD-3-Clause
//
// Move flow: handles flows whose backend was removed, is down, or accepts no new flows. If the
// backend was removed, the flow moves to the backend of the Maglev fallback. A SYN to a backend
// that is down or accepts no new flows, and a datagram to a backend that is down, move the flow to
// a backend that the policy chooses. For other packets of a TCP flow to a backend that is down, the
// flags of the backend's row determine what happens: the packet is forwarded to the backend that is
// down, is forwarded to the backend of the Maglev fallback, or gets an RST as reply. Unless its
// backend was removed, a flow stays on its backend if no other backend can be chosen.
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"

// Returns the headers of a backend; NULL if the backend was removed.
static inline const struct weir_outer *weir_move_outer(
	const struct weir_burst *b, uint16_t backend) {
	const struct weir_outer *outer = &b->pipeline->outers[backend];

	return backend < b->pipeline->max_backends && outer->head.flags != 0 ? outer : NULL;
}

// Processes packet i, a SYN of a known flow. The verdict of packet i must be to forward the packet
// to the backend of the flow. If this backend accepts no new flows, the SYN begins a flow at
// another backend, if one can be chosen.
//
// Exception: the SYN of an established flow may be forged, so an established flow moves only if its
// backend is down. Otherwise, if another backend accepts new flows, the client gets a challenge
// ACK. The client gets no second challenge ACK before its next packet other than a SYN.
void weir_move_syn(struct weir_burst *b, unsigned int i, weir_flow_ref flow);

// Chooses another backend with the Maglev fallback, because the backend of packet i was removed.
// Moves the flow if it has an entry. Returns the new headers, or NULL after setting a verdict.
const struct weir_outer *weir_move_from_gone(struct weir_burst *b, unsigned int i);

// Handles packet i, whose backend is down. Returns the headers of the backend in the verdict, which
// may be a different backend than before. Returns NULL if the packet is not forwarded: the verdict
// is then a reply with an RST (the flow has ended) or a drop.
const struct weir_outer *weir_move_from_down(
	struct weir_burst *b, unsigned int i, const struct weir_outer *outer);
