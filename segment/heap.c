// SPDX-License-Identifier: BSD-3-Clause
#include "heap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "poison.h"

#define BACKING_BYTES (256u << 10) // the heap grows in steps of this size

// --- growing arrays -----------------------------------------------------------------------

bool weir_extents_reserve(struct weir_extents *array, size_t more) {
	size_t capacity = array->capacity == 0 ? 16 : array->capacity;
	struct weir_blob_extent *item;

	while (capacity < array->count + more) {
		capacity *= 2;
	}
	if (capacity == array->capacity) {
		return true;
	}
	item = realloc(array->item, capacity * sizeof(*item));
	if (item == NULL) {
		return false;
	}
	array->item = item;
	array->capacity = capacity;
	return true;
}

void weir_extents_insert(struct weir_extents *array, size_t at, struct weir_blob_extent extent) {
	if (array->item == NULL) {
		return;
	}
	memmove(&array->item[at + 1], &array->item[at],
		(array->count - at) * sizeof(array->item[0]));
	array->item[at] = extent;
	array->count++;
}

void weir_extents_remove(struct weir_extents *array, size_t at, size_t n) {
	array->count -= n;
	memmove(&array->item[at], &array->item[at + n],
		(array->count - at) * sizeof(array->item[0]));
}

// --- free extents -------------------------------------------------------------------------

static uint8_t *at(const struct weir_heap *heap, uint64_t offset) {
	return heap->segment->tables + offset;
}

int weir_heap_init(struct weir_heap *heap, const struct weir_segment *segment) {
	struct weir_heap init = {.segment = segment, .backed = segment->heap_off};

	if (!weir_extents_reserve(&init.free, 1)) {
		return -ENOMEM;
	}
	weir_extents_insert(&init.free, 0,
		(struct weir_blob_extent){
			.offset = segment->heap_off, .bytes = segment->heap_bytes});
	*heap = init;
	return 0;
}

void weir_heap_fini(struct weir_heap *heap) {
	// Only the freed part of the heap is unpoisoned: unpoisoning the whole heap would write
	// half a gigabyte of ASan's shadow memory.
	if (heap->freed > 0) {
		ASAN_UNPOISON_MEMORY_REGION(
			at(heap, heap->segment->heap_off), heap->freed - heap->segment->heap_off);
	}
	free(heap->free.item);
}

// Returns the index of the first free extent that begins after an offset, or the number of free
// extents if there is none.
static size_t free_after(const struct weir_heap *heap, uint64_t offset) {
	size_t low = 0, high = heap->free.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (heap->free.item[middle].offset > offset) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return low;
}

void weir_heap_give(struct weir_heap *heap, struct weir_blob_extent extent) {
	struct weir_extents *free_list = &heap->free;
	size_t next = free_after(heap, extent.offset);
	struct weir_blob_extent *before = next > 0 ? &free_list->item[next - 1] : NULL;
	struct weir_blob_extent *after = next < free_list->count ? &free_list->item[next] : NULL;

	ASAN_POISON_MEMORY_REGION(at(heap, extent.offset), extent.bytes);
	if (extent.offset + extent.bytes > heap->freed) {
		heap->freed = extent.offset + extent.bytes;
	}
	heap->used_bytes -= extent.bytes;
	if (before != NULL && before->offset + before->bytes == extent.offset) {
		before->bytes += extent.bytes;
		if (after != NULL && before->offset + before->bytes == after->offset) {
			before->bytes += after->bytes;
			weir_extents_remove(free_list, next, 1);
		}
	} else if (after != NULL && extent.offset + extent.bytes == after->offset) {
		after->offset = extent.offset;
		after->bytes += extent.bytes;
	} else {
		weir_extents_insert(free_list, next, extent);
	}
}

// Allocates from the first extent that is large enough (first fit), so that low addresses are
// reused and the end of the heap stays unused.
bool weir_heap_take(struct weir_heap *heap, uint64_t bytes, uint64_t *ret_offset) {
	for (size_t i = 0; i < heap->free.count; i++) {
		struct weir_blob_extent *extent = &heap->free.item[i];

		if (extent->bytes < bytes) {
			continue;
		}
		*ret_offset = extent->offset;
		extent->offset += bytes;
		extent->bytes -= bytes;
		if (extent->bytes == 0) {
			weir_extents_remove(&heap->free, i, 1);
		}
		heap->used_bytes += bytes;
		ASAN_UNPOISON_MEMORY_REGION(at(heap, *ret_offset), bytes);
		return true;
	}
	return false;
}

bool weir_heap_carve(struct weir_heap *heap, struct weir_blob_extent extent) {
	size_t next = free_after(heap, extent.offset);
	uint64_t end = extent.offset + extent.bytes;
	struct weir_blob_extent *from;
	uint64_t from_end;

	if (next == 0) {
		return false;
	}
	from = &heap->free.item[next - 1];
	from_end = from->offset + from->bytes;
	if (end > from_end) {
		return false;
	}
	from->bytes = extent.offset - from->offset;
	if (end < from_end) {
		weir_extents_insert(&heap->free, next,
			(struct weir_blob_extent){.offset = end, .bytes = from_end - end});
	}
	if (heap->free.item[next - 1].bytes == 0) {
		weir_extents_remove(&heap->free, next - 1, 1);
	}
	heap->used_bytes += extent.bytes;
	return true;
}

uint64_t weir_heap_take_below(struct weir_heap *heap, uint64_t top, struct weir_extents *ret) {
	uint64_t bytes = 0;
	size_t kept = 0;

	for (size_t i = 0; i < heap->free.count; i++) {
		struct weir_blob_extent gap = heap->free.item[i];

		if (gap.offset < top) {
			uint64_t end = gap.offset + gap.bytes;
			uint64_t cut = end < top ? end : top;

			weir_extents_insert(ret, ret->count,
				(struct weir_blob_extent){gap.offset, cut - gap.offset});
			bytes += cut - gap.offset;
			gap.offset = cut;
			gap.bytes = end - cut;
		}
		if (gap.bytes > 0) {
			heap->free.item[kept++] = gap;
		}
	}
	heap->free.count = kept;
	heap->used_bytes += bytes;
	return bytes;
}

// --- memory -------------------------------------------------------------------------------

bool weir_tables_back(const struct weir_segment *segment, uint64_t from, uint64_t to) {
	while (fallocate(segment->tables_fd, 0, (off_t)from, (off_t)(to - from)) < 0) {
		if (errno != EINTR) {
			return false;
		}
	}
	return true;
}

bool weir_heap_back(struct weir_heap *heap, uint64_t end) {
	const struct weir_segment *segment = heap->segment;
	uint64_t heap_end = segment->heap_off + segment->heap_bytes;
	uint64_t to = (end + BACKING_BYTES - 1) / BACKING_BYTES * BACKING_BYTES;

	if (end <= heap->backed) {
		return true;
	}
	if (to > heap_end) {
		to = heap_end;
	}
	if (!weir_tables_back(segment, heap->backed, to)) {
		return false;
	}
	heap->backed = to;
	return true;
}
