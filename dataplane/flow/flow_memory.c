// SPDX-License-Identifier: BSD-3-Clause
#include "flow_memory.h"

#include <errno.h>

#include <rte_common.h>
#include <rte_malloc.h>

#define BUCKET_BYTES 64u
// The number of buckets of a part of shared memory is a multiple of this number. Therefore the
// start times of a part fill whole cache lines, and a pair of adjacent buckets is in one part.
#define PART_BUCKETS_STEP 8u

// Parameters from which the number of buckets for a family is computed. fill_percent: percentage of
// slots in use when the memory is full, that is, when it has as many flows as it was created for.
// The percentage is lower for IPv6, because IPv6 buckets have fewer slots: otherwise more flows
// would be in their secondary bucket, and lookups would be slower. part_fill_percent: percentage of
// slots in use in a part that has far more flows than the average part.
struct family_size {
	uint32_t slots; // number of slots of a bucket
	uint32_t fill_percent;
	uint32_t part_fill_percent;
};

static const struct family_size size4 = {WEIR_FLOW_SLOTS4, 75, 90};
static const struct family_size size6 = {WEIR_FLOW_SLOTS6, 50, 75};

static uint64_t buckets_for(uint64_t flows, uint32_t fill_percent, uint32_t slots) {
	return (flows * 100 / fill_percent + 1 + slots - 1) / slots;
}

static uint32_t root_of(uint64_t n) {
	uint32_t root = 0;

	while ((uint64_t)root * root < n) {
		root++;
	}
	return root;
}

// Returns the number of buckets of a part. The flows of a part are binomially distributed. A part
// has room for more than the mean plus four standard deviations. In a full memory, the probability
// that any part exceeds this sum is below 1/30; part_fill_percent leaves more room.
static uint64_t part_buckets_for(uint64_t flows, const struct family_size *size) {
	uint64_t mean = (flows + WEIR_FLOW_PARTS - 1) / WEIR_FLOW_PARTS;
	uint64_t buckets = RTE_MAX(buckets_for(mean, size->fill_percent, size->slots),
		buckets_for(mean + 4ull * root_of(mean) + 4, size->part_fill_percent, size->slots));

	return RTE_ALIGN_MUL_CEIL(buckets, PART_BUCKETS_STEP);
}

static struct weir_flow_lines lines_for(
	uint64_t flows, bool shared, const struct family_size *size) {
	struct weir_flow_lines lines = {.slots = size->slots, .flows = (uint32_t)flows};

	lines.part_buckets = shared ? part_buckets_for(flows, size)
				    : buckets_for(flows, size->fill_percent, size->slots);
	lines.bucket_count = lines.part_buckets * (shared ? WEIR_FLOW_PARTS : 1);
	return lines;
}

static uint64_t ipv6_share(uint64_t flows, uint32_t percent) {
	return RTE_MAX(flows * percent / 100, 1ull);
}

static uint64_t lines_bytes(const struct weir_flow_lines *lines) {
	return lines->bucket_count * (BUCKET_BYTES + lines->slots * sizeof(uint32_t));
}

uint64_t weir_flow_memory_bytes(uint64_t flows, uint32_t ipv6_percent, bool shared) {
	struct weir_flow_lines ipv4 = lines_for(flows, shared, &size4);
	struct weir_flow_lines ipv6 = lines_for(ipv6_share(flows, ipv6_percent), shared, &size6);

	return sizeof(struct weir_flow_memory) + lines_bytes(&ipv4) + lines_bytes(&ipv6);
}

uint64_t weir_flow_memory_part_flows6(uint64_t flows, uint32_t ipv6_percent) {
	return part_buckets_for(ipv6_share(flows, ipv6_percent), &size6) * size6.slots;
}

static int allocate(struct weir_flow_lines *lines, int socket) {
	lines->buckets = rte_zmalloc_socket(
		"flow_table", lines->bucket_count * BUCKET_BYTES, BUCKET_BYTES, socket);
	lines->starts = rte_zmalloc_socket("flow_table",
		lines->bucket_count * lines->slots * sizeof(uint32_t), BUCKET_BYTES, socket);
	return lines->buckets == NULL || lines->starts == NULL ? -ENOMEM : 0;
}

int weir_flow_memory_create(uint64_t flows, uint32_t ipv6_percent, bool shared, int socket,
	struct weir_flow_memory **ret) {
	struct weir_flow_memory *memory;

	if (flows == 0 || flows > WEIR_FLOW_MEMORY_FLOWS_MAX || ipv6_percent == 0 ||
		ipv6_percent > 100) {
		return -EINVAL;
	}
	memory = rte_zmalloc_socket("flow_table", sizeof(*memory), 0, socket);
	if (memory == NULL) {
		return -ENOMEM;
	}
	memory->shift = shared ? WEIR_FLOW_PART_BITS : 0;
	memory->ipv4 = lines_for(flows, shared, &size4);
	memory->ipv6 = lines_for(ipv6_share(flows, ipv6_percent), shared, &size6);
	if (allocate(&memory->ipv4, socket) < 0 || allocate(&memory->ipv6, socket) < 0) {
		weir_flow_memory_free(memory);
		return -ENOMEM;
	}
	*ret = memory;
	return 0;
}

void weir_flow_memory_free(struct weir_flow_memory *memory) {
	if (memory == NULL) {
		return;
	}
	rte_free(memory->ipv6.starts);
	rte_free(memory->ipv6.buckets);
	rte_free(memory->ipv4.starts);
	rte_free(memory->ipv4.buckets);
	rte_free(memory);
}
