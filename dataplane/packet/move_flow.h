// SPDX-License-Identifier: BSD-3-Clause
//
// Move flow: handles flows whose backend was removed, is down, or takes no new flows. For a SYN or
// a datagram the policy chooses another backend, and the flow moves. The flags of the backend's row
// determine what happens to other packets of a TCP flow: they are forwarded to the backend that is
// down, are forwarded to the backend of the Maglev fallback, or get an RST as reply. A flow stays
// if no other backend can be chosen.
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"

// The headers of a backend; NULL if it was removed.
static inline const struct weir_outer *weir_move_outer(
	const struct weir_burst *b, uint16_t backend) {
	const struct weir_outer *outer = &b->pipeline->outers[backend];

	return backend < b->pipeline->max_backends && outer->head.flags != 0 ? outer : NULL;
}

// Process packet i, a SYN of a known flow, with a verdict to forward the packet to the flow's
// backend. If this backend takes no new flows, the SYN begins a flow at another backend. A SYN of
// an established flow may be forged: an established flow moves only if its backend is down;
// otherwise the client gets a challenge ACK, once until its next packet, if another backend accepts
// new flows.
void weir_move_syn(struct weir_burst *b, unsigned int i, weir_flow_ref flow);

// Choose another backend by the Maglev fallback, because the backend of packet i was removed. Move
// the flow if it has an entry. Returns the new headers, or NULL after setting a verdict.
const struct weir_outer *weir_move_from_gone(struct weir_burst *b, unsigned int i);

// Handle packet i, whose backend is down. Returns the headers to push: the headers of the flow's
// backend or, if the verdict has another backend, of the backend in the verdict. Returns NULL after
// setting a verdict: an RST as reply, with the flow ended, or a drop.
const struct weir_outer *weir_move_from_down(
	struct weir_burst *b, unsigned int i, const struct weir_outer *outer);
