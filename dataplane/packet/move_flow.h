// SPDX-License-Identifier: BSD-3-Clause
//
// Move flow: flows whose backend is gone, is down, or takes no new flows. A SYN and a datagram are
// chosen for again, by the policy, and their flow moves. The other packets of a TCP flow are left
// to a backend that is down, go where the Maglev fallback sends them, or are answered by an RST, as
// the row says. Where nobody else can be chosen, a flow stays where it is.
//
// Threads: part of a pipeline; its worker only.
#pragma once

#include "burst.h"

// The headers of a backend; NULL when it is gone.
static inline const struct weir_outer *weir_move_outer(
	const struct weir_burst *b, uint16_t backend) {
	const struct weir_outer *outer = &b->pipeline->outers[backend];

	return backend < b->pipeline->max_backends && outer->head.flags != 0 ? outer : NULL;
}

// Packet i is a SYN of a flow that was known, with a verdict to forward it to the flow's backend.
// Where that takes no new flows, the SYN begins a flow at another one. A SYN of an established flow
// may be forged: that flow moves only if its backend is down; otherwise the SYN is answered by a
// challenge ACK, once until the client's next packet, if another backend accepts new flows.
void weir_move_syn(struct weir_burst *b, unsigned int i, weir_flow_ref flow);

// The backend of packet i is gone: choose another one by the Maglev fallback, and move the flow
// there if it has an entry. Returns its headers, or NULL after giving a verdict.
const struct weir_outer *weir_move_from_gone(struct weir_burst *b, unsigned int i);

// The backend of packet i is down. Returns the headers to push: of its own backend or, with
// another one in the verdict, that one's. NULL after giving a verdict: the packet was answered by
// an RST, and its flow has ended; or it was dropped.
const struct weir_outer *weir_move_from_down(
	struct weir_burst *b, unsigned int i, const struct weir_outer *outer);
