// SPDX-License-Identifier: BSD-3-Clause
#include "distribution.h"

#include <string.h>

#include <rte_memory.h>

#include "device_lab.h"
#include "test.h"

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

TEST_GROUP(device_lab_eal);

TEST(flows_are_in_buckets_or_a_reason_is_given) {
	const struct weir_distributed_port all[2] = {{.distributed = true}, {.distributed = true}};
	const struct weir_distributed_port one[2] = {{.distributed = true}, {.distributed = false}};

	assert_int_equal(weir_distribution_bucketing(all, 2, 2, true), WEIR_BUCKETING_YES);
	assert_int_equal(weir_distribution_bucketing(all, 2, 1, true), WEIR_BUCKETING_ONE_WORKER);
	assert_int_equal(weir_distribution_bucketing(one, 2, 2, true), WEIR_BUCKETING_DEVICE_RSS);
	assert_int_equal(weir_distribution_bucketing(one, 1, 2, true), WEIR_BUCKETING_YES);
	assert_int_equal(weir_distribution_bucketing(all, 2, 2, false), WEIR_BUCKETING_UNKNOWN);
}

static const struct weir_rss_key keys[2] = {{{1}}, {{2}}};

static struct weir_distributed_port spread_port(uint32_t owner, uint16_t queues, uint16_t entries) {
	return (struct weir_distributed_port){.by_queue = true,
		.owner = owner,
		.queues = queues,
		.table_entries = entries,
		.key = &keys[0],
		.socket = SOCKET_ID_ANY};
}

TEST(devices_spread_flows_in_buckets_or_a_reason_is_given) {
	struct weir_distributed_port ports[3] = {
		{.distributed = true}, spread_port(1, 2, 128), spread_port(2, 2, 512)};

	assert_int_equal(weir_distribution_bucketing(ports, 3, 2, true), WEIR_BUCKETING_YES);
	assert_ptr_equal(weir_distribution_key(ports, 3), &keys[0]);
	assert_null(weir_distribution_key(ports, 1));
	ports[2].key = &keys[1];
	assert_int_equal(weir_distribution_bucketing(ports, 3, 2, true), WEIR_BUCKETING_RSS_KEYS);
	ports[2].by_queue = false;
	assert_int_equal(weir_distribution_bucketing(ports, 3, 2, true), WEIR_BUCKETING_DEVICE_RSS);
	ports[2].why = WEIR_BUCKETING_RSS_HASH;
	assert_int_equal(weir_distribution_bucketing(ports, 3, 2, true), WEIR_BUCKETING_RSS_HASH);
	assert_int_equal(weir_distribution_bucketing(ports, 3, 1, true), WEIR_BUCKETING_ONE_WORKER);
}

// All buckets that share an entry of a redirection table belong to one worker. This worker receives
// packets from the queue of that entry.
TEST(buckets_reach_the_worker_that_owns_them) {
	const struct weir_distributed_port ports[3] = {
		spread_port(0, 3, 128), spread_port(2, 3, 2048), spread_port(1, 2, 512)};
	uint32_t foreign = 0;

	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		uint32_t worker = weir_distribution_first_worker(ports, 3, WORKERS, b);

		assert_int_equal(
			weir_distribution_first_worker(ports, 3, WORKERS, b % 128), worker);
		for (uint32_t p = 0; p < 3; p++) {
			uint32_t queue = weir_distribution_queue_of(&ports[p], WORKERS, worker);

			assert_true(queue < ports[p].queues);
			if (p < 2) {
				assert_int_equal(
					weir_distribution_receiver(&ports[p], WORKERS, queue),
					worker);
			} else {
				foreign += weir_distribution_receiver(&ports[p], WORKERS, queue) !=
					   worker;
			}
		}
	}
	assert_in_range(foreign, WEIR_BUCKETS / WORKERS - 16, WEIR_BUCKETS / WORKERS + 16);
}

TEST(each_queue_of_a_device_that_spreads_has_a_distributor) {
	const struct weir_distributed_port ports[2] = {
		{.distributed = true, .owner = 1, .socket = SOCKET_ID_ANY}, spread_port(2, 3, 128)};
	static struct weir_flow_parcel *const parcels[WORKERS];
	struct weir_segment *segment = segment_of(WEIR_BUCKETING_YES);
	struct weir_distribution distribution;

	assert_int_equal(weir_distribution_create(segment, ports, parcels, &distribution), 0);
	assert_int_equal(distribution.distributors, 4);
	assert_ptr_equal(weir_distribution_of(&distribution, 0, 5), distribution.distributor[0]);
	for (uint32_t q = 0; q < 3; q++) {
		struct weir_distributor *distributor = weir_distribution_of(&distribution, 1, q);

		assert_ptr_equal(distribution.distributor[distributor->number], distributor);
		assert_int_equal(distributor->owner, (2 + q) % WORKERS);
		for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
			assert_int_equal(
				weir_distributor_worker(distributor, b), b % 128 % WORKERS);
			assert_int_equal(weir_segment_bucket_owner(segment, b), b % 128 % WORKERS);
		}
	}
	weir_distribution_free(&distribution);
	weir_segment_free(segment);
}

TEST(owners_are_those_of_the_distributors) {
	const struct weir_distributed_port ports[2] = {
		{.distributed = true, .owner = 0, .socket = SOCKET_ID_ANY},
		{.distributed = true, .owner = 2, .socket = SOCKET_ID_ANY}};
	static struct weir_flow_parcel *const parcels[WORKERS];
	struct weir_segment *segment = segment_of(WEIR_BUCKETING_YES);
	struct weir_distribution distribution;

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

TEST(without_buckets_there_are_no_moves) {
	const struct weir_distributed_port ports[2] = {
		{.distributed = true, .owner = 1, .socket = SOCKET_ID_ANY}, {.distributed = false}};
	struct weir_segment *segment = segment_of(WEIR_BUCKETING_DEVICE_RSS);
	struct weir_distribution distribution;

	assert_int_equal(weir_distribution_create(segment, ports, NULL, &distribution), 0);
	assert_null(distribution.moves);
	assert_non_null(distribution.distributor[0]);
	assert_null(distribution.distributor[1]);
	weir_distribution_free(&distribution);
	weir_distribution_free(&distribution); // the second call frees nothing
	weir_segment_free(segment);
}
