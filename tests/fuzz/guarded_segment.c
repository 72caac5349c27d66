// SPDX-License-Identifier: BSD-3-Clause
#include "guarded_segment.h"

#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "moved.h"

#define GUARD_BYTES (1u << 20)

// Address ranges for mappings, with inaccessible memory around each. They are reserved once,
// because with AddressSanitizer every new mapping needs a pass over its shadow memory.
#define PLACES 8u
#define PLACE_BYTES (4u << 20)

static uint8_t *places; // [PLACES], each of PLACE_BYTES, with a guard before it
static bool taken[PLACES];

static void reserve_places(void) {
	uint64_t bytes = PLACES * PLACE_BYTES + GUARD_BYTES;

	if (places == NULL) {
		places = mmap(
			NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		REQUIRE(places != MAP_FAILED);
	}
}

// Moves a mapping to a place between guards. Returns its new address.
static uint8_t *guard_memory(uint8_t *old, uint64_t bytes) {
	unsigned int place = 0;
	uint8_t *base;

	reserve_places();
	while (place < PLACES && taken[place]) {
		place++;
	}
	REQUIRE(place < PLACES && bytes <= PLACE_BYTES - GUARD_BYTES);
	taken[place] = true;
	base = places + place * PLACE_BYTES + GUARD_BYTES;
	REQUIRE(mremap(old, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base) == base);
	return base;
}

// Makes the range of a removed mapping inaccessible again.
static void release_place(uint8_t *base, uint64_t bytes) {
	REQUIRE(mmap(base, bytes, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == base);
	taken[(size_t)(base - places) / PLACE_BYTES] = false;
}

void guard_segment(struct weir_segment *segment) {
	uint8_t *statistics = guard_memory(segment->statistics, segment->statistics_bytes);
	uint8_t *tables = guard_memory(segment->tables, segment->tables_bytes);

	segment_moved(segment, statistics, tables);
}

void guard_segment_free(struct weir_segment *segment) {
	uint8_t *memory[] = {segment->statistics, segment->tables};
	uint64_t bytes[] = {segment->statistics_bytes, segment->tables_bytes};

	weir_segment_free(segment);
	for (unsigned int i = 0; i < 2; i++) {
		release_place(memory[i], bytes[i]);
	}
}

void guarded_segment_open(
	struct guarded_segment *memory, const struct weir_segment_params *params) {
	REQUIRE(weir_segment_create(params, &memory->dataplane) == 0);
	REQUIRE(weir_segment_attach_own(memory->dataplane, &memory->control) == 0);
	guard_segment(memory->dataplane);
	guard_segment(memory->control);
	REQUIRE(weir_writer_open(memory->control, &memory->writer) == 0);
	REQUIRE(weir_writer_reserve(memory->writer, params->max_services, params->max_backends) ==
		0);
	REQUIRE(weir_segment_follow(memory->dataplane) == 0);
}

void guarded_segment_close(struct guarded_segment *memory) {
	weir_writer_free(memory->writer);
	guard_segment_free(memory->control);
	guard_segment_free(memory->dataplane);
}

void guarded_segment_publish(
	struct guarded_segment *memory, enum weir_blob_kind kind, uint16_t service, void *blob) {
	const struct weir_root root = {.kind = kind, .service = service};

	REQUIRE(weir_writer_publish(memory->writer, root, blob) == 0);
}
