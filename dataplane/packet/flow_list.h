// SPDX-License-Identifier: BSD-3-Clause
//
// Flow list: responds to requests of control (mailbox.h). Writes matching flows of this worker to
// the worker's pages of the segment, a limited number of flows at a time. If `end` is set in the
// request, ends the matching flows instead. The pipeline then handles the next packet of an ended
// flow as a packet of an unknown flow.
//
// Threads: one pipeline per worker; only that worker calls these functions, between bursts. The
// work per request is bounded: at most WEIR_LIST_LINES lines of the table and WEIR_FLOW_PAGE_FLOWS
// flows.
#pragma once

#include "mailbox.h"

struct weir_pipeline;

// Respond to WEIR_MESSAGE_FLOW_LIST.
void weir_flow_list(struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns);
