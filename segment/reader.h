// SPDX-License-Identifier: BSD-3-Clause
//
// Reader: how a worker reads the published tables.
//
// A reader keeps, per root, the last reference and a *view*: pointers and counts copied to private
// memory after their bounds were checked against the segment. A view is renewed when the reference
// changes, once per burst and root. Values inside the arrays (service ids, backend indexes, port
// numbers) are compared with the private counts when they are used, so that a broken or malicious
// control process can misdirect packets but not crash a worker.
//
// A table that fails its check is refused: the view becomes empty, `refused` counts it.
//
// Threads: one reader per worker, that worker only. A view is valid until the worker's next
// quiescent report (S5). Load order (layout.h): services, selection, backends.
#pragma once

#include "segment.h"
#include "view.h"

struct weir_reader {
	const struct weir_segment *segment;
	uint32_t worker;
	weir_ref services_ref;
	weir_ref backends_ref;
	struct weir_services_view services;
	struct weir_backends_view backends;
	struct weir_selection_view *selection; // [max_services]
	uint64_t refused; // tables that failed their bounds check
};

int weir_reader_init(
	struct weir_reader *reader, const struct weir_segment *segment, uint32_t worker);
void weir_reader_fini(struct weir_reader *reader);

// Slow halves: validate and adopt. Called by the inline functions below when a reference changed.
void weir_reader_adopt_services(struct weir_reader *reader, weir_ref ref);
void weir_reader_adopt_backends(struct weir_reader *reader, weir_ref ref);
void weir_reader_adopt_selection(struct weir_reader *reader, uint16_t service, weir_ref ref);

// The service table, renewed. Once per burst. [worker]
static inline const struct weir_services_view *weir_reader_services(struct weir_reader *reader) {
	weir_ref ref = __atomic_load_n(&reader->segment->roots->services, __ATOMIC_ACQUIRE);

	if (__builtin_expect(ref != reader->services_ref, 0)) {
		weir_reader_adopt_services(reader, ref);
	}
	return &reader->services;
}

// The selection of a service (service < max_services). After weir_reader_services. [worker]
static inline const struct weir_selection_view *weir_reader_selection(
	struct weir_reader *reader, uint16_t service) {
	weir_ref ref =
		__atomic_load_n(&reader->segment->roots->selection[service], __ATOMIC_ACQUIRE);

	if (__builtin_expect(ref != reader->selection[service].ref, 0)) {
		weir_reader_adopt_selection(reader, service, ref);
	}
	return &reader->selection[service];
}

// The backend table, renewed. Once per burst, after the selections. [worker]
static inline const struct weir_backends_view *weir_reader_backends(struct weir_reader *reader) {
	weir_ref ref = __atomic_load_n(&reader->segment->roots->backends, __ATOMIC_ACQUIRE);

	if (__builtin_expect(ref != reader->backends_ref, 0)) {
		weir_reader_adopt_backends(reader, ref);
	}
	return &reader->backends;
}
