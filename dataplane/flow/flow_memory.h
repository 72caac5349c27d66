// SPDX-License-Identifier: BSD-3-Clause
//
// Flow memory: the buckets of flow tables. A table has its own memory, or the tables of all workers
// share one memory. A shared memory consists of WEIR_FLOW_PARTS parts with equal numbers of
// buckets, which the tables hand over to each other (flow_parts.h). The functions are for set-up.
//
// Threads: created and freed while no worker runs. Each part is used only by the worker that owns
// the part; parts share no cache line.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "flow.h"

#define WEIR_FLOW_SLOTS4 4u
#define WEIR_FLOW_SLOTS6 2u
#define WEIR_FLOW_MEMORY_FLOWS_MAX \
	(1ull << 31) // maximum number of IPv4 flows, because bucket numbers have 32 bits

struct weir_flow_lines { // memory of one family
	void *buckets;
	uint32_t *starts; // start times of the flows, one for each slot
	uint32_t slots; // number of slots of a bucket
	uint32_t flows; // maximum number of flows
	uint64_t part_buckets; // number of buckets of one part
	uint64_t bucket_count; // number of buckets of all parts
};

struct weir_flow_memory {
	uint32_t shift; // log2 of the number of parts: 0, or WEIR_FLOW_PART_BITS
	struct weir_flow_lines ipv4;
	struct weir_flow_lines ipv6;
};

// Allocates memory for `flows` IPv4 flows (1 to WEIR_FLOW_MEMORY_FLOWS_MAX) and, in addition, for
// IPv6 flows. ipv6_percent (1 to 100): number of IPv6 flows per 100 IPv4 flows. shared: the memory
// is divided into parts, and the tables of several workers use the memory; otherwise one table uses
// the memory. socket: NUMA node of the memory, SOCKET_ID_ANY for any. Returns 0, -EINVAL, -ENOMEM.
// [set-up]
int weir_flow_memory_create(uint64_t flows, uint32_t ipv6_percent, bool shared, int socket,
	struct weir_flow_memory **ret);
void weir_flow_memory_free(struct weir_flow_memory *memory); // NULL is allowed
// Returns the size in bytes of the memory that weir_flow_memory_create allocates for these
// parameters.
uint64_t weir_flow_memory_bytes(uint64_t flows, uint32_t ipv6_percent, bool shared);
// Returns the maximum number of IPv6 flows in one part of a shared memory that was created with
// these parameters.
uint64_t weir_flow_memory_part_flows6(uint64_t flows, uint32_t ipv6_percent);
