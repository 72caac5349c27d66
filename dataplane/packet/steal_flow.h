// SPDX-License-Identifier: BSD-3-Clause
//
// Steal flow: moves connections to another backend if their backend has not answered them. Control
// requests a list of such flows, queries the agent of the backend about a flow, and then requests
// the move of the flow. The worker moves the flow only if the flow's state has not changed since it
// was listed (mailbox.h). Therefore a backend that may have replied to the client keeps its flow.
// The client's next SYN goes to the new backend.
//
// Threads: one pipeline per worker; only that worker calls these functions, between bursts. The
// work per request is bounded: a request for a list reads at most WEIR_WAITING_LINES lines of the
// flow table and checks which parts the worker owns; a request to move a flow makes one lookup.
#pragma once

#include "mailbox.h"

struct weir_pipeline;

// Respond to WEIR_MESSAGE_FLOW_WAITING.
void weir_steal_list(struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns);
// Respond to WEIR_MESSAGE_FLOW_MOVE.
void weir_steal_move(struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns);
