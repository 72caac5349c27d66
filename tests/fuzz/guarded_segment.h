// SPDX-License-Identifier: BSD-3-Clause
//
// Guarded segment: a real segment with the mappings of the dataplane and the writer. There is
// inaccessible memory before and after each mapping, so that an access outside of the mapping
// crashes. The segment is small enough to be recreated for every input.
//
// Threads: one.
#pragma once

#include "segment.h"
#include "writer.h"

struct guarded_segment {
	struct weir_segment *dataplane; // the dataplane's mapping
	struct weir_segment *control; // the writer's mapping of the same memory
	struct weir_writer *writer;
};

// Create the segment, and reserve all of its services and backends. Nothing is published.
void guarded_segment_open(struct guarded_segment *memory, const struct weir_segment_params *params);
void guarded_segment_close(struct guarded_segment *memory);
// service: the service of a selection; 0 for other tables.
void guarded_segment_publish(
	struct guarded_segment *memory, enum weir_blob_kind kind, uint16_t service, void *blob);

// guard_segment moves the mappings of a segment to places between guards; guard_segment_free
// frees such a segment.
void guard_segment(struct weir_segment *segment);
void guard_segment_free(struct weir_segment *segment);
