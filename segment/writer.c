// SPDX-License-Identifier: BSD-3-Clause
//
// The life of an extent of the heap:
//
//   free -> owned (alloc) -> live (publish) -> retired (replaced) -> free (after a grace period)
//
// Retired extents wait in one queue, in the order in which they were retired. One grace period at
// a time is under way; it covers a prefix of the queue, whatever its length.
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <rte_rcu_qsbr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "blob.h"

#if defined(__SANITIZE_ADDRESS__)
#define WEIR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_ASAN 1
#endif
#endif
#ifdef WEIR_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

#define LINE_BYTES 64
#define POLL_NS 50000
#define BACKING_BYTES (256u << 10) // the heap grows in steps of this

// Offsets are from the start of the segment.
struct extents { // growing array
	struct weir_blob_extent *item;
	size_t count;
	size_t capacity;
};

struct live {
	struct weir_blob_extent extent; // bytes 0 = nothing published
};

struct weir_writer {
	struct weir_segment *segment;
	uint32_t generation; // last one given out
	uint64_t backed; // the heap has memory from its start up to this offset
	uint64_t freed; // no extent at or above this offset was ever given back
	uint64_t used_bytes;
	uint64_t retired_bytes;
	uint32_t dropped_roots;
	struct extents free; // by offset, never adjacent to each other
	struct extents owned;
	struct extents retired; // queue, oldest first
	size_t waiting; // of the queue: covered by the grace period under way
	uint64_t token; // of the grace period under way, if waiting > 0
	struct live identity, services, backends;
	struct live selection[]; // [max_services]
};

// --- growing arrays -----------------------------------------------------------------------

static bool extents_reserve(struct extents *array, size_t more) {
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

static void extents_insert(struct extents *array, size_t at, struct weir_blob_extent extent) {
	memmove(&array->item[at + 1], &array->item[at],
		(array->count - at) * sizeof(array->item[0]));
	array->item[at] = extent;
	array->count++;
}

static void extents_remove(struct extents *array, size_t at, size_t n) {
	array->count -= n;
	memmove(&array->item[at], &array->item[at + n],
		(array->count - at) * sizeof(array->item[0]));
}

// --- the heap -----------------------------------------------------------------------------

static uint8_t *at(const struct weir_writer *writer, uint64_t offset) {
	return writer->segment->base + offset;
}

// Every extent that is not free may come back, alone between two others: with room for one more
// entry than there are of those, heap_free never has to allocate.
static bool reserve_for_one_more(struct weir_writer *writer) {
	size_t extents =
		writer->owned.count + writer->retired.count + writer->segment->max_services + 3 + 2;

	return extents_reserve(&writer->owned, 1) &&
	       extents_reserve(&writer->retired,
		       writer->segment->max_services + 3 + writer->owned.count + 2) &&
	       extents_reserve(&writer->free, extents);
}

// Index of the first free extent behind an offset.
static size_t free_after(const struct weir_writer *writer, uint64_t offset) {
	size_t low = 0, high = writer->free.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (writer->free.item[middle].offset > offset) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return low;
}

static void heap_free(struct weir_writer *writer, struct weir_blob_extent extent) {
	struct extents *free_list = &writer->free;
	size_t next = free_after(writer, extent.offset);
	struct weir_blob_extent *before = next > 0 ? &free_list->item[next - 1] : NULL;
	struct weir_blob_extent *after = next < free_list->count ? &free_list->item[next] : NULL;

	ASAN_POISON_MEMORY_REGION(at(writer, extent.offset), extent.bytes);
	if (extent.offset + extent.bytes > writer->freed) {
		writer->freed = extent.offset + extent.bytes;
	}
	writer->used_bytes -= extent.bytes;
	if (before != NULL && before->offset + before->bytes == extent.offset) {
		before->bytes += extent.bytes;
		if (after != NULL && before->offset + before->bytes == after->offset) {
			before->bytes += after->bytes;
			extents_remove(free_list, next, 1);
		}
	} else if (after != NULL && extent.offset + extent.bytes == after->offset) {
		after->offset = extent.offset;
		after->bytes += extent.bytes;
	} else {
		extents_insert(free_list, next, extent);
	}
}

// First fit: low addresses are used again and again, the heap's far end stays untouched.
static bool heap_take(struct weir_writer *writer, uint64_t bytes, uint64_t *ret_offset) {
	for (size_t i = 0; i < writer->free.count; i++) {
		struct weir_blob_extent *extent = &writer->free.item[i];

		if (extent->bytes < bytes) {
			continue;
		}
		*ret_offset = extent->offset;
		extent->offset += bytes;
		extent->bytes -= bytes;
		if (extent->bytes == 0) {
			extents_remove(&writer->free, i, 1);
		}
		writer->used_bytes += bytes;
		return true;
	}
	return false;
}

// Allocate memory for the heap up to an offset, so that no access to it can fail.
static bool heap_back(struct weir_writer *writer, uint64_t end) {
	const struct weir_segment *segment = writer->segment;
	uint64_t heap_end = segment->heap_off + segment->heap_bytes;
	uint64_t to = (end + BACKING_BYTES - 1) / BACKING_BYTES * BACKING_BYTES;

	if (end <= writer->backed) {
		return true;
	}
	if (to > heap_end) {
		to = heap_end;
	}
	while (fallocate(segment->fd, 0, (off_t)writer->backed, (off_t)(to - writer->backed)) < 0) {
		if (errno != EINTR) {
			return false;
		}
	}
	writer->backed = to;
	return true;
}

// --- open and close -----------------------------------------------------------------------

static weir_ref *root_ref(const struct weir_writer *writer, struct weir_root root) {
	struct weir_roots *roots = writer->segment->roots;

	switch (root.kind) {
	case WEIR_BLOB_IDENTITY:
		return &roots->identity;
	case WEIR_BLOB_BACKENDS:
		return &roots->backends;
	case WEIR_BLOB_SERVICES:
		return &roots->services;
	case WEIR_BLOB_SELECTION:
		return root.service < writer->segment->max_services
			       ? &roots->selection[root.service]
			       : NULL;
	}
	return NULL;
}

static struct live *root_live(struct weir_writer *writer, struct weir_root root) {
	switch (root.kind) {
	case WEIR_BLOB_IDENTITY:
		return &writer->identity;
	case WEIR_BLOB_BACKENDS:
		return &writer->backends;
	case WEIR_BLOB_SERVICES:
		return &writer->services;
	case WEIR_BLOB_SELECTION:
		return root.service < writer->segment->max_services
			       ? &writer->selection[root.service]
			       : NULL;
	}
	return NULL;
}

static bool check_root(const struct weir_writer *writer, struct weir_root root, weir_ref ref,
	struct weir_blob_extent *ret_extent) {
	const struct weir_segment *segment = writer->segment;
	struct weir_selection_view selection;
	struct weir_services_view services;
	struct weir_backends_view backends;

	switch (root.kind) {
	case WEIR_BLOB_IDENTITY:
		return weir_blob_identity(segment, ref, ret_extent);
	case WEIR_BLOB_BACKENDS:
		return weir_blob_backends(segment, ref, ret_extent, &backends);
	case WEIR_BLOB_SERVICES:
		return weir_blob_services(segment, ref, ret_extent, &services);
	case WEIR_BLOB_SELECTION:
		return weir_blob_selection(segment, root.service, ref, 0, ret_extent, &selection);
	}
	return false;
}

// Take a published blob over, out of the free extents. False: it overlaps one already taken.
static bool carve(struct weir_writer *writer, struct weir_blob_extent extent) {
	size_t next = free_after(writer, extent.offset);
	uint64_t end = extent.offset + extent.bytes;
	struct weir_blob_extent *from;
	uint64_t from_end;

	if (next == 0) {
		return false;
	}
	from = &writer->free.item[next - 1];
	from_end = from->offset + from->bytes;
	if (end > from_end) {
		return false;
	}
	from->bytes = extent.offset - from->offset;
	if (end < from_end) {
		extents_insert(&writer->free, next,
			(struct weir_blob_extent){.offset = end, .bytes = from_end - end});
	}
	if (writer->free.item[next - 1].bytes == 0) {
		extents_remove(&writer->free, next - 1, 1);
	}
	writer->used_bytes += extent.bytes;
	return true;
}

static void adopt_root(struct weir_writer *writer, struct weir_root root) {
	weir_ref *ref = root_ref(writer, root);
	weir_ref value = __atomic_load_n(ref, __ATOMIC_ACQUIRE);
	struct weir_blob_extent extent;

	if (value == 0) {
		return;
	}
	if (!check_root(writer, root, value, &extent) || !carve(writer, extent)) {
		__atomic_store_n(ref, 0, __ATOMIC_RELEASE);
		writer->dropped_roots++;
		return;
	}
	root_live(writer, root)->extent = extent;
	if (weir_ref_generation(value) > writer->generation) {
		writer->generation = weir_ref_generation(value);
	}
}

// What lies free among the heap's used part may have been retired, or be about to be, when the
// process before us ended: workers may still read it. It waits for a grace period like the rest.
static void retire_gaps(struct weir_writer *writer) {
	const struct weir_segment *segment = writer->segment;
	uint64_t used = __atomic_load_n(&segment->roots->heap_used, __ATOMIC_RELAXED);
	uint64_t heap_end = segment->heap_off + segment->heap_bytes;
	uint64_t top = heap_end;
	size_t kept = 0;

	if (used <= segment->heap_bytes && used % LINE_BYTES == 0) {
		top = segment->heap_off + used;
	}
	for (size_t i = 0; i < writer->free.count; i++) {
		struct weir_blob_extent gap = writer->free.item[i];

		if (gap.offset < top) {
			uint64_t end = gap.offset + gap.bytes;
			uint64_t cut = end < top ? end : top;
			struct weir_blob_extent retired = {gap.offset, cut - gap.offset};

			writer->retired.item[writer->retired.count++] = retired;
			writer->retired_bytes += retired.bytes;
			writer->used_bytes += retired.bytes;
			gap.offset = cut;
			gap.bytes = end - cut;
		}
		if (gap.bytes > 0) {
			writer->free.item[kept++] = gap;
		}
	}
	writer->free.count = kept;
}

static bool reserve_for_open(struct weir_writer *writer) {
	size_t roots = writer->segment->max_services + 3;

	// Gaps between the roots' blobs, and then those blobs, may be in the queue together.
	return extents_reserve(&writer->free, roots + 2) &&
	       extents_reserve(&writer->retired, 2 * roots + 2) &&
	       extents_reserve(&writer->owned, 1);
}

int weir_writer_open(struct weir_segment *segment, struct weir_writer **ret) {
	struct weir_roots *roots = segment->roots;
	struct weir_writer *writer;

	writer = calloc(1, sizeof(*writer) + segment->max_services * sizeof(writer->selection[0]));
	if (writer == NULL) {
		return -ENOMEM;
	}
	writer->segment = segment;
	writer->backed = segment->heap_off;
	writer->generation = (uint32_t)__atomic_load_n(&roots->generation, __ATOMIC_RELAXED);
	if (!reserve_for_open(writer)) {
		weir_writer_free(writer);
		return -ENOMEM;
	}
	writer->free.item[0] = (struct weir_blob_extent){
		.offset = segment->heap_off, .bytes = segment->heap_bytes};
	writer->free.count = 1;
	adopt_root(writer, (struct weir_root){.kind = WEIR_BLOB_IDENTITY});
	adopt_root(writer, (struct weir_root){.kind = WEIR_BLOB_BACKENDS});
	adopt_root(writer, (struct weir_root){.kind = WEIR_BLOB_SERVICES});
	for (uint32_t service = 0; service < segment->max_services; service++) {
		adopt_root(writer, (struct weir_root){.kind = WEIR_BLOB_SELECTION,
					   .service = (uint16_t)service});
	}
	retire_gaps(writer);
	weir_writer_reclaim(writer);
	__atomic_store_n(&roots->control_pid, (uint64_t)getpid(), __ATOMIC_RELAXED);
	*ret = writer;
	return 0;
}

void weir_writer_free(struct weir_writer *writer) {
	if (writer == NULL) {
		return;
	}
	// Not the whole heap: that writes half a gigabyte of ASan's shadow memory.
	if (writer->freed > 0) {
		ASAN_UNPOISON_MEMORY_REGION(at(writer, writer->segment->heap_off),
			writer->freed - writer->segment->heap_off);
	}
	__atomic_store_n(&writer->segment->roots->control_pid, 0, __ATOMIC_RELAXED);
	free(writer->free.item);
	free(writer->owned.item);
	free(writer->retired.item);
	free(writer);
}

// --- blobs --------------------------------------------------------------------------------

static uint32_t next_generation(struct weir_writer *writer) {
	writer->generation++;
	if (writer->generation == 0) {
		writer->generation = 1;
	}
	return writer->generation;
}

// Record how far the heap is used, before it is, for the next control process.
static void note_used(const struct weir_writer *writer, uint64_t end) {
	struct weir_roots *roots = writer->segment->roots;
	uint64_t used = end - writer->segment->heap_off;

	if (used > __atomic_load_n(&roots->heap_used, __ATOMIC_RELAXED)) {
		__atomic_store_n(&roots->heap_used, used, __ATOMIC_RELEASE);
	}
}

void *weir_writer_alloc(struct weir_writer *writer, enum weir_blob_kind kind, uint64_t bytes) {
	struct weir_blob_extent extent;
	struct weir_blob *blob;

	if (kind < WEIR_BLOB_SERVICES || kind > WEIR_BLOB_IDENTITY || bytes < sizeof(*blob)) {
		errno = EINVAL;
		return NULL;
	}
	if (bytes > writer->segment->heap_bytes || !reserve_for_one_more(writer)) {
		errno = ENOSPC;
		return NULL;
	}
	extent.bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	if (!heap_take(writer, extent.bytes, &extent.offset)) {
		weir_writer_reclaim(writer);
		if (!heap_take(writer, extent.bytes, &extent.offset)) {
			errno = ENOSPC;
			return NULL;
		}
	}
	if (!heap_back(writer, extent.offset + extent.bytes)) {
		heap_free(writer, extent);
		errno = ENOSPC;
		return NULL;
	}
	note_used(writer, extent.offset + extent.bytes);
	blob = (struct weir_blob *)(void *)at(writer, extent.offset);
	ASAN_UNPOISON_MEMORY_REGION(blob, extent.bytes);
	memset(blob, 0, extent.bytes);
	blob->kind = kind;
	blob->generation = next_generation(writer);
	blob->bytes = extent.bytes;
	writer->owned.item[writer->owned.count++] = extent;
	return blob;
}

// Take a blob from its owner. False: the owner has no such blob.
static bool disown(struct weir_writer *writer, const void *blob, struct weir_blob_extent *ret) {
	uint64_t offset = (uint64_t)((const uint8_t *)blob - writer->segment->base);

	for (size_t i = 0; i < writer->owned.count; i++) {
		if (writer->owned.item[i].offset == offset) {
			*ret = writer->owned.item[i];
			extents_remove(&writer->owned, i, 1);
			return true;
		}
	}
	return false;
}

void weir_writer_discard(struct weir_writer *writer, void *blob) {
	struct weir_blob_extent extent;

	if (blob != NULL && disown(writer, blob, &extent)) {
		heap_free(writer, extent);
	}
}

int weir_writer_publish(struct weir_writer *writer, struct weir_root root, void *blob) {
	struct weir_roots *roots = writer->segment->roots;
	struct weir_blob_extent extent = {0};
	weir_ref *ref = root_ref(writer, root);
	struct live *live = root_live(writer, root);
	const struct weir_blob *header = blob;
	weir_ref value = 0;

	if (blob != NULL && !disown(writer, blob, &extent)) {
		return -EINVAL;
	}
	if (ref == NULL || (header != NULL && header->kind != root.kind)) {
		if (header != NULL) {
			heap_free(writer, extent);
		}
		return -EINVAL;
	}
	if (header != NULL) {
		value = weir_ref_make(header->generation, extent.offset);
	}
	// Stored before the reference, so that no generation is used twice.
	__atomic_store_n(&roots->generation, writer->generation, __ATOMIC_RELEASE);
	__atomic_store_n(ref, value, __ATOMIC_RELEASE);
	__atomic_store_n(&roots->publications, roots->publications + 1, __ATOMIC_RELAXED);
	if (live->extent.bytes != 0) {
		writer->retired.item[writer->retired.count++] = live->extent;
		writer->retired_bytes += live->extent.bytes;
	}
	live->extent = extent;
	return 0;
}

const void *weir_writer_current(const struct weir_writer *writer, struct weir_root root) {
	const struct live *live = root_live((struct weir_writer *)writer, root);

	return live != NULL && live->extent.bytes != 0 ? at(writer, live->extent.offset) : NULL;
}

// --- reclamation --------------------------------------------------------------------------

uint64_t weir_writer_mark(struct weir_writer *writer) {
	return rte_rcu_qsbr_start(writer->segment->qsbr);
}

bool weir_writer_passed(struct weir_writer *writer, uint64_t mark) {
	return rte_rcu_qsbr_check(writer->segment->qsbr, mark, false) == 1;
}

unsigned int weir_writer_reclaim(struct weir_writer *writer) {
	struct extents *retired = &writer->retired;

	while (retired->count > 0) {
		if (writer->waiting == 0) {
			writer->token = weir_writer_mark(writer);
			writer->waiting = retired->count;
		}
		if (!weir_writer_passed(writer, writer->token)) {
			break;
		}
		for (size_t i = 0; i < writer->waiting; i++) {
			writer->retired_bytes -= retired->item[i].bytes;
			heap_free(writer, retired->item[i]);
		}
		extents_remove(retired, 0, writer->waiting);
		writer->waiting = 0;
	}
	return (unsigned int)retired->count;
}

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int weir_writer_synchronize(struct weir_writer *writer, unsigned int timeout_ms) {
	const struct timespec pause = {.tv_nsec = POLL_NS};
	uint64_t end = now_ms() + timeout_ms;

	while (weir_writer_reclaim(writer) > 0) {
		if (now_ms() > end) {
			return -ETIMEDOUT;
		}
		nanosleep(&pause, NULL);
	}
	return 0;
}

// --- usage --------------------------------------------------------------------------------

void weir_writer_usage(const struct weir_writer *writer, struct weir_writer_usage *ret) {
	const struct weir_segment *segment = writer->segment;
	struct weir_writer_usage usage = {
		.heap_bytes = segment->heap_bytes,
		.used_bytes = writer->used_bytes,
		.retired_bytes = writer->retired_bytes,
		.dropped_roots = writer->dropped_roots,
	};
	struct stat st;

	// Everything but the heap has its memory from the start.
	if (fstat(segment->fd, &st) == 0 && (uint64_t)st.st_blocks * 512 > segment->heap_off) {
		usage.backed_bytes = (uint64_t)st.st_blocks * 512 - segment->heap_off;
	}
	usage.blobs = (writer->identity.extent.bytes != 0) + (writer->backends.extent.bytes != 0) +
		      (writer->services.extent.bytes != 0);
	for (uint32_t service = 0; service < segment->max_services; service++) {
		usage.blobs += writer->selection[service].extent.bytes != 0;
	}
	*ret = usage;
}
