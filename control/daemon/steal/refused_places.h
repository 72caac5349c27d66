// SPDX-License-Identifier: BSD-3-Clause
//
// Refused places: destinations (backend, port, address) for which an agent permits no steal of
// connections. The hash table has a fixed size, so a new place can overwrite another place; steals
// for the overwritten place are then requested again.
//
// Threads: one. No clock: time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_REFUSED_PLACES 64u
// Time for which a place counts as refused: longer than most clients wait for a reply.
#define WEIR_REFUSED_PLACE_MS 10000u

struct weir_refused_place {
	uint16_t member; // index of the backend in its service
	uint16_t port; // in network byte order
	uint8_t family; // 4 or 6; 0 = any address
	uint8_t address[16]; // IPv4: the first 4 bytes; the other bytes are 0
	uint64_t until_ms; // 0 = unused
};

struct weir_refused_places { // zeroed = empty
	struct weir_refused_place place[WEIR_REFUSED_PLACES];
};

// Adds a place. place: copied, except until_ms. The place expires after WEIR_REFUSED_PLACE_MS.
void weir_refused_places_add(struct weir_refused_places *places,
	const struct weir_refused_place *place, uint64_t now_ms);

// Returns whether steals are refused at the port of a place, either at its address or at all
// addresses.
bool weir_refused_places_contain(const struct weir_refused_places *places,
	const struct weir_refused_place *place, uint64_t now_ms);
