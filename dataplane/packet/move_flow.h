// SPDX-License-Identifier: BSD-3-Clause
//
// Move flow: handles flows whose backend was removed, is down, or takes no new flows. For a SYN or
// a datagram the policy chooses another backend, and the flow moves. Other packets of a TCP flow
// are forwarded to the backend that is down or to the one of the Maglev fallback, or get an RST as
// reply, as set in the row. A flow stays if no other backend can be chosen.
//
// Threads: part of a pipeline; its worker only.
#pragma once

#include "burst.h"

// The headers of a backend; NULL if it was removed.
static inline const struct weir_outer *weir_move_outer(
	const struct weir_burst *b, uint16_t backend) {
	const struct weir_outer *outer = &b->pipeline->outers[backend];

	return backend < b->pipeline->max_backends && outer->head.flags != 0 ? outer : NULL;
}

// Process packet i, a SYN of a known flow, with a verdict to forward it to the flow's backend. If
// that takes no new flows, the SYN begins a flow at another one. A SYN of an established flow may
// be forged: that flow moves only if its backend is down; otherwise the client gets a challenge
// ACK, once until its next packet, if another backend accepts new flows.
void weir_move_syn(struct weir_burst *b, unsigned int i, weir_flow_ref flow);

// The backend of packet i was removed: choose another one by the Maglev fallback, and move the flow
// there if it has an entry. Returns its headers, or NULL after setting a verdict.
const struct weir_outer *weir_move_from_gone(struct weir_burst *b, unsigned int i);

// The backend of packet i is down. Returns the headers to push: those of its own backend or, if the
// verdict has another one, of that. NULL after setting a verdict: the reply is an RST, and the flow
// has ended; or the packet was dropped.
const struct weir_outer *weir_move_from_down(
	struct weir_burst *b, unsigned int i, const struct weir_outer *outer);
