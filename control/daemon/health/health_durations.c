// SPDX-License-Identifier: BSD-3-Clause
#include "health_durations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

struct weir_health_durations_entry {
	char name[WEIR_NAME_BYTES]; // "" = none
	struct weir_health_histogram histogram;
};

void weir_health_durations_fini(struct weir_health_durations *durations) {
	free(durations->entries);
	*durations = (struct weir_health_durations){0};
}

int weir_health_durations_name(
	struct weir_health_durations *durations, uint16_t service, const char *name) {
	struct weir_health_durations_entry *entry;

	if (service >= durations->count) {
		struct weir_health_durations_entry *grown =
			realloc(durations->entries, (service + 1u) * sizeof(*grown));

		if (grown == NULL) {
			return -ENOMEM;
		}
		memset(grown + durations->count, 0,
			(service + 1u - durations->count) * sizeof(*grown));
		durations->entries = grown;
		durations->count = service + 1u;
	}
	entry = &durations->entries[service];
	if (strcmp(entry->name, name) != 0) {
		*entry = (struct weir_health_durations_entry){0};
		memcpy(entry->name, name, strnlen(name, sizeof(entry->name) - 1));
	}
	return 0;
}

static struct weir_health_durations_entry *find(
	const struct weir_health_durations *durations, uint16_t service) {
	return service < durations->count && durations->entries[service].name[0] != '\0'
		       ? &durations->entries[service]
		       : NULL;
}

void weir_health_durations_add(
	struct weir_health_durations *durations, uint16_t service, uint64_t us) {
	static const uint64_t bounds_us[] = {
#define X(us, text) us,
		WEIR_HEALTH_DURATION_BOUNDS(X)
#undef X
	};
	struct weir_health_durations_entry *entry = find(durations, service);
	unsigned int bucket = 0;

	if (entry == NULL) {
		return;
	}
	while (bucket < WEIR_HEALTH_DURATIONS - 1 && us > bounds_us[bucket]) {
		bucket++;
	}
	entry->histogram.checks[bucket]++;
	entry->histogram.sum_us += us;
}

const struct weir_health_histogram *weir_health_durations_of(
	const struct weir_health_durations *durations, uint16_t service) {
	const struct weir_health_durations_entry *entry = find(durations, service);

	return entry != NULL ? &entry->histogram : NULL;
}
