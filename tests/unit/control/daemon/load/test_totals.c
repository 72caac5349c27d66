// SPDX-License-Identifier: BSD-3-Clause
#include "test.h"
#include "totals.h"

static int setup(void **state) {
	struct weir_port_info port = {.name = "wan", .mtu = 1500};
	struct weir_segment_params params = {.workers = 3,
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

TEST_EACH(setup, teardown);

TEST(totals_are_summed_over_workers) {
	struct weir_segment *segment = *state;

	for (uint32_t worker = 0; worker < 3; worker++) {
		weir_segment_backend_counters(segment, worker, 15)->packets = 10 + worker;
		weir_segment_service_counters(segment, worker, 3)->bytes = 100;
	}
	assert_int_equal(weir_sum_backend(segment, 15).packets, 33);
	assert_int_equal(weir_sum_service(segment, 3).bytes, 300);
}

TEST(totals_beyond_the_segment_are_zero) {
	struct weir_segment *segment = *state;

	assert_int_equal(weir_sum_backend(segment, 16).packets, 0);
	assert_int_equal(weir_sum_backend(segment, WEIR_BACKEND_NONE).packets, 0);
	assert_int_equal(weir_sum_service(segment, WEIR_SERVICE_NONE).packets, 0);
	assert_int_equal(weir_sum_service(NULL, 0).packets, 0);
}
