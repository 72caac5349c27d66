// SPDX-License-Identifier: BSD-3-Clause
//
// Tests how often the half-open flows of services are read, and for how many services at a time.
#include "flow_steals_lab.h"

#include <stdlib.h>

#include "steal_service.h"

#define LOOKED_AT 200u // number of services
#define LOOKED_AT_EACH 100u // number of backends; 40,000 counters of all workers

static void begin_services(struct steal_service *services) {
	for (uint32_t i = 0; i < LOOKED_AT; i++) {
		services[i] = (struct steal_service){.enabled = true,
			.count = LOOKED_AT_EACH,
			.stalling = {.memory_ms = 5000, .after_ms = 500},
			.members = calloc(LOOKED_AT_EACH, sizeof(services[i].members[0])),
			.handshakes = calloc(LOOKED_AT_EACH, sizeof(services[i].handshakes[0])),
			.places = calloc(LOOKED_AT_EACH, sizeof(services[i].places[0]))};
		assert_true(services[i].members != NULL && services[i].handshakes != NULL &&
			    services[i].places != NULL);
	}
}

TEST_EACH(setup, teardown);

// A tenth of the services is read at a time, so each service is read once a second, however many
// services and backends there are.
TEST(readings_of_many_services_are_spread) {
	struct own *own = *state;
	struct steal_service *services = calloc(LOOKED_AT, sizeof(services[0]));
	uint64_t at_ms = 1000000;
	uint32_t next = 0;

	assert_non_null(services);
	begin_services(services);
	for (uint32_t tick = 0; tick < 50; tick++, at_ms += WEIR_ROUND_MS) {
		uint32_t now = 0;

		next = weir_steal_services_count(
			services, LOOKED_AT, next, own->lab.segment, at_ms);
		assert_true(next < LOOKED_AT);
		for (uint32_t i = 0; i < LOOKED_AT; i++) {
			now += services[i].counted_ms == at_ms;
			assert_true(tick < 10 || at_ms - services[i].counted_ms < 1000);
		}
		assert_int_equal(now, LOOKED_AT / 10);
	}
	for (uint32_t i = 0; i < LOOKED_AT; i++) {
		weir_steal_service_fini(&services[i]);
	}
	free(services);
}
