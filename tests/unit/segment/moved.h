// SPDX-License-Identifier: BSD-3-Clause
//
// Moves the mappings of a segment. Tests and fuzz targets place the mappings between unmapped
// memory, so that an access before or after a mapping crashes.
#pragma once

#include "segment.h"

// Adjusts all pointers of a segment whose mappings were moved to these addresses.
static inline void segment_moved(
	struct weir_segment *segment, uint8_t *statistics, uint8_t *tables) {
#define MOVE(memory, pointer) \
	segment->pointer = \
		(__typeof__(segment->pointer))(void *)((memory) + ((uint8_t *)segment->pointer - \
									  segment->memory))
	MOVE(statistics, header);
	MOVE(statistics, quiescence);
	MOVE(statistics, refusals);
	MOVE(statistics, worker_counters);
	MOVE(statistics, worker_boxes);
	MOVE(statistics, port_counters);
	MOVE(statistics, bucket_packets);
	MOVE(statistics, bucket_owners);
	MOVE(statistics, steal_counters);
	MOVE(statistics, flow_pages);
	MOVE(statistics, capture_rings);
	MOVE(statistics, limit_words);
	MOVE(statistics, service_counters);
	MOVE(statistics, backend_counters);
	MOVE(tables, news);
	MOVE(tables, notes);
	MOVE(tables, updates);
	MOVE(tables, roots);
	MOVE(tables, control_boxes);
	MOVE(tables, identity_services);
	MOVE(tables, identity_backends);
	MOVE(tables, service_bases);
	MOVE(tables, backend_bases);
	MOVE(tables, rows);
	MOVE(tables, costs);
	MOVE(tables, capture_control);
#undef MOVE
	segment->statistics = statistics;
	segment->tables = tables;
}
