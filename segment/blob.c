// SPDX-License-Identifier: BSD-3-Clause
#include "blob.h"

#include <string.h>

#define HEAD_BYTES 64

// Any blob's header, as read once.
union head {
	struct weir_blob blob;
	struct weir_service_table services;
	struct weir_backend_table backends;
	struct weir_selection selection;
	struct weir_identity identity;
	uint64_t words[HEAD_BYTES / 8];
};
_Static_assert(sizeof(union head) == HEAD_BYTES, "every blob has a header of one cache line");

// Find the blob of a reference and read its header.
static bool read_head(const struct weir_segment *segment, weir_ref ref, enum weir_blob_kind kind,
	struct weir_blob_extent *ret_extent, union head *ret_head) {
	uint64_t offset = weir_ref_offset(ref);
	uint64_t end = segment->heap_off + segment->heap_bytes;
	const uint64_t *from;
	union head head;

	if (weir_ref_generation(ref) == 0 || offset < segment->heap_off || offset >= end ||
		end - offset < HEAD_BYTES) {
		return false;
	}
	from = (const uint64_t *)(const void *)(segment->base + offset);
	for (unsigned int i = 0; i < HEAD_BYTES / 8; i++) {
		head.words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
	if (head.blob.kind != kind || head.blob.generation != weir_ref_generation(ref) ||
		head.blob.bytes < HEAD_BYTES || head.blob.bytes % 64 != 0 ||
		head.blob.bytes > end - offset) {
		return false;
	}
	ret_extent->offset = offset;
	ret_extent->bytes = head.blob.bytes;
	*ret_head = head;
	return true;
}

// Whether an array lies inside its blob, behind the header, aligned.
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
	const uint8_t *base = segment->base + extent.offset;

	if (table->buckets == 0 || (table->buckets & (table->buckets - 1)) != 0 ||
		!array_fits(extent.bytes, table->buckets_off, table->buckets,
			sizeof(struct weir_bind), 32) ||
		!array_fits(extent.bytes, table->ranges_off, table->ranges,
			sizeof(struct weir_bind_range), 8)) {
		return false;
	}
	ret->buckets = (const struct weir_bind *)(const void *)(base + table->buckets_off);
	ret->ranges = (const struct weir_bind_range *)(const void *)(base + table->ranges_off);
	ret->bucket_mask = table->buckets - 1;
	ret->range_count = table->ranges;
	ret->hash_seed = table->hash_seed;
	*ret_extent = extent;
	return true;
}

bool weir_blob_backends(const struct weir_segment *segment, weir_ref ref,
	struct weir_blob_extent *ret_extent, struct weir_backends_view *ret) {
	struct weir_blob_extent extent;
	union head head;

	if (!read_head(segment, ref, WEIR_BLOB_BACKENDS, &extent, &head)) {
		return false;
	}
	const struct weir_backend_table *table = &head.backends;

	// The rows' number is what bounds a backend id, and ids index counters.
	if (table->rows > segment->max_backends ||
		!array_fits(extent.bytes, table->rows_off, table->rows,
			sizeof(struct weir_backend_row), 64)) {
		return false;
	}
	ret->rows = (const struct weir_backend_row *)(const void *)(segment->base + extent.offset +
								    table->rows_off);
	ret->count = table->rows;
	*ret_extent = extent;
	return true;
}

// Whether a selection has what its policy reads. A policy of a later version is not sound.
static bool counts_sound(const struct weir_selection *selection) {
	const struct weir_policy_settings *settings = &selection->settings;
	bool any = selection->candidates > 0;

	return selection->candidates < WEIR_BACKENDS_MAX &&
	       selection->slots <= WEIR_TABLE_SLOTS_MAX &&
	       selection->rounds <= selection->candidates && settings->policy < WEIR_POLICY_COUNT &&
	       (selection->slots > 0) == any &&
	       (selection->rounds > 0) == (any && (settings->needs & WEIR_NEEDS_ROUNDS) != 0) &&
	       (settings->needs & WEIR_NEEDS_OF_POLICY) ==
		       weir_policy_needs((enum weir_policy)settings->policy) &&
	       settings->error_window_ms > 0 && settings->when_exhausted <= WEIR_EXHAUSTED_REJECT;
}

bool weir_blob_selection(const struct weir_segment *segment, uint16_t service, weir_ref ref,
	struct weir_blob_extent *ret_extent, struct weir_selection_view *ret) {
	struct weir_blob_extent extent;
	union head head;

	if (!read_head(segment, ref, WEIR_BLOB_SELECTION, &extent, &head)) {
		return false;
	}
	const struct weir_selection *selection = &head.selection;
	const uint8_t *base = segment->base + extent.offset;

	if (selection->service != service || !counts_sound(selection) ||
		!array_fits(extent.bytes, selection->candidates_off, selection->candidates,
			sizeof(struct weir_candidate), 8) ||
		!array_fits(extent.bytes, selection->slots_off, selection->slots, sizeof(uint16_t),
			2) ||
		!array_fits(extent.bytes, selection->rounds_off, selection->rounds,
			sizeof(struct weir_round), 8)) {
		return false;
	}
	*ret = (struct weir_selection_view){.ref = ref,
		.table = {
			.candidates = (const struct weir_candidate *)(const void
					*)(base + selection->candidates_off),
			.slots = (const uint16_t *)(const void *)(base + selection->slots_off),
			.rounds = (const struct weir_round *)(const void *)(base +
									    selection->rounds_off),
			.count = selection->candidates,
			.slot_count = selection->slots,
			.round_count = selection->rounds,
			.settings = selection->settings,
		}};
	*ret_extent = extent;
	return true;
}

bool weir_blob_identity(
	const struct weir_segment *segment, weir_ref ref, struct weir_blob_extent *ret_extent) {
	struct weir_blob_extent extent;
	union head head;

	if (!read_head(segment, ref, WEIR_BLOB_IDENTITY, &extent, &head) ||
		head.identity.services > segment->max_services ||
		head.identity.backends > segment->max_backends ||
		!array_fits(extent.bytes, head.identity.services_off, head.identity.services,
			sizeof(struct weir_identity_service), 8) ||
		!array_fits(extent.bytes, head.identity.backends_off, head.identity.backends,
			sizeof(struct weir_identity_backend), 8)) {
		return false;
	}
	*ret_extent = extent;
	return true;
}
