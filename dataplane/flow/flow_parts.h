// SPDX-License-Identifier: BSD-3-Clause
//
// Flow parts: hands over a part of the flows from the table of one worker to that of another. The
// entries stay in place in the memory that both share; their ownership moves, with the counts and
// the numbers of IPv6 destinations.
//
//   1. release   by the table that owns the part, in slices. After the first one it must not get
//                packets of the part. The parcel describes the contents.
//   2. adopt     by the other table, in slices. It may get packets of the part after the last one.
//
// Flows keep backend, state, and the times of their first and last packets. The part adds its share
// of capacity and of the limit of half-open flows. A table that then has more flows than its share
// keeps them all, in the room of the part, but accepts no new ones until there are fewer.
//
// Threads: release by the worker of the one table, then adopt by the worker of the other one. The
// caller passes the parcel on with a release store and an acquire load. No allocation after create.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "flow_bucket.h"
#include "flow_destinations.h"
#include "flow_memory.h"

#define WEIR_FLOW_SLICE 64u // buckets per call of release or adopt

// The flows of one backend.
struct weir_flow_tally {
	uint32_t active; // all of them
	uint32_t open; // those that have not finished
	uint32_t half_open; // open ones that were never established
	uint32_t label; // the caller's
};

enum weir_flow_parcel_state {
	WEIR_FLOW_PARCEL_EMPTY,
	WEIR_FLOW_PARCEL_RELEASING,
	WEIR_FLOW_PARCEL_RELEASED,
	WEIR_FLOW_PARCEL_ADOPTING,
	WEIR_FLOW_PARCEL_ADOPTED,
};

// The data of a part that moves. Reused for later moves.
struct weir_flow_parcel {
	uint32_t part;
	uint32_t state; // enum weir_flow_parcel_state
	uint64_t next; // bucket of the part: those of IPv4, then those of IPv6
	uint32_t flows; // of both families
	uint32_t half_open; // number of those that count towards the limit, of both families
	bool measured; // some starts may be set
	uint32_t rechecks; // of the taker at the start of adopt
	uint32_t backend_count;
	uint32_t cursor, waits; // the caller's
	uint64_t note; // the caller's
	uint16_t *backend; // [backend_count] ids of backends with flows, each once
	struct weir_flow_tally *tally; // by backend; all zeroes for the others
	// Destinations of its IPv6 flows, while it moves
	struct weir_flow_destinations destinations;
};

// A parcel for parts of the memory with flows of backends below max_backends.
// Returns 0, -ENOMEM. [set-up]
int weir_flow_parcel_create(const struct weir_flow_memory *memory, uint32_t max_backends,
	int socket, struct weir_flow_parcel **ret);
void weir_flow_parcel_free(struct weir_flow_parcel *parcel); // NULL is allowed
// Bytes of a parcel for a memory that was created with these parameters.
uint64_t weir_flow_parcel_bytes(uint64_t flows, uint32_t ipv6_percent, uint32_t max_backends);
// Remove the flows of one backend from the parcel. After the last one it is empty.
void weir_flow_parcel_remove(struct weir_flow_parcel *parcel);

// True if the table owns this part (below WEIR_FLOW_PARTS) of the flows; with private memory it
// owns all. False from the first slice of release until the last one of adopt.
static inline bool weir_flow_owns(const struct weir_flow_table *table, uint32_t part) {
	return table->owned.shift == 0 || (table->owned.bits[part / 64] >> part % 64 & 1) != 0;
}

// The number of parts that the table owns; 1 with private memory.
static inline uint32_t weir_flow_owned_count(const struct weir_flow_table *table) {
	return table->owned.parts;
}

// Own a part without flows that no table owns. For a table with private memory: part 0, once.
// [set-up]
void weir_flow_own(struct weir_flow_table *table, uint32_t part);

// Release a part that the table owns, at most WEIR_FLOW_SLICE buckets per call. parcel: empty at
// the first call; the same one until done. The listener is not called. Returns true when done.
bool weir_flow_release(
	struct weir_flow_table *table, uint32_t part, struct weir_flow_parcel *parcel);

// Adopt a released part, at most WEIR_FLOW_SLICE buckets per call. The listener must already count
// the flows of the parcel: it gets reports of those that have expired, and of those evicted because
// the table has no room for their destination (WEIR_FLOW_DESTINATIONS_MAX). The tallies of the
// parcel do not change. Returns true when done.
bool weir_flow_adopt(
	struct weir_flow_table *table, struct weir_flow_parcel *parcel, uint64_t now_ns);
