// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "bench_lab.h"
#include "test.h"

TEST_GROUP(bench_lab_eal);

TEST(backends_are_divided_among_services) {
	static const uint32_t counts[][2] = {
		{1, 1}, {100, 1}, {100, 100}, {100, 3}, {10000, 1000}, {65535, 4096}, {7, 5}};

	for (unsigned int i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct weir_bench_options options = {
			.backends = counts[i][0], .services = counts[i][1]};
		uint32_t next = 0;

		for (uint32_t service = 0; service < options.services; service++) {
			struct weir_bench_share share =
				weir_bench_backends_of(&options, (uint16_t)service);

			assert_int_equal(share.first, next);
			assert_true(share.count > 0);
			for (uint32_t b = share.first; b < share.first + share.count; b++) {
				assert_int_equal(
					weir_bench_service_of(&options, (uint16_t)b), service);
			}
			next += share.count;
		}
		assert_int_equal(next, options.backends);
	}
}

TEST(everything_is_published) {
	struct bench_lab lab;
	struct weir_reader *reader = &lab.balancer.reader;
	const struct weir_selection_view *view;

	bench_lab_tables(&lab, "weir-bench --services 3 --backends 10 --slots 251");
	assert_non_null(weir_reader_services(reader)->buckets);
	for (uint16_t service = 0; service < 3; service++) {
		view = weir_reader_selection(reader, service);
		assert_int_equal(
			view->table.count, weir_bench_backends_of(&lab.options, service).count);
		assert_int_equal(view->table.slot_count, 251);
	}
	for (uint16_t id = 0; id < 10; id++) {
		struct weir_backend_row row;

		assert_true(weir_reader_row(lab.balancer.segment, id, &row));
		assert_int_equal(row.flags, WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED);
	}
	assert_int_equal(reader->refusals.refused, 0);
	bench_lab_close(&lab);
}

TEST(every_policy_can_be_published) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		const struct weir_selection_view *view;
		struct bench_lab lab;
		char line[128] = "weir-bench --backends 300 --policy ";

		strcat(line, weir_policy_name((enum weir_policy)policy));
		bench_lab_tables(&lab, line);
		view = weir_reader_selection(&lab.balancer.reader, 0);
		assert_int_equal(view->table.count, 300);
		assert_int_equal(view->table.settings.policy, policy);
		bench_lab_close(&lab);
	}
}

// Each backend has a separate outer address.
TEST(outer_addresses_are_distinct) {
	struct weir_bench_options options = {.backends = 3000, .services = 1};

	for (unsigned int family = 4; family <= 6; family += 2) {
		struct weir_bench_way first, other;

		options.family = (uint8_t)family;
		weir_bench_way(&options, 0, &first);
		for (uint16_t backend = 1; backend < 3000; backend++) {
			weir_bench_way(&options, backend, &other);
			assert_memory_not_equal(first.address, other.address, 16);
			assert_memory_not_equal(first.next_hop_mac, other.next_hop_mac, 6);
			assert_memory_equal(first.source, other.source, 16);
		}
	}
}

TEST(rounds_change_the_selection) {
	struct bench_lab lab;
	struct weir_writer *writer = NULL;
	struct weir_selection *one = NULL, *two = NULL;
	struct weir_candidate *a, *b;
	unsigned int different = 0;

	bench_lab_tables(&lab, "weir-bench");
	assert_int_equal(weir_writer_open(lab.balancer.control, &writer), 0);
	assert_int_equal(weir_bench_selection_build(&lab.options, writer, 0, 1, &one), 0);
	assert_int_equal(weir_bench_selection_build(&lab.options, writer, 0, 2, &two), 0);
	assert_int_equal(one->first.candidates, 100);
	assert_int_equal(two->first.candidates, 100);
	a = (struct weir_candidate *)(void *)((uint8_t *)one + one->first.candidates_off);
	b = (struct weir_candidate *)(void *)((uint8_t *)two + two->first.candidates_off);
	for (unsigned int i = 0; i < 100; i++) {
		different += a[i].weight != b[i].weight;
	}
	assert_true(different > 50);
	weir_writer_discard(writer, one);
	weir_writer_discard(writer, two);
	weir_writer_free(writer);
	bench_lab_close(&lab);
}

TEST(invalid_slots_are_refused) {
	struct weir_bench_options options;
	struct weir_bench_balancer balancer;
	char why[256] = "";

	assert_int_equal(bench_lab_options("weir-bench --slots 65536", &options, why), 0);
	assert_int_equal(
		weir_bench_balancer_create(&options, &balancer, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "--slots must be a prime"));
}

TEST(inconsistent_counters_are_detected) {
	struct bench_lab lab;
	struct weir_worker_counters *counters;
	struct weir_share_counters *of_backend;
	uint64_t packets;
	char why[256];

	bench_lab_open(&lab, "weir-bench --flows 100 --table-flows 1000 --no-huge");
	counters = &lab.balancer.segment->worker_counters[WEIR_BENCH_WORKER];
	of_backend = weir_segment_backend_counters(lab.balancer.segment, WEIR_BENCH_WORKER, 3);
	packets = lab.engine.given;
	assert_int_equal(weir_bench_counters_check(&lab.balancer, packets, why, sizeof(why)), 0);
	assert_int_equal(
		weir_bench_counters_check(&lab.balancer, packets + 1, why, sizeof(why)), -EBADMSG);
	counters->dropped++;
	assert_int_equal(
		weir_bench_counters_check(&lab.balancer, packets, why, sizeof(why)), -EBADMSG);
	counters->dropped--;
	of_backend->packets++;
	assert_int_equal(
		weir_bench_counters_check(&lab.balancer, packets, why, sizeof(why)), -EBADMSG);
	of_backend->packets--;
	of_backend->active_flows++;
	assert_int_equal(
		weir_bench_counters_check(&lab.balancer, packets, why, sizeof(why)), -EBADMSG);
	of_backend->active_flows--;
	assert_int_equal(weir_bench_counters_check(&lab.balancer, packets, why, sizeof(why)), 0);
	bench_lab_close(&lab);
}
