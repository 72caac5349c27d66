// SPDX-License-Identifier: BSD-3-Clause
//
// States of an extent of the heap:
//
//   free -> owned (alloc) -> live (publish) -> retired (replaced) -> free (after a grace period)
//
// Retired extents wait in one queue, in the order in which they were retired. Only one grace period
// for extents is in progress at a time; it covers any number of extents at the start of the queue.
#include "writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "blob.h"
#include "grace.h"
#include "heap.h"
#include "probes.h"
#include "reader.h"

#define LINE_BYTES 64
#define POLL_NS 50000

// Limit for the bytes of extents that wait for a grace period: this multiple of the other bytes in
// use, but at least RETIRED_LEAST. Without a limit, the heap would grow without bound while a
// worker is stalled.
#define RETIRED_SHARE 4u
#define RETIRED_LEAST (16u << 20)

struct live {
	struct weir_blob_extent extent; // bytes 0 = nothing published
	uint64_t generation;
	// The previous blob, in the queue of retired blobs; restored if a worker refuses the
	// current blob.
	struct weir_blob_extent former; // bytes 0 = there is no previous blob
	uint64_t former_generation;
};

struct weir_writer {
	struct weir_segment *segment;
	struct weir_heap heap;
	struct weir_grace grace;
	uint64_t generation; // last generation used
	uint32_t reserved_services; // number of ids that have memory
	uint32_t reserved_backends;
	uint64_t retired_bytes;
	uint32_t dropped_roots;
	struct weir_extents owned;
	struct weir_extents retired; // queue of retired extents, the oldest first
	size_t waiting; // the current grace period covers this many elements, oldest first
	uint64_t token; // token of the current grace period, if waiting > 0
	struct live services;
	struct live selection[]; // [max_services]
};

// --- memory -------------------------------------------------------------------------------

static struct weir_blob *blob_at(const struct weir_writer *writer, uint64_t offset) {
	return (struct weir_blob *)(void *)(writer->segment->tables + offset);
}

// Reserves room in the lists of extents, so that publishing, retiring and freeing blobs never has
// to allocate memory. Returns false if out of memory. Between two free extents there is always an
// extent in use. Therefore the free list needs room for one entry more than there are extents in
// use.
static bool reserve_for_one_more(struct weir_writer *writer) {
	size_t extents =
		writer->owned.count + writer->retired.count + writer->segment->max_services + 1 + 2;

	return weir_extents_reserve(&writer->owned, 1) &&
	       weir_extents_reserve(&writer->retired,
		       writer->segment->max_services + 3 + writer->owned.count + 2) &&
	       weir_extents_reserve(&writer->heap.free, extents);
}

// Allocate memory for elements [from, to) of an array in tables. size: size of an element, in
// bytes. Returns false if out of memory.
static bool back_elements(const struct weir_writer *writer, const void *array, size_t size,
	uint32_t from, uint32_t to) {
	uint64_t start = (uint64_t)((const uint8_t *)array - writer->segment->tables);

	return from >= to ||
	       weir_tables_back(writer->segment, start + from * size, start + to * size);
}

int weir_writer_reserve(struct weir_writer *writer, uint32_t services, uint32_t backends) {
	const struct weir_segment *s = writer->segment;
	uint32_t first_service = writer->reserved_services, first = writer->reserved_backends;

	if (services > s->max_services || backends > s->max_backends) {
		return -EINVAL;
	}
	if (weir_segment_take_counters(s, first, backends) < 0 ||
		!back_elements(writer, s->identity_services, sizeof(s->identity_services[0]),
			first_service, services) ||
		!back_elements(writer, s->service_bases, sizeof(s->service_bases[0]), first_service,
			services) ||
		!back_elements(writer, s->identity_backends, sizeof(s->identity_backends[0]), first,
			backends) ||
		!back_elements(
			writer, s->backend_bases, sizeof(s->backend_bases[0]), first, backends) ||
		!back_elements(writer, s->rows, sizeof(s->rows[0]), first, backends) ||
		!back_elements(writer, s->costs, sizeof(s->costs[0]), first, backends)) {
		return -ENOMEM;
	}
	if (services > first_service) {
		writer->reserved_services = services;
		__atomic_store_n(&s->notes->service_ids, services, __ATOMIC_RELEASE);
	}
	if (backends > first) {
		writer->reserved_backends = backends;
		__atomic_store_n(&s->notes->backend_ids, backends, __ATOMIC_RELEASE);
	}
	return 0;
}

// --- open and close -----------------------------------------------------------------------

static weir_ref *root_ref(const struct weir_writer *writer, struct weir_root root) {
	struct weir_roots *roots = writer->segment->roots;

	switch (root.kind) {
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

	switch (root.kind) {
	case WEIR_BLOB_SERVICES:
		return weir_blob_services(segment, ref, ret_extent, &services);
	case WEIR_BLOB_SELECTION:
		return weir_blob_selection(segment, root.service, ref, 0, ret_extent, &selection);
	}
	return false;
}

static void adopt_root(struct weir_writer *writer, struct weir_root root) {
	weir_ref *ref = root_ref(writer, root);
	weir_ref value = __atomic_load_n(ref, __ATOMIC_ACQUIRE);
	struct weir_blob_extent extent;

	if (value == 0) {
		return;
	}
	if (!check_root(writer, root, value, &extent) || !weir_heap_carve(&writer->heap, extent)) {
		writer->dropped_roots++;
		return;
	}
	root_live(writer, root)->extent = extent;
	root_live(writer, root)->generation = blob_at(writer, extent.offset)->generation;
}

// Retires all unreferenced extents in the used part of the heap. The previous control process has
// retired these extents, or has exited before it published, retired or freed them. Workers may
// still read them, so they wait for a grace period like all retired extents.
static void retire_gaps(struct weir_writer *writer) {
	const struct weir_segment *segment = writer->segment;
	uint64_t used = __atomic_load_n(&segment->notes->heap_used, __ATOMIC_RELAXED);
	uint64_t heap_end = segment->heap_off + segment->heap_bytes;
	uint64_t top = heap_end;

	if (used <= segment->heap_bytes && used % LINE_BYTES == 0) {
		top = segment->heap_off + used;
	}
	writer->retired_bytes += weir_heap_take_below(&writer->heap, top, &writer->retired);
}

static uint32_t clamp(uint32_t value, uint32_t most) {
	return value < most ? value : most;
}

static bool reserve_for_open(struct weir_writer *writer) {
	size_t roots = writer->segment->max_services + 1;

	// `retired` needs room for the roots' blobs and for the gaps between them.
	return weir_extents_reserve(&writer->heap.free, roots + 2) &&
	       weir_extents_reserve(&writer->retired, 2 * roots + 2) &&
	       weir_extents_reserve(&writer->owned, 1);
}

// Returns the highest generation used so far: notes->generation, which is stored before each
// reference. The generations of the published blobs are considered, too, so that no generation is
// reused even if notes->generation is invalid.
static uint64_t last_generation(const struct weir_writer *writer) {
	uint64_t last = __atomic_load_n(&writer->segment->notes->generation, __ATOMIC_RELAXED);

	last = writer->services.generation > last ? writer->services.generation : last;
	for (uint32_t i = 0; i < writer->segment->max_services; i++) {
		uint64_t generation = writer->selection[i].generation;

		last = generation > last ? generation : last;
	}
	return last;
}

int weir_writer_open(struct weir_segment *segment, struct weir_writer **ret) {
	struct weir_notes *notes = segment->notes;
	struct weir_writer *writer;

	writer = calloc(1, sizeof(*writer) + segment->max_services * sizeof(writer->selection[0]));
	if (writer == NULL) {
		return -ENOMEM;
	}
	writer->segment = segment;
	if (weir_heap_init(&writer->heap, segment) < 0 || !reserve_for_open(writer)) {
		weir_writer_free(writer);
		return -ENOMEM;
	}
	writer->grace = weir_grace_open(segment);
	adopt_root(writer, (struct weir_root){.kind = WEIR_BLOB_SERVICES});
	for (uint32_t service = 0; service < segment->max_services; service++) {
		adopt_root(writer, (struct weir_root){.kind = WEIR_BLOB_SELECTION,
					   .service = (uint16_t)service});
	}
	writer->generation = last_generation(writer);
	writer->reserved_services = clamp(notes->service_ids, segment->max_services);
	writer->reserved_backends = clamp(notes->backend_ids, segment->max_backends);
	// The previous process may have exited after a store, but before it wrote the log entry
	// for this store. Therefore make workers read all tables.
	__atomic_store_n(&segment->news->updates, segment->news->updates + 2 * WEIR_UPDATES,
		__ATOMIC_RELEASE);
	retire_gaps(writer);
	weir_writer_reclaim(writer);
	__atomic_store_n(&notes->control_pid, (uint64_t)getpid(), __ATOMIC_RELAXED);
	*ret = writer;
	return 0;
}

void weir_writer_free(struct weir_writer *writer) {
	if (writer == NULL) {
		return;
	}
	__atomic_store_n(&writer->segment->notes->control_pid, 0, __ATOMIC_RELAXED);
	weir_heap_fini(&writer->heap);
	free(writer->owned.item);
	free(writer->retired.item);
	free(writer);
}

// --- blobs --------------------------------------------------------------------------------

// Record the end of the used part of the heap before the part is used, for the next control
// process.
static void note_used(const struct weir_writer *writer, uint64_t end) {
	struct weir_notes *notes = writer->segment->notes;
	uint64_t used = end - writer->segment->heap_off;

	if (used > __atomic_load_n(&notes->heap_used, __ATOMIC_RELAXED)) {
		__atomic_store_n(&notes->heap_used, used, __ATOMIC_RELEASE);
	}
}

static bool too_much_waits(const struct weir_writer *writer) {
	uint64_t live = writer->heap.used_bytes - writer->retired_bytes;

	return writer->retired_bytes > RETIRED_LEAST &&
	       writer->retired_bytes > RETIRED_SHARE * live;
}

void *weir_writer_alloc(struct weir_writer *writer, enum weir_blob_kind kind, uint64_t bytes) {
	struct weir_blob_extent extent;
	struct weir_blob *blob;

	if (kind < WEIR_BLOB_SERVICES || kind > WEIR_BLOB_SELECTION || bytes < sizeof(*blob)) {
		errno = EINVAL;
		return NULL;
	}
	if (bytes > writer->segment->heap_bytes || !reserve_for_one_more(writer)) {
		errno = bytes > writer->segment->heap_bytes ? ENOSPC : ENOMEM;
		return NULL;
	}
	extent.bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
	if (too_much_waits(writer)) {
		weir_writer_reclaim(writer);
	}
	if (too_much_waits(writer)) {
		errno = EBUSY;
		return NULL;
	}
	if (!weir_heap_take(&writer->heap, extent.bytes, &extent.offset)) {
		weir_writer_reclaim(writer);
		if (!weir_heap_take(&writer->heap, extent.bytes, &extent.offset)) {
			errno = writer->retired_bytes > 0 ? EBUSY : ENOSPC;
			return NULL;
		}
	}
	if (!weir_heap_back(&writer->heap, extent.offset + extent.bytes)) {
		weir_heap_give(&writer->heap, extent);
		errno = ENOMEM;
		return NULL;
	}
	note_used(writer, extent.offset + extent.bytes);
	blob = blob_at(writer, extent.offset);
	memset(blob, 0, extent.bytes);
	// The counter can overflow only if notes->generation was invalid. 0 means
	// "nothing published".
	writer->generation += writer->generation == UINT64_MAX ? 2 : 1;
	blob->generation = writer->generation;
	blob->kind = kind;
	blob->lines = (uint32_t)(extent.bytes / LINE_BYTES);
	writer->owned.item[writer->owned.count++] = extent;
	return blob;
}

// Takes ownership of a blob from the caller. Returns false if the caller does not own this blob.
static bool disown(struct weir_writer *writer, const void *blob, struct weir_blob_extent *ret) {
	uint64_t offset = (uint64_t)((const uint8_t *)blob - writer->segment->tables);

	for (size_t i = 0; i < writer->owned.count; i++) {
		if (writer->owned.item[i].offset == offset) {
			*ret = writer->owned.item[i];
			weir_extents_remove(&writer->owned, i, 1);
			return true;
		}
	}
	return false;
}

void weir_writer_discard(struct weir_writer *writer, void *blob) {
	struct weir_blob_extent extent;

	if (blob != NULL && disown(writer, blob, &extent)) {
		weir_heap_give(&writer->heap, extent);
	}
}

static void log_update(const struct weir_writer *writer, uint32_t change) {
	struct weir_news *news = writer->segment->news;
	uint64_t updates = news->updates;

	// A reader that loads this entry in place of an older entry then also loads at least the
	// current value of `updates`, because of the fence. Therefore the reader detects the
	// overwrite.
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&writer->segment->updates->update[updates % WEIR_UPDATES], change,
		__ATOMIC_RELAXED);
	// Fire the probe before the store. Otherwise a worker could apply the change while the
	// probe's handler still runs.
	WEIR_PROBE_PUBLICATION(updates, change >> 16, (uint16_t)change);
	__atomic_store_n(&news->updates, updates + 1, __ATOMIC_RELEASE);
}

static uint32_t update_of(struct weir_root root) {
	return root.kind == WEIR_BLOB_SERVICES ? weir_update(WEIR_UPDATE_SERVICES, 0)
					       : weir_update(WEIR_UPDATE_SELECTION, root.service);
}

static void count_publication(const struct weir_writer *writer) {
	struct weir_notes *notes = writer->segment->notes;

	__atomic_store_n(&notes->publications, notes->publications + 1, __ATOMIC_RELAXED);
}

uint64_t weir_writer_publications(const struct weir_segment *segment, uint64_t position) {
	uint64_t skipped = segment->news->updates - segment->notes->publications;

	return position > skipped ? position - skipped : 0;
}

static void retire(struct weir_writer *writer, struct weir_blob_extent extent) {
	writer->retired.item[writer->retired.count++] = extent;
	writer->retired_bytes += extent.bytes;
}

int weir_writer_publish(struct weir_writer *writer, struct weir_root root, void *blob) {
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
			weir_heap_give(&writer->heap, extent);
		}
		return -EINVAL;
	}
	if (header != NULL) {
		value = weir_ref_make(header->generation, extent.offset);
	}
	// notes->generation is stored before the reference, so that the next process does not use
	// this generation again.
	__atomic_store_n(&writer->segment->notes->generation, writer->generation, __ATOMIC_RELEASE);
	__atomic_store_n(ref, value, __ATOMIC_RELEASE);
	log_update(writer, update_of(root));
	count_publication(writer);
	if (live->extent.bytes != 0) {
		retire(writer, live->extent);
	}
	live->former = live->extent;
	live->former_generation = live->generation;
	live->extent = extent;
	live->generation = header != NULL ? header->generation : 0;
	return 0;
}

int weir_writer_restore(struct weir_writer *writer, struct weir_root root, weir_ref refused) {
	weir_ref *ref = root_ref(writer, root);
	struct live *live = root_live(writer, root);
	struct weir_extents *retired = &writer->retired;
	const struct weir_blob *former;

	if (ref == NULL || *ref != refused || live->former.bytes == 0) {
		return -ENOENT;
	}
	// The previous blob is still in the queue, because no grace period ends while a worker
	// refuses the current blob.
	for (size_t i = retired->count; i-- > 0;) {
		if (retired->item[i].offset != live->former.offset) {
			continue;
		}
		former = blob_at(writer, live->former.offset);
		if (former->generation != live->former_generation) {
			continue; // a newer blob in the same memory
		}
		weir_extents_remove(retired, i, 1);
		writer->waiting -= i < writer->waiting;
		writer->retired_bytes -= live->former.bytes;
		__atomic_store_n(ref, weir_ref_make(former->generation, live->former.offset),
			__ATOMIC_RELEASE);
		log_update(writer, update_of(root));
		count_publication(writer);
		if (live->extent.bytes != 0) {
			retire(writer, live->extent);
		}
		live->extent = live->former;
		live->generation = live->former_generation;
		live->former.bytes = 0;
		return 0;
	}
	return -ENOENT;
}

bool weir_writer_publish_share(
	struct weir_writer *writer, uint16_t backend, struct weir_policy_share share) {
	struct weir_row_pair *pair = &writer->segment->rows[backend];

	if (pair->share.part == share.part && pair->share.turns == share.turns) {
		return false;
	}
	__atomic_store(&pair->share, &share, __ATOMIC_RELAXED);
	log_update(writer, weir_update(WEIR_UPDATE_ROW, backend));
	count_publication(writer);
	return true;
}

const struct weir_backend_row *weir_writer_row(const struct weir_writer *writer, uint16_t backend) {
	const struct weir_row_pair *pair = &writer->segment->rows[backend];

	return &pair->row[pair->version % 2];
}

bool weir_writer_publish_row(
	struct weir_writer *writer, uint16_t backend, const struct weir_backend_row *row) {
	struct weir_row_pair *pair = &writer->segment->rows[backend];
	uint64_t version = pair->version;
	uint64_t words[sizeof(*row) / 8];
	uint64_t *to = (uint64_t *)(void *)&pair->row[(version + 1) % 2];

	if (memcmp(weir_writer_row(writer, backend), row, sizeof(*row)) == 0) {
		return false;
	}
	memcpy(words, row, sizeof(words));
	// A reader may still be copying the older row from this place. If the reader loads one of
	// the new words, it then also loads at least the current version, because of the fence.
	// Therefore the reader detects the change.
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (unsigned int i = 0; i < sizeof(words) / 8; i++) {
		__atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
	}
	__atomic_store_n(&pair->version, version + 1, __ATOMIC_RELEASE);
	log_update(writer, weir_update(WEIR_UPDATE_ROW, backend));
	count_publication(writer);
	return true;
}

const void *weir_writer_current(const struct weir_writer *writer, struct weir_root root) {
	const struct live *live = root_live((struct weir_writer *)writer, root);

	return live != NULL && live->extent.bytes != 0 ? blob_at(writer, live->extent.offset)
						       : NULL;
}

// --- reclamation --------------------------------------------------------------------------

uint64_t weir_writer_mark(struct weir_writer *writer) {
	return weir_grace_start(&writer->grace);
}

bool weir_writer_passed(struct weir_writer *writer, uint64_t mark) {
	return weir_grace_passed(&writer->grace, mark);
}

unsigned int weir_writer_reclaim(struct weir_writer *writer) {
	struct weir_extents *retired = &writer->retired;

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
			weir_heap_give(&writer->heap, retired->item[i]);
		}
		weir_extents_remove(retired, 0, writer->waiting);
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
		.used_bytes = writer->heap.used_bytes,
		.retired_bytes = writer->retired_bytes,
		.dropped_roots = writer->dropped_roots,
	};
	struct stat st;

	if (fstat(segment->tables_fd, &st) == 0) {
		usage.backed_bytes = (uint64_t)st.st_blocks * 512;
	}
	usage.waiting_for = writer->waiting > 0
				    ? weir_grace_waits_for(&writer->grace, writer->token)
				    : WEIR_WORKERS_MAX;
	usage.blobs = writer->services.extent.bytes != 0;
	for (uint32_t service = 0; service < segment->max_services; service++) {
		usage.blobs += writer->selection[service].extent.bytes != 0;
	}
	*ret = usage;
}
