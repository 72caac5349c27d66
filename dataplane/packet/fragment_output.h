// SPDX-License-Identifier: BSD-3-Clause
//
// Fragment output: the packets that a burst makes in addition to its input. If a packet is split,
// its mbuf keeps the first piece. The pipeline keeps the other pieces until the caller takes them
// (weir_pipeline_extra).
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"

// Packet i does not fit the path to its backend and may be fragmented: split the packet,
// encapsulate all pieces except the first, and count the encapsulated pieces as forwarded. The
// descriptor then has the length of the first piece. Returns false if the packet was dropped, with
// the reason.
bool weir_fragment_output(struct weir_burst *b, unsigned int i, const struct weir_outer *outer);

// Packet i does not fit, but must be forwarded (weir_fragment_unavoidable): encapsulate the packet,
// split the outer packet, and count all pieces. Sets the packet's verdict, with the reason if the
// packet was dropped. The packet must have headroom for the outer header.
void weir_fragment_output_outer(
	struct weir_burst *b, unsigned int i, const struct weir_outer *outer);

// Free the packets that the caller did not take.
void weir_fragment_discard(struct weir_pipeline *pipeline);
