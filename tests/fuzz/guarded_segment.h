// SPDX-License-Identifier: BSD-3-Clause
//
// Guarded segment: a real segment as the dataplane and the writer have it, each mapping between
// inaccessible memory, so that an access before or behind it is a crash. Small and quick enough to
// be made anew for every input.
//
// Threads: one.
#pragma once

#include "segment.h"
#include "writer.h"

struct guarded_segment {
	struct weir_segment *dataplane; // as the dataplane has it
	struct weir_segment *control; // the same memory, as the writer has it
	struct weir_writer *writer;
};

// Make it, and reserve all of its services and backends. Nothing is published.
void guarded_segment_open(struct guarded_segment *memory, const struct weir_segment_params *params);
void guarded_segment_close(struct guarded_segment *memory);
// service: of a selection; else 0.
void guarded_segment_publish(
	struct guarded_segment *memory, enum weir_blob_kind kind, uint16_t service, void *blob);

// Put the mappings of any other segment between guards; and release such a one.
void guard_segment(struct weir_segment *segment);
void guard_segment_free(struct weir_segment *segment);
