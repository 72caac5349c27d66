// SPDX-License-Identifier: BSD-3-Clause
//
// Refused places: destinations at backends whose agents permit no steal of connections to them. A
// hash table of fixed size: a place may displace another one, which is then requested again.
//
// Threads: one. No clock: time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_REFUSED_PLACES 64u
#define WEIR_REFUSED_PLACE_MS 10000u // longer than most clients wait for a reply

struct weir_refused_place {
	uint16_t member; // index of the backend
	uint16_t port; // network order
	uint8_t family; // 4 or 6; 0 = any address
	uint8_t address[16]; // of that family, the rest 0
	uint64_t until_ms; // 0 = unused
};

struct weir_refused_places { // zeroed = none
	struct weir_refused_place place[WEIR_REFUSED_PLACES];
};

// place: until_ms is set here.
void weir_refused_places_add(struct weir_refused_places *places,
	const struct weir_refused_place *place, uint64_t now_ms);

// Whether the place is refused, or its port for any address.
bool weir_refused_places_contain(const struct weir_refused_places *places,
	const struct weir_refused_place *place, uint64_t now_ms);
