// SPDX-License-Identifier: BSD-3-Clause
#include "distribution.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <rte_memory.h>

#include "device_lab.h"

#define WORKERS 3

static struct weir_segment *segment_of(enum weir_bucketing bucketing) {
	static const struct weir_port_info ports[2];
	struct weir_segment_params params = {.workers = WORKERS,
		.ports = 2,
		.max_services = 1,
		.max_backends = 1,
		.heap_bytes = 1 << 20,
		.tsc_hz = 1,
		.bucketing = bucketing,
		.port_info = ports};
	struct weir_segment *segment;

	assert_int_equal(weir_segment_create(&params, &segment), 0);
	return segment;
}

static void flows_are_in_buckets_or_there_is_a_reason(void **state) {
	const struct weir_distributed_port all[2] = {{.distributed = true}, {.distributed = true}};
	const struct weir_distributed_port one[2] = {{.distributed = true}, {.distributed = false}};

	(void)state;
	assert_int_equal(weir_distribution_bucketing(all, 2, 2, true), WEIR_BUCKETING_YES);
	assert_int_equal(weir_distribution_bucketing(all, 2, 1, true), WEIR_BUCKETING_ONE_WORKER);
	assert_int_equal(weir_distribution_bucketing(one, 2, 2, true), WEIR_BUCKETING_DEVICE_RSS);
	assert_int_equal(weir_distribution_bucketing(one, 1, 2, true), WEIR_BUCKETING_YES);
	assert_int_equal(weir_distribution_bucketing(all, 2, 2, false), WEIR_BUCKETING_UNKNOWN);
}

static void owners_are_those_of_the_distributors(void **state) {
	const struct weir_distributed_port ports[2] = {
		{.distributed = true, .owner = 0, .socket = SOCKET_ID_ANY},
		{.distributed = true, .owner = 2, .socket = SOCKET_ID_ANY}};
	static struct weir_flow_parcel *const parcels[WORKERS];
	struct weir_segment *segment = segment_of(WEIR_BUCKETING_YES);
	struct weir_distribution distribution;

	(void)state;
	assert_int_equal(weir_distribution_create(segment, ports, parcels, &distribution), 0);
	assert_non_null(distribution.moves);
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		uint32_t owner = weir_segment_bucket_owner(segment, b);

		assert_int_equal(owner, weir_distributor_first_worker(b, WORKERS));
		assert_int_equal(distribution.moves->owner[b], owner);
		assert_int_equal(weir_distributor_worker(distribution.distributor[1], b), owner);
	}
	weir_distribution_free(&distribution);
	weir_segment_free(segment);
}

static void without_buckets_there_are_no_moves(void **state) {
	const struct weir_distributed_port ports[2] = {
		{.distributed = true, .owner = 1, .socket = SOCKET_ID_ANY}, {.distributed = false}};
	struct weir_segment *segment = segment_of(WEIR_BUCKETING_DEVICE_RSS);
	struct weir_distribution distribution;

	(void)state;
	assert_int_equal(weir_distribution_create(segment, ports, NULL, &distribution), 0);
	assert_null(distribution.moves);
	assert_non_null(distribution.distributor[0]);
	assert_null(distribution.distributor[1]);
	weir_distribution_free(&distribution);
	weir_distribution_free(&distribution); // nothing is left
	weir_segment_free(segment);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flows_are_in_buckets_or_there_is_a_reason),
		cmocka_unit_test(owners_are_those_of_the_distributors),
		cmocka_unit_test(without_buckets_there_are_no_moves),
	};

	return cmocka_run_group_tests(tests, device_lab_eal, NULL);
}
