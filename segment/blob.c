// SPDX-License-Identifier: BSD-3-Clause
#include "blob.h"

#include <string.h>

#define HEAD_BYTES 64

// A copy of a blob's header in private memory.
union head {
	struct weir_blob blob;
	struct weir_service_table services;
	struct weir_selection selection;
	uint64_t words[HEAD_BYTES / 8];
};
_Static_assert(sizeof(union head) == HEAD_BYTES, "every blob has a header of one cache line");

// Finds the blob that a reference points to, and copies the header of the blob. Returns false if
// the reference points outside the heap, or if the header does not match the reference or the kind.
static bool read_head(const struct weir_segment *segment, weir_ref ref, enum weir_blob_kind kind,
	struct weir_blob_extent *ret_extent, union head *ret_head) {
	uint64_t offset = weir_ref_offset(ref);
	uint64_t end = segment->heap_off + segment->heap_bytes;
	const uint64_t *from;
	union head head;

	if (ref == 0 || offset < segment->heap_off || offset >= end || end - offset < HEAD_BYTES) {
		return false;
	}
	from = (const uint64_t *)(const void *)(segment->tables + offset);
	for (unsigned int i = 0; i < HEAD_BYTES / 8; i++) {
		head.words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
	if (head.blob.kind != kind || head.blob.generation == 0 ||
		(uint32_t)head.blob.generation != weir_ref_generation(ref) ||
		head.blob.lines == 0 || head.blob.lines > (end - offset) / 64) {
		return false;
	}
	ret_extent->offset = offset;
	ret_extent->bytes = (uint64_t)head.blob.lines * 64;
	*ret_head = head;
	return true;
}

// Returns whether an array is aligned and is inside its blob, after the header.
static bool array_fits(
	uint64_t blob_bytes, uint64_t offset, uint32_t count, uint64_t size, uint64_t alignment) {
	return offset >= HEAD_BYTES && offset <= blob_bytes && offset % alignment == 0 &&
	       count <= (blob_bytes - offset) / size;
}

bool weir_blob_services(const struct weir_segment *segment, weir_ref ref,
	struct weir_blob_extent *ret_extent, struct weir_services_view *ret) {
	struct weir_blob_extent extent;
	union head head;

	if (!read_head(segment, ref, WEIR_BLOB_SERVICES, &extent, &head)) {
		return false;
	}
	const struct weir_service_table *table = &head.services;
	const uint8_t *base = segment->tables + extent.offset;

	if (table->buckets == 0 || (table->buckets & (table->buckets - 1)) != 0 ||
		!array_fits(extent.bytes, table->buckets_off, table->buckets,
			sizeof(struct weir_bind), 32) ||
		!array_fits(extent.bytes, table->ranges_off, table->ranges,
			sizeof(struct weir_bind_range), 8)) {
		return false;
	}
	ret->generation = head.blob.generation;
	ret->buckets = (const struct weir_bind *)(const void *)(base + table->buckets_off);
	ret->ranges = (const struct weir_bind_range *)(const void *)(base + table->ranges_off);
	ret->bucket_mask = table->buckets - 1;
	ret->range_count = table->ranges;
	ret->hash_seed = table->hash_seed;
	ret->ended = table->ended > 0;
	*ret_extent = extent;
	return true;
}

// Returns whether the settings of a selection are valid. A policy that this version does not have
// is invalid.
static bool settings_sound(const struct weir_policy_settings *settings) {
	return settings->policy < WEIR_POLICY_COUNT &&
	       (settings->needs & WEIR_NEEDS_OF_POLICY) ==
		       (weir_policy_needs((enum weir_policy)settings->policy) &
			       WEIR_NEEDS_OF_POLICY) &&
	       (settings->rounds & ~(WEIR_ROUNDS_BITS | WEIR_UDP_DATAGRAM)) == 0 &&
	       settings->error_window_ms > 0 && settings->when_exhausted <= WEIR_EXHAUSTED_REJECT &&
	       (settings->hash4 & WEIR_HASH_BITS) <= 32 && settings->hash6 <= 128;
}

// Returns whether a subset has the arrays that its policy reads, and whether its arrays are inside
// the blob.
static bool subset_sound(const struct weir_selection_subset *subset,
	const struct weir_policy_settings *settings, uint64_t blob_bytes) {
	bool any = subset->candidates > 0;

	return subset->slots <= WEIR_TABLE_SLOTS_MAX && subset->rounds <= subset->candidates &&
	       (subset->slots > 0) == any &&
	       (subset->rounds > 0) == (any && (settings->needs & WEIR_NEEDS_ROUNDS) != 0) &&
	       array_fits(blob_bytes, subset->candidates_off, subset->candidates,
		       sizeof(struct weir_candidate), 8) &&
	       array_fits(blob_bytes, subset->slots_off, subset->slots, sizeof(uint16_t), 2) &&
	       array_fits(blob_bytes, subset->rounds_off, subset->rounds, sizeof(struct weir_round),
		       8);
}

// Copies the header of a selection, and checks the fields that apply to all of its subsets. Returns
// false if a field is invalid.
static bool read_selection(const struct weir_segment *segment, uint16_t service, weir_ref ref,
	struct weir_blob_extent *ret_extent, struct weir_selection *ret) {
	struct weir_blob_extent extent;
	union head head;

	if (!read_head(segment, ref, WEIR_BLOB_SELECTION, &extent, &head) ||
		head.selection.service != service || head.selection.subsets == 0 ||
		head.selection.subsets > WEIR_WORKERS_MAX ||
		!settings_sound(&head.selection.settings) ||
		!array_fits(extent.bytes, head.selection.others_off, head.selection.subsets - 1u,
			sizeof(struct weir_selection_subset), 8)) {
		return false;
	}
	*ret_extent = extent;
	*ret = head.selection;
	return true;
}

// Returns a private copy of the description of a worker's subset. base: start of the selection in
// the segment.
static struct weir_selection_subset read_subset(
	const struct weir_selection *selection, const uint8_t *base, uint32_t worker) {
	union {
		struct weir_selection_subset subset;
		uint64_t words[sizeof(struct weir_selection_subset) / 8];
	} copy = {.subset = selection->first};
	uint32_t number = worker % selection->subsets;

	if (number > 0) {
		const uint64_t *from =
			(const uint64_t *)(const void *)(base + selection->others_off +
							 (number - 1) * sizeof(copy));

		for (unsigned int i = 0; i < sizeof(copy) / 8; i++) {
			copy.words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
		}
	}
	return copy.subset;
}

bool weir_blob_selection(const struct weir_segment *segment, uint16_t service, weir_ref ref,
	uint32_t worker, struct weir_blob_extent *ret_extent, struct weir_selection_view *ret) {
	struct weir_selection_subset subset;
	struct weir_selection selection;
	struct weir_blob_extent extent;
	const uint8_t *base;

	if (!read_selection(segment, service, ref, &extent, &selection)) {
		return false;
	}
	base = segment->tables + extent.offset;
	subset = read_subset(&selection, base, worker);
	if (!subset_sound(&subset, &selection.settings, extent.bytes)) {
		return false;
	}
	*ret = (struct weir_selection_view){.generation = selection.blob.generation,
		.table = {
			.candidates = (const struct weir_candidate *)(const void
					*)(base + subset.candidates_off),
			.slots = (const uint16_t *)(const void *)(base + subset.slots_off),
			.rounds =
				(const struct weir_round *)(const void *)(base + subset.rounds_off),
			.count = subset.candidates,
			.slot_count = subset.slots,
			.round_count = subset.rounds,
			.settings = selection.settings,
			.affinity_ms = subset.affinity_ms,
		}};
	*ret_extent = extent;
	return true;
}

uint32_t weir_blob_subsets(const struct weir_segment *segment, uint16_t service, weir_ref ref) {
	struct weir_selection selection;
	struct weir_blob_extent extent;

	return read_selection(segment, service, ref, &extent, &selection) ? selection.subsets : 0;
}
