// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>
#include <string.h>

#include "samples.h"
#include "test.h"

static int setup(void **state) {
	struct weir_port_info port = {.name = "wan", .mtu = 1500};
	struct weir_segment_params params = {.workers = 2,
		.ports = 1,
		.max_services = 4,
		.max_backends = 16,
		.heap_bytes = 1 << 20,
		.port_info = &port};
	struct weir_segment *segment = NULL;
	int r = weir_segment_create(&params, &segment);

	*state = segment;
	return r;
}

static int teardown(void **state) {
	weir_segment_free(*state);
	return 0;
}

static void work(struct weir_segment *segment, uint32_t worker, uint64_t busy, uint64_t idle) {
	weir_counter_add(&segment->worker_counters[worker].busy_cycles, busy);
	weir_counter_add(&segment->worker_counters[worker].idle_cycles, idle);
}

TEST_EACH(setup, teardown);

TEST(samples_busy_is_of_the_last_two_samples) {
	struct weir_segment *segment = *state;
	struct weir_samples samples;

	work(segment, 0, 1000000, 0); // before the first sample
	weir_samples_init(&samples, segment);
	assert_true(weir_samples_busy_percent(&samples, segment, 0) < 0); // no cycles since init
	work(segment, 0, 25, 75);
	assert_true(weir_samples_busy_percent(&samples, segment, 0) == 25);
	work(segment, 1, 0, 1);
	assert_true(weir_samples_busy_percent(&samples, segment, 1) == 0);
	weir_samples_take(&samples, segment);
	work(segment, 0, 75, 25);
	assert_true(weir_samples_busy_percent(&samples, segment, 0) == 50);
	weir_samples_take(&samples, segment);
	assert_true(weir_samples_busy_percent(&samples, segment, 0) == 75);
}
