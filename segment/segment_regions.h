// SPDX-License-Identifier: BSD-3-Clause
//
// Regions: the positions of the segment's parts in its two memory areas. Private to segment.c,
// which assigns the positions, and segment_attach.c, which checks them.
#pragma once

#include "segment.h"

#define WEIR_LINE_BYTES 64u
#define WEIR_SEGMENT_BYTES_MAX (1ull << 38) // maximum that the 32 bits of a reference can address

// Regions of both memory areas: first the regions of statistics, then the regions of tables. The
// heap is last.
enum weir_region {
	WEIR_REGION_QUIESCENCE,
	WEIR_REGION_REFUSALS,
	WEIR_REGION_WORKER_COUNTERS,
	WEIR_REGION_WORKER_BOXES,
	WEIR_REGION_PORT_COUNTERS,
	WEIR_REGION_BUCKET_PACKETS,
	WEIR_REGION_BUCKET_OWNERS,
	WEIR_REGION_STEAL_COUNTERS,
	WEIR_REGION_FLOW_PAGES,
	WEIR_REGION_CAPTURE_RINGS,
	WEIR_REGION_LIMIT_WORDS,
	WEIR_REGION_SERVICE_COUNTERS,
	WEIR_REGION_BACKEND_COUNTERS,
	WEIR_REGION_FIRST_OF_TABLES,
	WEIR_REGION_NEWS = WEIR_REGION_FIRST_OF_TABLES,
	WEIR_REGION_ROOTS,
	WEIR_REGION_CONTROL_BOXES,
	WEIR_REGION_CAPTURE_CONTROL,
	WEIR_REGION_IDENTITY_SERVICES,
	WEIR_REGION_IDENTITY_BACKENDS,
	WEIR_REGION_SERVICE_BASES,
	WEIR_REGION_BACKEND_BASES,
	WEIR_REGION_ROWS,
	WEIR_REGION_COSTS,
	WEIR_REGION_HEAP,
	WEIR_REGIONS,
};

struct weir_region_place {
	const char *name;
	uint64_t *offset; // field of the header
	uint64_t bytes;
};

static inline bool weir_region_in_tables(unsigned int region) {
	return region >= WEIR_REGION_FIRST_OF_TABLES;
}

// Fill regions[] with the name and length of each region, and with a pointer to the region's offset
// in the header. The lengths are computed from the header's counts, which must be in range.
void weir_regions_of(
	struct weir_segment_header *header, struct weir_region_place regions[WEIR_REGIONS]);

// Read and validate the header of a segment. why: receives one line that explains an error.
// Returns 0 or negative errno.
int weir_segment_read_header(
	int statistics_fd, struct weir_segment_header *ret, char *why, size_t why_bytes);

// Map a memory area (MAP_SHARED). protection: PROT_READ, or PROT_READ | PROT_WRITE. Returns NULL
// and sets errno on failure.
uint8_t *weir_segment_map(int fd, uint64_t bytes, int protection);

// Set the counts and the pointers to the regions, from the private copy of the header.
void weir_segment_point(struct weir_segment *segment, const struct weir_segment_header *header);
