// SPDX-License-Identifier: BSD-3-Clause
//
// Source query: responds to requests of control about the affinity table (mailbox.h): the entry of
// a source, the removal of an entry, lists of entries, and the removal of the entries of a backend
// or service. Existing flows of a removed source continue. The source gets an entry again when one
// of its flows begins, becomes established, or finishes after it was established (source.h).
//
// Threads: one pipeline per worker; only that worker calls these functions, between bursts. Other
// workers may use the table at the same time. The work per request is bounded: at most
// WEIR_LIST_LINES lines of the table.
#pragma once

#include "mailbox.h"

struct weir_pipeline;

// Respond to WEIR_MESSAGE_SOURCE_LOOKUP, or to WEIR_MESSAGE_SOURCE_DELETE.
void weir_source_look_up(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns);
// Respond to WEIR_MESSAGE_SOURCE_WALK.
void weir_source_walk(
	struct weir_pipeline *pipeline, struct weir_message *message, uint64_t now_ns);
