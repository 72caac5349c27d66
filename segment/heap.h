// SPDX-License-Identifier: BSD-3-Clause
//
// Heap: which parts of the segment's heap are free, and the machine's memory behind the others. For
// writer.c only. It knows extents, and nothing of what lies in them or who still reads it.
//
// Its state is private memory of the control process. Under ASan what is free is poisoned, so that
// a reader in the same process that uses it too long is found.
//
// Threads: one.
#pragma once

#include "blob.h"

struct weir_extents { // growing array
	struct weir_blob_extent *item;
	size_t count;
	size_t capacity;
};

struct weir_heap {
	const struct weir_segment *segment;
	struct weir_extents free; // by offset, never adjacent to each other
	uint64_t used_bytes; // what is not free
	uint64_t backed; // the heap has memory from its start up to this offset
	uint64_t freed; // no extent at or above this offset was ever given back
};

// Make room for more entries. Returns false when there is no memory.
bool weir_extents_reserve(struct weir_extents *array, size_t more);
// There is room: weir_extents_reserve has been called.
void weir_extents_insert(struct weir_extents *array, size_t at, struct weir_blob_extent extent);
void weir_extents_remove(struct weir_extents *array, size_t at, size_t n);

// All of the heap is free. Returns 0, -ENOMEM.
int weir_heap_init(struct weir_heap *heap, const struct weir_segment *segment);
// Before the segment is freed. A heap of zeroes is fine.
void weir_heap_fini(struct weir_heap *heap);

// Take the first free extent of so many bytes, a multiple of 64. Returns false: there is none.
bool weir_heap_take(struct weir_heap *heap, uint64_t bytes, uint64_t *ret_offset);
// Give an extent back. There is room for one more in `free`.
void weir_heap_give(struct weir_heap *heap, struct weir_blob_extent extent);

// Take this extent. Returns false when it is not free as a whole. There is room for one more in
// `free`.
bool weir_heap_carve(struct weir_heap *heap, struct weir_blob_extent extent);
// Take all that is free below an offset; it is appended to ret, which has room. Returns its bytes.
uint64_t weir_heap_take_below(struct weir_heap *heap, uint64_t top, struct weir_extents *ret);

// Allocate memory for the heap up to an offset, so that no access to it can fail. Returns false
// when the machine has none.
bool weir_heap_back(struct weir_heap *heap, uint64_t end);
// The same for other bytes of tables, by offsets from its start.
bool weir_tables_back(const struct weir_segment *segment, uint64_t from, uint64_t to);
