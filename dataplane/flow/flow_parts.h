// SPDX-License-Identifier: BSD-3-Clause
//
// Flow parts: hands over a part of the flows from the table of one worker to the table of another
// worker. The entries stay in place in the shared memory of both tables; only the ownership of the
// part, the counts and the IPv6 destinations are handed over.
//
//   1. release   by the table that owns the part, in slices. After the first slice the table must
//                not get packets of the part. The parcel describes the contents.
//   2. adopt     by the new table, in slices. After the last slice the table may get packets of the
//      part.
//
// Flows keep backend, state, and the times of their first and last packets. A part raises the
// capacity and the half-open limit of the table that owns it. If a table has more flows than its
// capacity after it has released a part, it keeps all flows. It accepts new flows only in place of
// other flows until the number of flows is below the capacity.
//
// Threads: the worker of the first table calls release, then the worker of the second table calls
// adopt. The callers hand over the parcel with a release store and an acquire load. No allocation
// after create.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "flow_bucket.h"
#include "flow_destinations.h"
#include "flow_memory.h"

#define WEIR_FLOW_SLICE 64u // buckets per call of release or adopt

// The flows of one backend.
struct weir_flow_tally {
	uint32_t active; // number of all flows of the backend
	uint32_t open; // number of flows that have not finished
	uint32_t half_open; // number of open flows that were never established
	uint32_t label; // used only by pipeline_parts.c: the service
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
	uint64_t next; // next bucket of the part: IPv4 buckets first, then IPv6 buckets
	uint32_t flows; // number of flows of both families
	uint32_t half_open; // number of flows that count towards the half-open limits
	bool measured; // some flows may have start times
	uint32_t rechecks; // `rechecks` of the adopting table at the start of adopt
	uint32_t backend_count;
	uint32_t cursor, waits; // used only by pipeline_parts.c: progress
	// Used only by pipeline_parts.c: the position in the update log up to which the releasing
	// worker had read backend rows.
	uint64_t note;
	uint16_t *backend; // [backend_count] ids of backends with flows, each once
	struct weir_flow_tally *tally; // index: backend; all zeroes for backends without flows
	// Destinations of the part's IPv6 flows while the part is being moved
	struct weir_flow_destinations destinations;
};

// Creates a parcel that can hold the data of any part of the memory. The ids of the flows' backends
// must be below max_backends. socket: NUMA node for the parcel. Returns 0, -ENOMEM. [set-up]
int weir_flow_parcel_create(const struct weir_flow_memory *memory, uint32_t max_backends,
	int socket, struct weir_flow_parcel **ret);
void weir_flow_parcel_free(struct weir_flow_parcel *parcel); // NULL is allowed
// Returns the size in bytes of a parcel for a memory that was created with these parameters.
uint64_t weir_flow_parcel_bytes(uint64_t flows, uint32_t ipv6_percent, uint32_t max_backends);
// Remove the flows of one backend from the parcel. The parcel is empty after the last backend.
void weir_flow_parcel_remove(struct weir_flow_parcel *parcel);

// Returns true if the table owns this part (below WEIR_FLOW_PARTS) of the flows; a table with
// private memory owns all parts. False from the first slice of release until the last slice of
// adopt.
static inline bool weir_flow_owns(const struct weir_flow_table *table, uint32_t part) {
	return table->owned.shift == 0 || (table->owned.bits[part / 64] >> part % 64 & 1) != 0;
}

// Returns the number of parts that the table owns; 1 with private memory.
static inline uint32_t weir_flow_owned_count(const struct weir_flow_table *table) {
	return table->owned.parts;
}

// Takes ownership of a part that has no flows and that no table owns. A table with private memory
// must own part 0. [set-up]
void weir_flow_own(struct weir_flow_table *table, uint32_t part);

// Release a part that the table owns, at most WEIR_FLOW_SLICE buckets per call. parcel: empty at
// the first call; pass the same parcel until done. The listener is not called. Returns true when
// done.
bool weir_flow_release(
	struct weir_flow_table *table, uint32_t part, struct weir_flow_parcel *parcel);

// Adopts a released part, at most WEIR_FLOW_SLICE buckets per call. Returns true when done.
//
// Before the first call, the caller must add the flows of the parcel to the counts of the listener.
// The reason: adopt reports to the listener each flow that has expired, each flow that no longer
// belongs to its service (weir_flow_bucket_recheck), and each flow that is evicted because the
// table has no room for its destination (WEIR_FLOW_DESTINATIONS_MAX). The tallies of the parcel do
// not change.
bool weir_flow_adopt(
	struct weir_flow_table *table, struct weir_flow_parcel *parcel, uint64_t now_ns);
