// SPDX-License-Identifier: BSD-3-Clause
//
// Lookup: the slow path of the flow lookup, for packets that may change the state of the flow. The
// fast path is inlined into pipeline.c (flow_bucket.h).
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"

// Look up the flow of packet i, which has a descriptor, and advance the flow's state. Returns true
// if the flow is in the table: *ret_flow is the flow, and the packet will be forwarded to the
// backend of the flow. Returns false if the packet begins a flow: *ret_flow is the flow that the
// packet restarts, or negative if there is none.
bool weir_lookup_slow(struct weir_burst *b, unsigned int i, weir_flow_ref *ret_flow);
