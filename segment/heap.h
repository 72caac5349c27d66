// SPDX-License-Identifier: BSD-3-Clause
//
// Heap: manages the free parts of the segment's heap, and the memory that backs the used parts.
// Used by writer.c only. The heap does not depend on the contents of the used parts, or on the
// workers that read them.
//
// The state of the heap is private memory of the control process. Under ASan, freed extents are
// poisoned until they are allocated again, which detects a use after free by a reader in the same
// process.
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
	struct weir_extents free; // sorted by offset, never adjacent to each other
	uint64_t used_bytes; // bytes that are not free
	uint64_t backed; // the heap is backed by memory from its start up to this offset
	uint64_t freed; // all freed extents were below this offset
};

// Make room for `more` additional entries. Returns false if out of memory.
bool weir_extents_reserve(struct weir_extents *array, size_t more);
// Insert an extent at index `at`. Call weir_extents_reserve first.
void weir_extents_insert(struct weir_extents *array, size_t at, struct weir_blob_extent extent);
void weir_extents_remove(struct weir_extents *array, size_t at, size_t n);

// Initialize the state; the whole heap is free. Returns 0 or -ENOMEM.
int weir_heap_init(struct weir_heap *heap, const struct weir_segment *segment);
// Free the heap's state. Call before the segment is freed. A zeroed heap is allowed.
void weir_heap_fini(struct weir_heap *heap);

// Allocate this many bytes, a multiple of 64, from the first free extent that is large enough.
// *ret_offset: offset of the allocated bytes from the start of tables. Returns false if no free
// extent is large enough.
bool weir_heap_take(struct weir_heap *heap, uint64_t bytes, uint64_t *ret_offset);
// Free an extent. `free` must have room for one more entry.
void weir_heap_give(struct weir_heap *heap, struct weir_blob_extent extent);

// Allocate exactly this extent. Returns false if any part of it is not free. `free` must have
// room for one more entry.
bool weir_heap_carve(struct weir_heap *heap, struct weir_blob_extent extent);
// Remove the free space below the offset `top` from the heap, and append its extents to ret, which
// must have room for them. Returns the size of this space, in bytes.
uint64_t weir_heap_take_below(struct weir_heap *heap, uint64_t top, struct weir_extents *ret);

// Allocate memory for the heap from its start to the offset `end`, so that no access to this part
// can fail. Returns false if out of memory.
bool weir_heap_back(struct weir_heap *heap, uint64_t end);
// Allocate memory for a range of tables. from, to: offsets from the start of tables. Returns false
// if out of memory.
bool weir_tables_back(const struct weir_segment *segment, uint64_t from, uint64_t to);
