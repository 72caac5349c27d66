// SPDX-License-Identifier: BSD-3-Clause
//
// Pattern: tables in which every word depends on the generation of the table, and rows in which
// every word depends on a number in the row. So a reader can detect a table or row that is torn, or
// whose memory was reused. For the tests of this folder.
//
// The backend ids of a selection are below the number of rows that its writer passes. All slots[]
// and backends[] are checked. Ports 1000..1007 of the only VIP map to services in an order that
// changes with every table.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "reader.h"
#include "service_table.h"
#include "writer.h"

#define PATTERN_PORTS 8u

static inline uint64_t pattern_word(uint64_t generation, uint64_t i) {
	uint64_t x = generation * 0x9e3779b97f4a7c15ull + i * 0xd1342543de82ef95ull;

	x = (x ^ x >> 32) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 29;
}

static inline uint64_t pattern_random(uint64_t *seed) {
	uint64_t x = *seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

// --- write --------------------------------------------------------------------------------

// Make the row of a backend for number n; n > 0.
static inline struct weir_backend_row pattern_row(uint16_t backend, uint32_t n) {
	struct weir_backend_row row = {.flags = WEIR_BACKEND_PRESENT, .max_active_flows = n};

	row.service = backend;
	row.checksum_base = (uint16_t)pattern_word(n, backend);
	for (uint64_t i = 0; i < sizeof(row.header) / 8; i++) {
		uint64_t word = pattern_word(n, backend + 100 * (i + 1));

		memcpy(&row.header[8 * i], &word, 8);
	}
	return row;
}

static inline struct weir_selection *pattern_selection(struct weir_writer *writer, uint16_t service,
	uint32_t backends, uint32_t slots, uint32_t rows) {
	struct weir_selection *selection = weir_writer_alloc(writer, WEIR_BLOB_SELECTION,
		sizeof(*selection) + backends * sizeof(struct weir_candidate) +
			slots * sizeof(uint16_t));
	struct weir_candidate *out;
	uint16_t *table;

	if (selection == NULL) {
		return NULL;
	}
	selection->service = service;
	selection->subsets = 1;
	selection->others_off = sizeof(*selection);
	selection->settings = (struct weir_policy_settings){.policy = WEIR_POLICY_MAGLEV,
		.needs = weir_policy_needs(WEIR_POLICY_MAGLEV),
		.error_window_ms = 1000};
	selection->first.candidates = (uint16_t)backends;
	selection->first.slots = slots;
	selection->first.candidates_off = sizeof(*selection);
	selection->first.rounds_off = sizeof(*selection);
	selection->first.slots_off =
		(uint32_t)(sizeof(*selection) + backends * sizeof(struct weir_candidate));
	out = (struct weir_candidate *)(void *)(selection + 1);
	table = (uint16_t *)(void *)(out + backends);
	for (uint32_t i = 0; i < backends; i++) {
		uint64_t word = pattern_word(selection->blob.generation, i);

		out[i].id = (uint16_t)((word & 0xffff) % rows);
		out[i].weight = (uint32_t)(word >> 32);
	}
	for (uint32_t i = 0; i < slots; i++) {
		table[i] =
			(uint16_t)(pattern_word(selection->blob.generation, 100000 + i) % backends);
	}
	return selection;
}

static inline struct weir_service_table *pattern_services(
	struct weir_writer *writer, uint32_t first) {
	struct weir_service_bind binds[PATTERN_PORTS];
	struct weir_service_table *table = NULL;

	for (uint32_t i = 0; i < PATTERN_PORTS; i++) {
		binds[i] = (struct weir_service_bind){
			.address = {198, 51, 100, 1},
			.family = 4,
			.protocol = IPPROTO_TCP,
			.port_first = (uint16_t)(1000 + i),
			.port_last = (uint16_t)(1000 + i),
			.service = (uint16_t)((first + i) % PATTERN_PORTS),
		};
	}
	weir_service_table_build(writer, binds, PATTERN_PORTS, first, &table);
	return table;
}

// --- checks: return false and print to stderr if a table is not complete ----------------------

// A row of zeroes is also complete: no row was published, or the row was removed.
static inline bool pattern_check_row(uint16_t backend, const struct weir_backend_row *row) {
	struct weir_backend_row whole = {0};

	if (row->flags != 0 || row->max_active_flows != 0) {
		whole = pattern_row(backend, row->max_active_flows);
	}
	if (memcmp(row, &whole, sizeof(whole)) == 0) {
		return true;
	}
	fprintf(stderr, "row %u of backend %u is incomplete\n", row->max_active_flows, backend);
	return false;
}

// rows: the number of rows for which the selection was made; 0 = not known.
static inline bool pattern_check_selection(const struct weir_selection_view *view, uint32_t rows) {
	for (uint32_t i = 0; i < view->table.count; i++) {
		uint64_t word = pattern_word(view->generation, i);

		if (view->table.candidates[i].weight != (uint32_t)(word >> 32) ||
			(rows != 0 && view->table.candidates[i].id !=
					      (uint16_t)((word & 0xffff) % rows))) {
			fprintf(stderr,
				"selection %llx: backend %u of %u belongs to another selection\n",
				(unsigned long long)view->generation, i, view->table.count);
			return false;
		}
	}
	for (uint32_t i = 0; i < view->table.slot_count; i++) {
		if (view->table.slots[i] !=
			pattern_word(view->generation, 100000 + i) % view->table.count) {
			fprintf(stderr,
				"selection %llx: slot %u of %u belongs to another selection\n",
				(unsigned long long)view->generation, i, view->table.slot_count);
			return false;
		}
	}
	return true;
}

static inline bool pattern_check_services(const struct weir_services_view *view) {
	const uint8_t address[16] = {198, 51, 100, 1};
	uint16_t first;

	if (view->buckets == NULL) {
		return true;
	}
	first = weir_service_lookup(view, address, 4, IPPROTO_TCP, 1000);
	for (uint32_t i = 0; i < PATTERN_PORTS; i++) {
		uint16_t service =
			weir_service_lookup(view, address, 4, IPPROTO_TCP, (uint16_t)(1000 + i));

		if (service != (first + i) % PATTERN_PORTS) {
			fprintf(stderr, "service table: port %u goes to %u, port 1000 to %u\n",
				1000 + i, service, first);
			return false;
		}
	}
	return true;
}

// Checks that all backends of the selection have rows. If not, the selection was loaded too early.
static inline bool pattern_check_order(
	const struct weir_selection_view *selection, const struct weir_backend_row *rows) {
	for (uint32_t i = 0; i < selection->table.count; i++) {
		uint16_t id = selection->table.candidates[i].id;

		if (rows[id].flags == 0) {
			fprintf(stderr, "selection %llu contains backend %u, which has no row\n",
				(unsigned long long)selection->generation, id);
			return false;
		}
	}
	return true;
}
