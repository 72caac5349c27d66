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

void weir_changes_fini(struct weir_changes *changes) {
	json_decref(changes->gone);
	changes->gone = NULL;
}

// Stores the number of lost changes of a service whose last change is lost. If out of memory, they
// are not counted.
static void keep_count(struct weir_changes *changes, const char *name, uint64_t lost) {
	if (changes->gone == NULL) {
		changes->gone = json_object();
	}
	if (json_object_size(changes->gone) < WEIR_CHANGES_GONE_MOST) {
		(void)json_object_set_new(changes->gone, name, json_integer((json_int_t)lost));
	}
}

uint64_t weir_changes_lost(const struct weir_changes *changes, const char *service) {
	return (uint64_t)json_integer_value(json_object_get(changes->gone, service));
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
		keep_count(changes, changes->change[place].service, service->lost);
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
		service->oldest = place;
		service->lost = weir_changes_lost(changes, change->service);
		(void)json_object_del(changes->gone, change->service);
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
