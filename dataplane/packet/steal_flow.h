// SPDX-License-Identifier: BSD-3-Clause
//
// Steal flow: connections that their backend has not answered go to another one. Control asks for a
// list of them, asks the agent of the backend about one, and then asks for its move; the worker
// moves it only if nothing has happened to it since it was listed (mailbox.h). So a backend that
// the client may have heard of keeps its flow. The client's next SYN goes to the new backend.
//
// Threads: one pipeline per worker; only that worker calls these, between bursts. The work is
// bounded whatever control asks: WEIR_WAITING_LINES of the flow table for a list, and a look at
// which parts of it the worker has; one look-up for a move.
#pragma once

#include "mailbox.h"

struct weir_pipeline;

// Answer WEIR_MESSAGE_FLOW_WAITING.
void weir_steal_list(struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns);
// Answer WEIR_MESSAGE_FLOW_MOVE.
void weir_steal_move(struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns);
