// SPDX-License-Identifier: BSD-3-Clause
//
// Flow memory: the buckets of flow tables. A table has one of its own, or those of all workers
// share one: then it consists of WEIR_FLOW_PARTS parts of the same number of buckets each, and the
// tables hand parts to each other (flow_parts.h). Nothing but set-up here.
//
// Threads: made and freed while no worker runs. Each part is used by the worker that owns it only;
// parts share no cache line.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "flow.h"

#define WEIR_FLOW_SLOTS4 4u
#define WEIR_FLOW_SLOTS6 2u
#define WEIR_FLOW_MEMORY_FLOWS_MAX (1ull << 31) // IPv4 flows of a memory; buckets have 32 bits

struct weir_flow_lines { // of one family
	void *buckets;
	uint32_t *starts; // per slot
	uint32_t slots; // of a bucket
	uint32_t flows; // that it is made for
	uint64_t part_buckets; // of one part
	uint64_t bucket_count; // of all parts
};

struct weir_flow_memory {
	uint32_t shift; // of the number of parts: 0, or WEIR_FLOW_PART_BITS
	struct weir_flow_lines ipv4;
	struct weir_flow_lines ipv6;
};

// Memory for `flows` IPv4 flows (1 to WEIR_FLOW_MEMORY_FLOWS_MAX), and ipv6_percent (1 to 100) as
// many IPv6 flows on top.
// shared: in parts, for the tables of several workers; else for one table.
// socket: NUMA node of the memory, SOCKET_ID_ANY for any.
// Returns 0, -EINVAL, -ENOMEM. [set-up]
int weir_flow_memory_create(uint64_t flows, uint32_t ipv6_percent, bool shared, int socket,
	struct weir_flow_memory **ret);
void weir_flow_memory_free(struct weir_flow_memory *memory); // NULL is fine
// Bytes that a shared one, or one of a single table, takes.
uint64_t weir_flow_memory_bytes(uint64_t flows, uint32_t ipv6_percent, bool shared);
// IPv6 flows that one part of a shared one has room for.
uint64_t weir_flow_memory_part_flows6(uint64_t flows, uint32_t ipv6_percent);
