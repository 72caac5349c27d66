// SPDX-License-Identifier: BSD-3-Clause
#include "refused_places.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

// Returns the index of the element for a place in the hash table. The element may contain another
// place.
static uint32_t element_of(const struct weir_refused_place *place) {
	uint32_t sum = place->member * 31u + ntohs(place->port);

	for (size_t i = 0; i < sizeof(place->address); i++) {
		sum = sum * 31 + place->address[i];
	}
	return sum % WEIR_REFUSED_PLACES;
}

void weir_refused_places_add(struct weir_refused_places *places,
	const struct weir_refused_place *place, uint64_t now_ms) {
	struct weir_refused_place *element = &places->place[element_of(place)];

	*element = *place;
	element->until_ms = now_ms + WEIR_REFUSED_PLACE_MS;
}

static bool contain(const struct weir_refused_places *places,
	const struct weir_refused_place *place, uint64_t now_ms) {
	const struct weir_refused_place *at = &places->place[element_of(place)];

	return at->port == place->port && at->member == place->member &&
	       at->family == place->family &&
	       memcmp(at->address, place->address, sizeof(at->address)) == 0 &&
	       now_ms < at->until_ms;
}

bool weir_refused_places_contain(const struct weir_refused_places *places,
	const struct weir_refused_place *place, uint64_t now_ms) {
	const struct weir_refused_place port = {.member = place->member, .port = place->port};

	return contain(places, &port, now_ms) || contain(places, place, now_ms);
}
