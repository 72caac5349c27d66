// SPDX-License-Identifier: BSD-3-Clause
//
// Fixture for the tests of this folder: a small segment with the mappings of the dataplane and of
// control, and tables to publish.
#pragma once

#include <string.h>

#include "reader.h"
#include "segment.h"
#include "selection.h"
#include "test.h"
#include "writer.h"

#define FIXTURE_WORKERS 3
#define FIXTURE_SERVICES 16
#define FIXTURE_BACKENDS 300
#define FIXTURE_HEAP_BYTES (1u << 20)

static inline uint64_t fixture_random(uint64_t *seed) {
	uint64_t x = *seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static inline struct weir_segment *fixture_segment(uint64_t heap_bytes) {
	static const struct weir_port_info ports[2] = {
		{.name = "wan", .kernel_interface = "eth0", .mtu = 1500, .mac = {2, 0, 0, 0, 0, 1}},
		{.name = "lan", .mtu = 9000, .mac = {2, 0, 0, 0, 0, 2}, .steered = 1},
	};
	const struct weir_segment_params params = {
		.workers = FIXTURE_WORKERS,
		.ports = 2,
		.max_services = FIXTURE_SERVICES,
		.max_backends = FIXTURE_BACKENDS,
		.heap_bytes = heap_bytes,
		.tsc_hz = 1000000000,
		.hash_seed = 42,
		.port_info = ports,
	};
	struct weir_segment *segment = NULL;

	assert_int_equal(weir_segment_create(&params, &segment), 0);
	return segment;
}

// Returns control's mapping of the same memory. Statistics are read-only, and tables are writable.
static inline struct weir_segment *fixture_control(const struct weir_segment *segment) {
	struct weir_segment *control = NULL;

	assert_int_equal(weir_segment_attach_own(segment, &control), 0);
	return control;
}

static inline struct weir_root fixture_root(enum weir_blob_kind kind) {
	return (struct weir_root){.kind = kind};
}

static inline struct weir_root fixture_selection_root(uint16_t service) {
	return (struct weir_root){.kind = WEIR_BLOB_SELECTION, .service = service};
}

// Returns a row with n as its MTU.
static inline struct weir_backend_row fixture_row(uint16_t n) {
	return (struct weir_backend_row){.flags = WEIR_BACKEND_PRESENT, .mtu = n};
}

static inline int fixture_build(struct weir_writer *writer, uint16_t service,
	const struct weir_selection_member *members, uint32_t n, uint32_t slots,
	struct weir_selection **ret) {
	struct weir_selection_params params =
		weir_selection_defaults(service, WEIR_POLICY_MAGLEV, slots);

	return weir_selection_build(writer, &params, members, n, ret);
}

// Returns a selection of backends 0..n-1 with equal weights.
static inline struct weir_selection *fixture_selection(
	struct weir_writer *writer, uint16_t service, uint32_t n, uint32_t slots) {
	struct weir_selection_member members[FIXTURE_BACKENDS];
	struct weir_selection *selection = NULL;

	for (uint32_t i = 0; i < n; i++) {
		members[i] = (struct weir_selection_member){
			.identity = i + 1, .id = (uint16_t)i, .weight = 100};
	}
	assert_int_equal(fixture_build(writer, service, members, n, slots, &selection), 0);
	return selection;
}

// Returns a selection of backends 0..n-1 with equal weights and with `subsets` subsets. Backend i
// is in the subset i % subsets; the last backend is in all subsets.
static inline struct weir_selection *fixture_subsets(struct weir_writer *writer, uint16_t service,
	uint32_t n, uint32_t subsets, uint32_t slots) {
	struct weir_selection_params params =
		weir_selection_defaults(service, WEIR_POLICY_MAGLEV, slots);
	struct weir_selection_member members[FIXTURE_BACKENDS];
	struct weir_selection *selection = NULL;

	params.subsets = subsets;
	for (uint32_t i = 0; i < n; i++) {
		members[i] = (struct weir_selection_member){.identity = i + 1,
			.id = (uint16_t)i,
			.weight = 100,
			.subsets = i == n - 1 ? UINT64_MAX : 1ull << i % subsets};
	}
	assert_int_equal(weir_selection_build(writer, &params, members, n, &selection), 0);
	return selection;
}
