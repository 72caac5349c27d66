// SPDX-License-Identifier: BSD-3-Clause
//
// Flow list: the flows of this worker that control asks for, a piece of the table at a time, onto
// its pages of the segment; and the end of such flows, or of one (mailbox.h). The next packet of a
// flow that was ended is that of an unknown flow.
//
// Threads: one pipeline per worker; only that worker calls these, between bursts. The work is
// bounded whatever control asks: WEIR_LIST_LINES of the table, WEIR_FLOW_PAGE_FLOWS flows.
#pragma once

#include "mailbox.h"

struct weir_pipeline;

// Answer WEIR_MESSAGE_FLOW_LIST.
void weir_flow_list(struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns);
