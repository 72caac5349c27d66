// SPDX-License-Identifier: BSD-3-Clause
//
// Blob: validates the blob that a reference points to. Used by reader.c, writer.c and
// control/tables/build.c.
//
// A call reads the header of a blob exactly once, into private memory; only the private copy is
// checked and used, so that a concurrent change by another process has no effect.
//
// Threads: any. The functions only read the segment.
#pragma once

#include "segment.h"
#include "view.h"

// Offset and length of a checked blob.
struct weir_blob_extent {
	uint64_t offset; // offset from the start of tables
	uint64_t bytes;
};

static inline weir_ref weir_ref_make(uint64_t generation, uint64_t offset) {
	return (weir_ref)(uint32_t)generation << 32 | offset / 64;
}

static inline uint64_t weir_ref_offset(weir_ref ref) {
	return (ref & 0xffffffffu) * 64;
}

// Returns the lower 32 bits of the blob's generation.
static inline uint32_t weir_ref_generation(weir_ref ref) {
	return (uint32_t)(ref >> 32);
}

// Validates the service table that a reference points to. Returns false and leaves the outputs
// unchanged if the reference is 0 or points outside the heap, if the kind or generation of the blob
// is wrong, if the number of buckets is invalid, or if an array is not inside the blob.
bool weir_blob_services(const struct weir_segment *segment, weir_ref ref,
	struct weir_blob_extent *ret_extent, struct weir_services_view *ret);
// Validates the selection of a service that a reference points to, and finds the subset of one
// worker. Does not check the subsets of other workers, or the elements of arrays. Returns false as
// weir_blob_services does, and also if a setting is invalid, if the subset lacks an array that the
// policy reads, or if the selection belongs to another service.
bool weir_blob_selection(const struct weir_segment *segment, uint16_t service, weir_ref ref,
	uint32_t worker, struct weir_blob_extent *ret_extent, struct weir_selection_view *ret);
// Returns the number of subsets of the selection that a reference points to; 0 = the reference or
// the selection is invalid.
uint32_t weir_blob_subsets(const struct weir_segment *segment, uint16_t service, weir_ref ref);
