// SPDX-License-Identifier: BSD-3-Clause
#include "recent.h"

#include <stdlib.h>
#include <string.h>

#include "totals.h"

void weir_recent_fini(struct weir_recent *recent) {
	free(recent->new_flows);
	free(recent->limited);
	*recent = (struct weir_recent){0};
}

static uint64_t new_flows_now(const struct weir_segment *segment, uint32_t backend) {
	return weir_sum_backend(segment, backend).new_flows;
}

static uint64_t limited_now(const struct weir_segment *segment, uint32_t service) {
	struct weir_share_counters sum = weir_sum_service(segment, service);

	return sum.spilled + sum.rejected;
}

// Give each new row the same value in all samples: its history is unknown, so its rate is 0.
static int grow(uint64_t (**rows)[WEIR_RECENT_LOOKS], uint32_t *count, uint32_t wanted,
	const struct weir_segment *segment,
	uint64_t (*now)(const struct weir_segment *segment, uint32_t id)) {
	uint64_t(*grown)[WEIR_RECENT_LOOKS];

	if (wanted <= *count) {
		return 0;
	}
	grown = realloc(*rows, wanted * sizeof(*grown));
	if (grown == NULL) {
		return -1;
	}
	for (uint32_t id = *count; id < wanted; id++) {
		uint64_t value = now(segment, id);

		for (uint32_t look = 0; look < WEIR_RECENT_LOOKS; look++) {
			grown[id][look] = value;
		}
	}
	*rows = grown;
	*count = wanted;
	return 0;
}

void weir_recent_take(struct weir_recent *recent, const struct weir_segment *segment,
	uint32_t backends, uint32_t services) {
	backends = backends < segment->max_backends ? backends : segment->max_backends;
	services = services < segment->max_services ? services : segment->max_services;
	if (grow(&recent->new_flows, &recent->backends, backends, segment, new_flows_now) < 0 ||
		grow(&recent->limited, &recent->services, services, segment, limited_now) < 0) {
		return;
	}
	for (uint32_t id = 0; id < recent->backends; id++) {
		recent->new_flows[id][recent->next] = new_flows_now(segment, id);
	}
	for (uint32_t id = 0; id < recent->services; id++) {
		recent->limited[id][recent->next] = limited_now(segment, id);
	}
	recent->next = (recent->next + 1) % WEIR_RECENT_LOOKS;
	recent->looks += recent->looks < WEIR_RECENT_LOOKS;
}

static uint32_t oldest(const struct weir_recent *recent) {
	return recent->looks < WEIR_RECENT_LOOKS ? 0 : recent->next;
}

uint64_t weir_recent_new_flows(
	const struct weir_recent *recent, const struct weir_segment *segment, uint32_t backend) {
	if (segment == NULL || recent->looks == 0 || backend >= recent->backends ||
		backend >= segment->max_backends) {
		return 0;
	}
	return new_flows_now(segment, backend) - recent->new_flows[backend][oldest(recent)];
}

uint64_t weir_recent_limited(
	const struct weir_recent *recent, const struct weir_segment *segment, uint32_t service) {
	if (segment == NULL || recent->looks == 0 || service >= recent->services ||
		service >= segment->max_services) {
		return 0;
	}
	return limited_now(segment, service) - recent->limited[service][oldest(recent)];
}
