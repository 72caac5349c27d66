// SPDX-License-Identifier: BSD-3-Clause
//
// The segment: create it (dataplane), attach to it (control, tests), refuse what is broken.
//
// Threads: any, but one object is used by one thread unless a function says otherwise.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "layout.h"

struct rte_rcu_qsbr;

// A mapped segment. `base` may be read by all threads; the counts are private copies made when
// it was validated, so that a header changed later by the other process cannot lead anyone out
// of bounds.
struct weir_segment {
	int fd;
	uint8_t *base;
	uint64_t bytes;
	uint64_t epoch;
	uint32_t workers;
	uint32_t ports;
	uint32_t max_services;
	uint32_t max_backends;
	uint64_t heap_off;
	uint64_t heap_bytes;
	struct weir_segment_header *header;
	struct rte_rcu_qsbr *qsbr;
	struct weir_roots *roots;
	struct weir_worker_counters *worker_counters; // [workers]
	struct weir_share_counters *service_counters; // [workers][max_services]
	struct weir_share_counters *backend_counters; // [workers][max_backends]
	struct weir_mailbox *mailboxes; // [workers]
	struct weir_sample_ring *samples; // [workers]
	uint64_t *costs; // [max_backends]
};

struct weir_segment_params {
	uint32_t workers; // 1 .. WEIR_WORKERS_MAX
	uint32_t ports; // 1 .. WEIR_PORTS_MAX
	uint32_t max_services; // 1 .. WEIR_SERVICES_MAX
	uint32_t max_backends; // 1 .. WEIR_BACKENDS_MAX
	uint64_t heap_bytes; // address space for blobs; memory is taken only as blobs need it
	uint64_t tsc_hz;
	uint64_t hash_seed;
	bool huge_pages; // memfd of 2 MiB pages; -ENOMEM when there are not enough
	const struct weir_port_info *port_info; // [ports]
};

// Create a segment in a sealed memfd (it can neither shrink nor grow) and map it. [dataplane]
// Returns 0, -EINVAL (a parameter out of range), -ENOMEM, or another negative errno.
int weir_segment_create(const struct weir_segment_params *params, struct weir_segment **ret);

// Map and validate a segment received from the dataplane. Takes ownership of fd on success only.
// why gets one line that says what is wrong and what to do. [control]
// Returns 0, -EPROTO (not a segment, or another ABI), -EBADMSG (contradictory header),
// -ENODATA (shorter than it says), or another negative errno.
int weir_segment_attach(int fd, struct weir_segment **ret, char *why, size_t why_bytes);

// Unmap and close. Memory lives on while the other process has it. NULL is fine.
void weir_segment_free(struct weir_segment *segment);

// Worker w's counters for service s or backend b; indexes must be in range.
static inline struct weir_share_counters *weir_segment_service_counters(
	const struct weir_segment *segment, uint32_t worker, uint32_t service) {
	return &segment->service_counters[(size_t)worker * segment->max_services + service];
}

static inline struct weir_share_counters *weir_segment_backend_counters(
	const struct weir_segment *segment, uint32_t worker, uint32_t backend) {
	return &segment->backend_counters[(size_t)worker * segment->max_backends + backend];
}

// Sanitizers do not see stores of assembly. gcc and clang announce sanitizers in different ways.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEIR_SANITIZED
#endif
#elif defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define WEIR_SANITIZED
#endif

// Add to a counter that only this thread writes and others read. [worker]
static inline void weir_counter_add(uint64_t *counter, uint64_t n) {
#if defined(__x86_64__) && !defined(WEIR_SANITIZED)
	// A relaxed store of one instruction; of the expression below compilers make three.
	__asm__("addq %1, %0" : "+m"(*counter) : "er"(n));
#else
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
#endif
}

static inline uint64_t weir_counter_read(const uint64_t *counter) {
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}
