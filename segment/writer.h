// SPDX-License-Identifier: BSD-3-Clause
//
// Writer: allocates blobs in the segment's heap, publishes them and the rows of backends, and frees
// blobs that workers have stopped reading. Used by the control process only (and by weir-pcap,
// bench and tests in its place).
//
// The allocator's state is private memory of this process, rebuilt by weir_writer_open from the
// blobs that the roots refer to. Therefore no repair is needed after a control process has died
// between any two instructions (S3): a blob is either referenced or free.
//
// Threads: one writer per segment, one thread. Never blocks except weir_writer_synchronize.
#pragma once

#include "segment.h"

struct weir_writer;

// The root of a blob.
struct weir_root {
	enum weir_blob_kind kind;
	uint16_t service; // WEIR_BLOB_SELECTION only
};

// Open a segment for writing. Published tables stay valid. A root that refers to no valid blob of
// its kind, or whose blob overlaps another root's blob, is counted (dropped_roots). The root stays
// unchanged until a blob is published for the root: workers refuse the reference and keep using the
// previous table. Memory that the previous process may have retired waits for a grace period first.
// Returns 0, -ENOMEM.
int weir_writer_open(struct weir_segment *segment, struct weir_writer **ret);
// Free the writer. Call before the segment is freed. Published tables stay, unpublished blobs are
// freed; NULL is allowed.
void weir_writer_free(struct weir_writer *writer);

// Allocate a zeroed blob of at least `bytes` with the header filled in, owned by the caller until
// the blob is published or discarded. The blob is backed by memory, so that later accesses cannot
// fail. Returns NULL with errno ENOSPC (heap exhausted), ENOMEM (out of memory), EBUSY (not enough
// free until a grace period ends: try again), or EINVAL.
void *weir_writer_alloc(struct weir_writer *writer, enum weir_blob_kind kind, uint64_t bytes);
void weir_writer_discard(struct weir_writer *writer, void *blob);

// Replace the blob of a root, by one release-store. blob NULL withdraws the previous blob. The
// previous blob is freed by weir_writer_reclaim after a grace period. Takes ownership of blob in
// any case. Returns 0, -EINVAL (wrong kind, or a service out of range: blob discarded).
int weir_writer_publish(struct weir_writer *writer, struct weir_root root, void *blob);

// The present blob of a root, or NULL. Valid until the blob is replaced and reclaimed.
const void *weir_writer_current(const struct weir_writer *writer, struct weir_root root);

// Restore the previous blob of a root, because a worker has refused the present blob (struct
// weir_refusals). Returns 0, -ENOENT (the previous blob was freed, or `refused` is not the present
// blob).
int weir_writer_restore(struct weir_writer *writer, struct weir_root root, weir_ref refused);

// Allocate the identities, rows, costs and baselines of ids below these numbers, which never
// decrease, and the workers' counters of these backends: without counters, workers load neither a
// backend nor later publications. Call before the first of these ids is written. Returns 0,
// -ENOMEM, -EINVAL (out of range).
int weir_writer_reserve(struct weir_writer *writer, uint32_t services, uint32_t backends);

// Publish the slow start of a backend (reserved) if it has changed. Returns whether it has changed.
bool weir_writer_publish_share(
	struct weir_writer *writer, uint16_t backend, struct weir_policy_share share);

// Publish the row of a backend (reserved) if the row has changed: one store in the cache line that
// workers poll, for any number of backends. Returns whether the row has changed.
bool weir_writer_publish_row(
	struct weir_writer *writer, uint16_t backend, const struct weir_backend_row *row);

// The row in use of a backend. Valid until the next call of weir_writer_publish_row for the
// backend.
const struct weir_backend_row *weir_writer_row(const struct weir_writer *writer, uint16_t backend);

// Free retired blobs whose grace period is over, and start a grace period for newer blobs. Never
// waits. Returns the number of blobs still waiting (0 = call again only after the next
// publication).
unsigned int weir_writer_reclaim(struct weir_writer *writer);

// Reclaim until no blob is waiting. Returns 0, -ETIMEDOUT (a worker does not report, because it is
// stalled or refuses a table, or because the dataplane died).
int weir_writer_synchronize(struct weir_writer *writer, unsigned int timeout_ms);

// Start a grace period without freeing blobs, before an id is used again. Returns the token for
// "every worker has passed a quiescent state since now". weir_writer_passed never waits.
uint64_t weir_writer_mark(struct weir_writer *writer);
bool weir_writer_passed(struct weir_writer *writer, uint64_t mark);

// The number of publications (notes->publications) before a position in the update log. A new
// writer does not begin the log at position 0: positions before its first publication give 0.
uint64_t weir_writer_publications(const struct weir_segment *segment, uint64_t position);

struct weir_writer_usage {
	uint64_t heap_bytes; // address space
	uint64_t used_bytes; // bytes of live and retired blobs
	uint64_t retired_bytes; // bytes waiting for a grace period
	uint64_t backed_bytes; // bytes of memory allocated for tables
	uint32_t blobs; // number of live blobs
	uint32_t dropped_roots; // broken references found by weir_writer_open
	uint32_t waiting_for; // first worker that the grace period waits for, or
			      // WEIR_WORKERS_MAX
};
void weir_writer_usage(const struct weir_writer *writer, struct weir_writer_usage *ret);
