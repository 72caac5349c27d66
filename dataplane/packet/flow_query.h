// SPDX-License-Identifier: BSD-3-Clause
//
// Flow query: the response of a worker to a question of control about flows (mailbox.h): which
// backend a flow has, which one it would get; which flows there are, and the end of them
// (flow_list.h); which wait for their backend, and the move of one of them (steal_flow.h).
//
// Threads: one pipeline per worker; only that worker calls this.
#pragma once

#include "mailbox.h"

struct weir_pipeline;

// Complete a message with what this worker's pipeline knows. Other kinds of messages are left as
// they are.
void weir_flow_query_respond(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns);
