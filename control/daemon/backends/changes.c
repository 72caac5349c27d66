// SPDX-License-Identifier: BSD-3-Clause
#include "changes.h"

#include <string.h>

// Returns the index of the service of this name, or else of an unused element.
static uint16_t service_index(const struct weir_changes *changes, const char *name) {
	uint16_t unused = 0;

	for (uint16_t i = 0; i < WEIR_STATES_HISTORY; i++) {
		const struct weir_changes_service *service = &changes->service[i];

		if (service->kept == 0) {
			unused = i;
		} else if (strcmp(changes->change[service->oldest].service, name) == 0) {
			return i;
		}
	}
	return unused;
}

// FNV-1a. Never 0.
static uint64_t hash_of(const char *name) {
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *name != '\0'; name++) {
		hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
	}
	return hash != 0 ? hash : 1;
}

// Returns the index of the element with this hash, or else of an unused element.
static uint32_t forgotten_index(const struct weir_changes *changes, uint64_t hash) {
	uint32_t i = hash % WEIR_CHANGES_FORGOTTEN;

	while (changes->forgotten[i].hash != 0 && changes->forgotten[i].hash != hash) {
		i = (i + 1) % WEIR_CHANGES_FORGOTTEN;
	}
	return i;
}

// Stores the number of lost changes of a service whose last change is lost.
static void forget(struct weir_changes *changes, const char *name, uint64_t lost) {
	const uint64_t hash = hash_of(name);
	struct weir_changes_forgotten *forgotten =
		&changes->forgotten[forgotten_index(changes, hash)];

	if (forgotten->hash == 0) {
		if (changes->forgotten_count >= WEIR_CHANGES_FORGOTTEN / 4 * 3) {
			return;
		}
		forgotten->hash = hash;
		changes->forgotten_count++;
	}
	forgotten->lost = lost;
}

uint64_t weir_changes_lost(const struct weir_changes *changes, const char *service) {
	return changes->forgotten[forgotten_index(changes, hash_of(service))].lost;
}

// Removes the oldest change of the service with the most changes; of several such services, that
// with the oldest change. Returns the place that is free now.
static uint16_t lose_one(struct weir_changes *changes) {
	struct weir_changes_service *service;
	uint32_t most = 0, n = 0, next;
	uint16_t place;

	for (uint32_t i = 0; i < changes->count; i++) {
		uint32_t kept = changes->service[changes->service_of[changes->order[i]]].kept;

		if (kept > most) {
			most = kept;
			n = i; // the oldest change of this service, because i ascends
		}
	}
	place = changes->order[n];
	service = &changes->service[changes->service_of[place]];
	for (next = n + 1; next < changes->count; next++) {
		if (changes->service_of[changes->order[next]] == changes->service_of[place]) {
			service->oldest = changes->order[next];
			break;
		}
	}
	service->kept--;
	service->lost++;
	if (service->kept == 0) {
		forget(changes, changes->change[place].service, service->lost);
	}
	changes->count--;
	memmove(&changes->order[n], &changes->order[n + 1],
		(changes->count - n) * sizeof(changes->order[0]));
	return place;
}

void weir_changes_add(struct weir_changes *changes, const struct weir_states_change *change) {
	uint16_t place =
		changes->count < WEIR_STATES_HISTORY ? (uint16_t)changes->count : lose_one(changes);
	uint16_t index = service_index(changes, change->service);
	struct weir_changes_service *service = &changes->service[index];

	changes->change[place] = *change;
	changes->service_of[place] = index;
	changes->order[changes->count++] = place;
	if (service->kept++ == 0) {
		struct weir_changes_forgotten *forgotten =
			&changes->forgotten[forgotten_index(changes, hash_of(change->service))];

		service->oldest = place;
		service->lost = forgotten->lost;
		forgotten->lost = 0;
	}
}

bool weir_changes_get(
	const struct weir_changes *changes, uint32_t n, struct weir_states_change *ret) {
	const struct weir_changes_service *service;
	uint16_t place;

	if (n >= changes->count) {
		return false;
	}
	place = changes->order[changes->count - 1 - n];
	service = &changes->service[changes->service_of[place]];
	*ret = changes->change[place];
	ret->older = service->oldest == place ? service->lost : 0;
	return true;
}
