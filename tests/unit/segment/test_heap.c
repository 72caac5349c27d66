// SPDX-License-Identifier: BSD-3-Clause
//
// Heap: low addresses are used first, and no memory stays poisoned (AddressSanitizer) at the end.
#include "heap.h"

#include "poison.h"
#include "segment_lab.h"

static struct weir_heap heap_of(const struct weir_segment *segment) {
	struct weir_heap heap;

	assert_int_equal(weir_heap_init(&heap, segment), 0);
	assert_true(weir_extents_reserve(&heap.free, 8));
	return heap;
}

static struct weir_blob_extent take(struct weir_heap *heap, uint64_t bytes) {
	struct weir_blob_extent extent = {.bytes = bytes};

	assert_true(weir_heap_take(heap, bytes, &extent.offset));
	return extent;
}

TEST(low_addresses_are_reused) {
	struct weir_segment *segment = fixture_segment(FIXTURE_HEAP_BYTES);
	struct weir_heap heap = heap_of(segment);
	struct weir_blob_extent first = take(&heap, 128), second = take(&heap, 4096);

	assert_int_equal(first.offset, segment->heap_off);
	assert_int_equal(second.offset, segment->heap_off + 128);
	weir_heap_give(&heap, first);
	assert_int_equal(take(&heap, 256).offset, second.offset + 4096);
	assert_int_equal(take(&heap, 64).offset, first.offset);
	assert_int_equal(heap.used_bytes, 4096 + 256 + 64);
	weir_heap_fini(&heap);
	weir_segment_free(segment);
}

// Other memory may later be mapped at the same address, so it must not stay poisoned.
TEST(freed_memory_is_unpoisoned_at_the_end) {
	struct weir_segment *segment = fixture_segment(FIXTURE_HEAP_BYTES);
	struct weir_heap heap = heap_of(segment);
	struct weir_blob_extent first = take(&heap, 128), second = take(&heap, 4096);
	struct weir_blob_extent third = take(&heap, 64);

	assert_int_equal(heap.freed, 0);
	weir_heap_give(&heap, second);
	assert_int_equal(heap.freed, third.offset);
	weir_heap_give(&heap, first);
	assert_int_equal(heap.freed, third.offset);
	weir_heap_give(&heap, third);
	assert_int_equal(heap.freed, third.offset + 64);
	weir_heap_fini(&heap);
	assert_null(
		__asan_region_is_poisoned(segment->tables + segment->heap_off, FIXTURE_HEAP_BYTES));
	weir_segment_free(segment);
}
