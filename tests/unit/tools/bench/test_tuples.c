// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "traffic.h"
#include "tuples.h"

#define MANY (1u << 20)

struct place { // addresses and ports of a flow's packets
	uint8_t bytes[36];
};

static int compare_places(const void *left, const void *right) {
	return memcmp(left, right, sizeof(struct place));
}

static int compare_numbers(const void *left, const void *right) {
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static struct place place_of(const struct weir_bench_tuples *tuples, uint64_t number) {
	struct weir_bench_tuple tuple;
	struct place place;

	weir_bench_tuple(tuples, number, &tuple);
	memcpy(place.bytes, tuple.source, 16);
	memcpy(place.bytes + 16, &tuple.source_port, 2);
	memcpy(place.bytes + 18, tuple.destination, 16);
	memcpy(place.bytes + 34, &tuple.destination_port, 2);
	return place;
}

TEST(permute_is_one_to_one) {
	uint64_t *values = malloc(MANY * sizeof(*values));

	assert_non_null(values);
	for (uint64_t seed = 0; seed < 3; seed++) {
		for (uint64_t i = 0; i < MANY; i++) {
			values[i] = weir_bench_permute(seed, i);
			assert_true(values[i] < 1ull << 48);
		}
		qsort(values, MANY, sizeof(*values), compare_numbers);
		for (uint64_t i = 1; i < MANY; i++) {
			assert_true(values[i - 1] != values[i]);
		}
	}
	free(values);
}

// No two flows have the same tuple, whether they are steady, replaced or fresh flows.
TEST(tuples_are_distinct) {
	const uint64_t begin[3] = {0, WEIR_BENCH_EXTRA, WEIR_BENCH_FRESH};
	struct place *places = malloc(MANY * sizeof(*places));

	assert_non_null(places);
	for (unsigned int family = 4; family <= 6; family += 2) {
		struct weir_bench_tuples tuples = {7, 3, (uint8_t)family};

		for (uint32_t i = 0; i < MANY; i++) {
			places[i] = place_of(&tuples, begin[i % 3] + i / 3);
		}
		qsort(places, MANY, sizeof(*places), compare_places);
		for (uint32_t i = 1; i < MANY; i++) {
			assert_int_not_equal(compare_places(&places[i - 1], &places[i]), 0);
		}
	}
	free(places);
}

TEST(sources_are_clients) {
	struct weir_bench_tuples tuples = {1, 5, 4};
	struct weir_bench_tuple tuple;
	uint8_t vip[16];

	for (uint64_t i = 0; i < 200000; i++) {
		weir_bench_tuple(&tuples, i, &tuple);
		assert_true(tuple.source[0] != 0 && tuple.source[0] != 127);
		assert_true(tuple.source[0] < 224);
		assert_true(tuple.source[0] != 198);
		assert_true(tuple.source_port >= 1024);
		assert_true(tuple.service < 5);
		weir_bench_vip(4, tuple.service, vip);
		assert_memory_equal(tuple.destination, vip, 16);
		assert_int_equal(tuple.destination_port, WEIR_BENCH_PORT);
	}
	tuples.family = 6;
	for (uint64_t i = 0; i < 200000; i++) {
		weir_bench_tuple(&tuples, i, &tuple);
		assert_int_equal(tuple.source[0], 0x2a);
	}
}

// Checks that all values of a byte occur about equally often.
static void check_even(const uint32_t count[256], uint32_t n, uint32_t values) {
	double expected = (double)n / values, chi = 0;

	for (uint32_t i = 0; i < 256; i++) {
		double off = count[i] - expected;

		if (count[i] > 0) {
			chi += off * off / expected;
		}
	}
	// 255 degrees of freedom: mean 255, standard deviation 22.6.
	assert_true(chi < 255 + 6 * 22.6);
	assert_true(chi > 255 - 6 * 22.6 - (256 - values) * 1.5);
}

TEST(tuples_look_random) {
	struct weir_bench_tuples tuples = {1, 1, 4};
	uint32_t low[256] = {0}, high[256] = {0}, port[256] = {0};
	struct weir_bench_tuple tuple;
	unsigned int steps = 0;
	uint32_t last = 0;

	for (uint64_t i = 0; i < 200000; i++) {
		uint32_t address;

		weir_bench_tuple(&tuples, i, &tuple);
		address = (uint32_t)tuple.source[0] << 24 | (uint32_t)tuple.source[1] << 16 |
			  (uint32_t)tuple.source[2] << 8 | tuple.source[3];
		low[tuple.source[3]]++;
		high[tuple.source[1]]++;
		port[tuple.source_port & 0xff]++;
		steps += address > last;
		last = address;
	}
	check_even(low, 200000, 256);
	check_even(high, 200000, 256);
	check_even(port, 200000, 256);
	// Increases and decreases are equally frequent, so the order is not sequential.
	assert_in_range(steps, 98000, 102000);
}

TEST(seeds_give_other_tuples) {
	struct weir_bench_tuples one = {1, 1, 4}, two = {2, 1, 4};
	unsigned int same = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		struct place a = place_of(&one, i), b = place_of(&two, i), c = place_of(&one, i);

		same += compare_places(&a, &b) == 0;
		assert_int_equal(compare_places(&a, &c), 0);
	}
	assert_int_equal(same, 0);
}

TEST(services_have_even_shares) {
	struct weir_bench_tuples tuples = {1, 1000, 4};
	static uint32_t count[1000];

	for (uint64_t i = 0; i < MANY; i++) {
		count[weir_bench_service(&tuples, i)]++;
	}
	for (unsigned int i = 0; i < 1000; i++) {
		assert_in_range(count[i], 850, 1250); // the mean is 1049
	}
}

TEST(vips_are_distinct) {
	for (unsigned int family = 4; family <= 6; family += 2) {
		uint8_t first[16], other[16];

		weir_bench_vip((uint8_t)family, 0, first);
		for (uint16_t service = 1; service < 4096; service++) {
			weir_bench_vip((uint8_t)family, service, other);
			assert_memory_not_equal(first, other, 16);
			assert_int_equal(other[family == 4 ? 3 : 15], service & 0xff);
		}
	}
}
