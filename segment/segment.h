// SPDX-License-Identifier: BSD-3-Clause
//
// Creates the segment (dataplane) and attaches to it (control, tests). Refuses an invalid
// segment.
//
// Threads: any. Each object is used by only one thread, unless a function is marked otherwise.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "capture_layout.h"
#include "layout.h"

// Names of the two memfds, as in /proc/PID/fd.
#define WEIR_SEGMENT_STATISTICS_NAME "weir-statistics"
#define WEIR_SEGMENT_TABLES_NAME "weir-tables"

// A mapped segment. The counts are private copies made when the segment was validated, so that a
// later change of the header by another process cannot cause an access out of bounds. A comment in
// brackets gives the number of elements of an array.
//
// The process that created the segment writes statistics and only reads tables; a process that
// attached to the segment only reads statistics and writes tables. The mappings enforce this rule:
// a store to read-only memory kills the process.
struct weir_segment {
	int statistics_fd;
	int tables_fd;
	uint8_t *statistics;
	uint8_t *tables;
	uint64_t statistics_bytes;
	uint64_t tables_bytes;
	uint64_t epoch;
	uint32_t abi; // ABI of the dataplane: WEIR_SEGMENT_ABI, or a previous ABI that is served
	uint32_t workers;
	uint32_t ports;
	uint32_t max_services;
	uint32_t max_backends;
	// YES: bucket_packets, bucket_owners and steal_counters are used
	enum weir_bucketing bucketing;
	uint64_t heap_off; // position in tables
	uint64_t heap_bytes;
	// In statistics.
	struct weir_segment_header *header;
	struct weir_quiescence *quiescence; // [workers]
	struct weir_refusals *refusals; // [workers]
	struct weir_worker_counters *worker_counters; // [workers]
	struct weir_worker_box *worker_boxes; // [workers]
	struct weir_port_counters *port_counters; // [ports]
	struct weir_bucket_packets *bucket_packets; // [workers]
	struct weir_bucket_owners *bucket_owners;
	struct weir_steal_counters *steal_counters; // [workers]
	struct weir_flow_pages *flow_pages; // [workers]
	struct weir_capture_ring *capture_rings; // [workers]
	struct weir_limit_word *limit_words; // [max_backends]
	struct weir_share_counters *service_counters; // [workers][max_services]
	struct weir_share_counters *backend_counters; // [workers][max_backends]
	// In tables.
	struct weir_news *news;
	struct weir_notes *notes;
	struct weir_update_log *updates;
	struct weir_roots *roots;
	struct weir_control_box *control_boxes; // [workers]
	struct weir_identity_service *identity_services; // [max_services]
	struct weir_identity_backend *identity_backends; // [max_backends]
	struct weir_share_counters *service_bases; // [max_services]
	struct weir_share_counters *backend_bases; // [max_backends]
	struct weir_row_pair *rows; // [max_backends]
	uint64_t *costs; // [max_backends]
	struct weir_capture_control *capture_control;
	// Progress of weir_segment_follow, in the dataplane only: counters of backends below
	// counted_backends have memory; mapped_rows rows and mapped_heap bytes of the heap are
	// mapped.
	uint32_t counted_backends;
	uint32_t mapped_rows;
	uint64_t mapped_heap;
};

struct weir_segment_params {
	uint32_t workers; // 1 .. WEIR_WORKERS_MAX
	uint32_t ports; // 1 .. WEIR_PORTS_MAX
	uint32_t max_services; // 1 .. WEIR_SERVICES_MAX
	uint32_t max_backends; // 1 .. WEIR_BACKENDS_MAX
	uint64_t heap_bytes; // address space for blobs; memory is allocated when blobs need it
	uint64_t tsc_hz;
	uint64_t hash_seed;
	// YES: the creator must set the bucket owners before workers start
	enum weir_bucketing bucketing;
	bool huge_pages; // memfd of 2 MiB pages, allocated at creation except for the heap; -ENOMEM
			 // if there are not enough
	const struct weir_port_info *port_info; // [ports]
};

// Create and map both memory areas in sealed memfds: their size cannot change, and no other process
// can write statistics. [dataplane] Returns 0, -EINVAL (a parameter out of range), -ENOMEM, or
// another negative errno.
int weir_segment_create(const struct weir_segment_params *params, struct weir_segment **ret);

// Lock the allocated pages of both memory areas in RAM, so that they are never swapped out and a
// worker never waits for the disk. [dataplane, while it has the privilege] Returns 0 or negative
// errno, e.g. if RLIMIT_MEMLOCK is too low. The segment also works without locked pages.
int weir_segment_lock(const struct weir_segment *segment);

// Allocate all workers' counters for backends [from, backends). Counters are allocated for blocks
// of backends, so some higher ids also get counters. Before the allocation, even reading the
// counters can fail. Control calls this function before it publishes the first row of these
// backends. Returns 0 or -ENOMEM.
int weir_segment_take_counters(
	const struct weir_segment *segment, uint32_t from, uint32_t backends);

// Follow the publications of control: allocate the counters of further backends, and map newly
// written parts of tables, so that workers need not do this. Workers load no backend before its
// counters have memory. [dataplane, main thread; about every 100 ms] Returns 0 or -ENOMEM (further
// backends are not loaded yet).
int weir_segment_follow(struct weir_segment *segment);

// Map and validate a segment received from the dataplane. Takes ownership of the descriptors on
// success only. why: receives one line with the problem and the remedy. [control] Returns 0,
// -EPROTO (not a segment, or another layout), -EBADMSG (contradictory header), -ENODATA (shorter
// than its header specifies), or another negative errno.
int weir_segment_attach(
	int statistics_fd, int tables_fd, struct weir_segment **ret, char *why, size_t why_bytes);

// Attach to a segment that this process created. For programs that are both dataplane and
// control. Returns 0 or negative errno.
int weir_segment_attach_own(const struct weir_segment *own, struct weir_segment **ret);

// Unmap and close the segment. The memory is freed when no other process maps it. NULL is
// allowed.
void weir_segment_free(struct weir_segment *segment);

// These two functions return one worker's counters for a service, or for a backend. All indexes
// must be in range.
static inline struct weir_share_counters *weir_segment_service_counters(
	const struct weir_segment *segment, uint32_t worker, uint32_t service) {
	return &segment->service_counters[(size_t)worker * segment->max_services + service];
}

static inline struct weir_share_counters *weir_segment_backend_counters(
	const struct weir_segment *segment, uint32_t worker, uint32_t backend) {
	return &segment->backend_counters[(size_t)worker * segment->max_backends + backend];
}

// Returns whether workers are now allowed to steal buckets from each other. False until control
// enables stealing. Any thread.
static inline bool weir_segment_stealing(const struct weir_segment *segment) {
	return segment->bucketing == WEIR_BUCKETING_YES &&
	       __atomic_load_n(&segment->news->stealing, __ATOMIC_RELAXED) == WEIR_STEALING_ON;
}

// Returns the worker that owns a bucket (below WEIR_BUCKETS); the dataplane must use buckets. Any
// thread.
static inline uint32_t weir_segment_bucket_owner(
	const struct weir_segment *segment, uint32_t bucket) {
	return __atomic_load_n(&segment->bucket_owners->owner[bucket], __ATOMIC_RELAXED);
}

// Set the owner of a bucket. [dataplane, before workers start; then the worker that has taken over
// the bucket]
static inline void weir_segment_own_bucket(
	const struct weir_segment *segment, uint32_t bucket, uint32_t worker) {
	__atomic_store_n(&segment->bucket_owners->owner[bucket], (uint8_t)worker, __ATOMIC_RELAXED);
}

// WEIR_SANITIZED: defined in builds with AddressSanitizer or ThreadSanitizer, which cannot track
// stores in assembly. gcc and clang indicate sanitizers in different ways.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEIR_SANITIZED
#endif
#elif defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define WEIR_SANITIZED
#endif

// Add n to a counter that only this thread writes and other threads read. [worker]
static inline void weir_counter_add(uint64_t *counter, uint64_t n) {
#if defined(__x86_64__) && !defined(WEIR_SANITIZED)
	// A relaxed store in one instruction; compilers use three instructions for a plain C
	// expression.
	__asm__("addq %1, %0" : "+m"(*counter) : "er"(n));
#else
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
#endif
}

// Set a gauge that only this thread writes and other threads read. [worker]
static inline void weir_gauge_set(uint64_t *gauge, uint64_t value) {
	__atomic_store_n(gauge, value, __ATOMIC_RELAXED);
}

static inline uint64_t weir_counter_read(const uint64_t *counter) {
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}
