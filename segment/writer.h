// SPDX-License-Identifier: BSD-3-Clause
//
// Writer: allocates blobs in the segment's heap, publishes them and the rows of backends, and
// frees blobs that workers have stopped reading. Used by the control process. weir-pcap, weir-bench
// and tests use it in place of a control process.
//
// The allocator's state is private memory of this process, rebuilt by weir_writer_open from the
// blobs that the roots refer to. Therefore no repair is needed if a control process is killed
// between any two instructions (S3 of layout.h): a blob is either referenced or free.
//
// Threads: one writer per segment, one thread. Only weir_writer_synchronize blocks.
#pragma once

#include "segment.h"

struct weir_writer;

// Identifies a root: the reference to the service table, or to the selection of one service.
struct weir_root {
	enum weir_blob_kind kind;
	uint16_t service; // service id; used only with WEIR_BLOB_SELECTION
};

// Open a segment for writing. Published tables stay valid. Counts roots that refer to no valid
// blob of their kind, or whose blob overlaps another root's blob (dropped_roots). Such a root
// stays unchanged until a blob is published for it; workers refuse a reference to no valid blob and
// keep using the previous table. Memory that the previous process may have retired is used again
// only after a grace period. Returns 0, -ENOMEM.
int weir_writer_open(struct weir_segment *segment, struct weir_writer **ret);
// Free the writer. Call before the segment is freed. Published tables stay, unpublished blobs are
// freed; NULL is allowed.
void weir_writer_free(struct weir_writer *writer);

// Allocate a zeroed blob of at least `bytes` with the header filled in, owned by the caller until
// the blob is published or discarded. The blob is backed by memory, so that later accesses cannot
// fail. Returns NULL with errno ENOSPC (heap exhausted), ENOMEM (out of memory), EBUSY (not
// enough free memory before a grace period ends: try again), or EINVAL.
void *weir_writer_alloc(struct weir_writer *writer, enum weir_blob_kind kind, uint64_t bytes);
void weir_writer_discard(struct weir_writer *writer, void *blob);

// Replace the blob of a root, by one release-store. If blob is NULL, this withdraws the previous
// blob. The previous blob is freed by weir_writer_reclaim after a grace period. Takes ownership
// of blob in any case. Returns 0, -EINVAL (wrong kind, or a service out of range: blob
// discarded).
int weir_writer_publish(struct weir_writer *writer, struct weir_root root, void *blob);

// Returns the current blob of a root, or NULL. Valid until the blob is replaced and reclaimed.
const void *weir_writer_current(const struct weir_writer *writer, struct weir_root root);

// Restore the previous blob of a root, because a worker has refused the current blob (struct
// weir_refusals). Returns 0, -ENOENT (the previous blob was freed or does not exist, or `refused`
// is not the current blob).
int weir_writer_restore(struct weir_writer *writer, struct weir_root root, weir_ref refused);

// Allocate the identities, rows, costs and baselines of ids below these numbers, and the workers'
// counters of these backends. The numbers never decrease. Workers load a backend, and later
// publications, only after the backend has its counters. Call before data of these ids is written.
// Returns 0, -ENOMEM, -EINVAL (out of range).
int weir_writer_reserve(struct weir_writer *writer, uint32_t services, uint32_t backends);

// Publish the slow start of a reserved backend if it has changed. share: the new slow start.
// Returns whether the slow start has changed.
bool weir_writer_publish_share(
	struct weir_writer *writer, uint16_t backend, struct weir_policy_share share);

// Publish the row of a reserved backend if it has changed. This needs one store to the cache line
// that workers poll, regardless of the number of backends. Returns whether the row has changed.
bool weir_writer_publish_row(
	struct weir_writer *writer, uint16_t backend, const struct weir_backend_row *row);

// Returns the current row of a backend. Valid until the next call of weir_writer_publish_row for
// the backend.
const struct weir_backend_row *weir_writer_row(const struct weir_writer *writer, uint16_t backend);

// Free retired blobs whose grace period is over, and start a grace period for newer blobs. Never
// waits. Returns the number of blobs still waiting (0 = call again only after the next
// publication).
unsigned int weir_writer_reclaim(struct weir_writer *writer);

// Reclaim until no blob is waiting, for at most timeout_ms. Returns 0, -ETIMEDOUT (a worker reports
// no quiescent state, because it is stalled or refuses a table, or because the dataplane has
// exited).
int weir_writer_synchronize(struct weir_writer *writer, unsigned int timeout_ms);

// Start a grace period that frees no blobs. Control waits for such a grace period before it uses an
// id again. Returns the token of the grace period. weir_writer_passed returns whether every worker
// has passed a quiescent state since then, or is offline; it never waits.
uint64_t weir_writer_mark(struct weir_writer *writer);
bool weir_writer_passed(struct weir_writer *writer, uint64_t mark);

// Returns the number of publications (notes->publications) before a position in the update log.
// The log of a new writer does not begin at position 0; for positions before its first
// publication, returns 0.
uint64_t weir_writer_publications(const struct weir_segment *segment, uint64_t position);

struct weir_writer_usage {
	uint64_t heap_bytes; // size of the heap's address space
	uint64_t used_bytes; // bytes of live, retired and unpublished blobs
	uint64_t retired_bytes; // bytes waiting for a grace period
	uint64_t backed_bytes; // bytes of memory allocated for tables
	uint32_t blobs; // number of live blobs
	uint32_t dropped_roots; // invalid references found by weir_writer_open
	uint32_t waiting_for; // first worker that the grace period waits for, or
			      // WEIR_WORKERS_MAX
};
void weir_writer_usage(const struct weir_writer *writer, struct weir_writer_usage *ret);
