// SPDX-License-Identifier: BSD-3-Clause
//
// Flow query: responds to requests of control about flows (mailbox.h). The requests are: get the
// backend that a flow has or would get, or end the flow; list flows, or end listed flows
// (flow_list.h); list flows that wait for their backend, or move a waiting flow (steal_flow.h);
// read or remove entries of the affinity table (source_query.h).
//
// Threads: one pipeline per worker; only that worker calls this function.
#pragma once

#include "mailbox.h"

struct weir_pipeline;

// Complete a message from the data of this worker's pipeline. Messages of unknown kinds stay
// unchanged.
void weir_flow_query_respond(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns);
