// SPDX-License-Identifier: BSD-3-Clause
//
// The guarantees of every subsetting algorithm (U1 to U3), and the numbers and names of clients.
#include <errno.h>
#include <stdio.h>

#include "prng.h"
#include "subset_lab.h"

static const struct {
	enum weir_subset_algorithm algorithm;
	enum weir_subset_mode mode;
} variants[] = {
	{WEIR_SUBSET_NONE, WEIR_SUBSET_MODE_SPREAD},
	{WEIR_SUBSET_RANDOM, WEIR_SUBSET_MODE_SPREAD},
	{WEIR_SUBSET_DETERMINISTIC, WEIR_SUBSET_MODE_SPREAD},
	{WEIR_SUBSET_DETERMINISTIC, WEIR_SUBSET_MODE_EXACT},
	{WEIR_SUBSET_ROCKSTEADIER, WEIR_SUBSET_MODE_SPREAD},
};
#define VARIANTS (sizeof(variants) / sizeof(variants[0]))

static struct weir_subset_params variant(size_t i, uint32_t size, uint32_t client, uint32_t salt) {
	return (struct weir_subset_params){
		variants[i].algorithm, variants[i].mode, size, client, salt};
}

TEST(subset_order_names_every_backend_once) {
	for (size_t v = 0; v < VARIANTS; v++) {
		for (uint32_t n = 0; n <= 73; n++) {
			for (uint32_t size = 0; size <= n + 1; size += 1 + n / 9) {
				struct weir_subset_params params =
					variant(v, size, n * 7 + size, 3);
				uint32_t *order = numbers_alloc(n);
				uint32_t *scratch = numbers_alloc(weir_subset_scratch_count(n));
				uint8_t seen[74] = {0};
				uint32_t count = weir_subset_order(&params, n, order, scratch);

				assert_in_range(count, size < n ? size : n, n);
				for (uint32_t i = 0; i < n; i++) {
					assert_true(order[i] < n && !seen[order[i]]);
					seen[order[i]] = 1;
				}
				free(scratch);
				free(order);
			}
		}
	}
}

TEST(subset_off_or_larger_than_all_is_all_in_canonical_order) {
	static const uint32_t sizes[] = {0, 7, 8, UINT32_MAX};
	uint32_t subset[7];

	for (size_t v = 0; v < VARIANTS; v++) {
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			struct weir_subset_params params = variant(v, sizes[s], 5, 9);

			assert_int_equal(choose(&params, 0, NULL, 7, subset), 7);
			for (uint32_t i = 0; i < 7; i++) {
				assert_int_equal(subset[i], i);
			}
			assert_int_equal(choose(&params, 0, NULL, 0, subset), 0);
		}
	}
}

TEST(subset_largest_numbers) {
	static uint32_t subset[65534];

	for (size_t v = 1; v < VARIANTS; v++) {
		struct weir_subset_params params = variant(v, 20, UINT32_MAX, UINT32_MAX);
		uint32_t chosen = choose(&params, 0, NULL, 65534, subset);

		assert_in_range(chosen, 20, 21);
		for (uint32_t i = 0; i < chosen; i++) {
			assert_true(subset[i] < 65534);
		}
		params.size = 65533;
		assert_in_range(choose(&params, 0, NULL, 65534, subset), 65533, 65534);
	}
}

// U1: the result depends on the salt, but not on earlier calls or the number of clients.
TEST(subset_u1_is_pure) {
	uint32_t first[40];
	uint32_t second[40];

	for (size_t v = 1; v < VARIANTS; v++) {
		struct weir_subset_params params = variant(v, 10, 13, 21);
		uint32_t chosen = choose(&params, 0, NULL, 40, first);
		struct weir_subset_params between = variant(v, 4, 99, 5);

		choose(&between, 0, NULL, 33, second);
		assert_int_equal(choose(&params, 0, NULL, 40, second), chosen);
		assert_memory_equal(first, second, chosen * sizeof(*first));
		params.salt = 22;
		assert_int_equal(choose(&params, 0, NULL, 40, second), chosen);
		assert_memory_not_equal(first, second, chosen * sizeof(*first));
	}
}

// U2: a subset has the requested number of usable backends, unless fewer are usable. The number of
// unusable backends is random, from none to all.
TEST(subset_u2_is_filled_while_there_are_more) {
	struct weir_prng prng = {1};
	uint32_t subset[60];
	uint8_t usable[60];

	for (int round = 0; round < 20000; round++) {
		uint32_t n = 1 + weir_prng_below(&prng, 60);
		uint32_t one_in = 1 + weir_prng_below(&prng, 8);
		struct weir_subset_params params = variant(weir_prng_below(&prng, VARIANTS),
			weir_prng_below(&prng, n + 2), weir_prng_below(&prng, 100), 0);
		uint32_t all = choose(&params, 0, NULL, n, subset);
		uint32_t count = 0;
		uint32_t chosen;

		for (uint32_t i = 0; i < n; i++) {
			usable[i] = weir_prng_below(&prng, one_in) == 0;
			count += usable[i];
		}
		chosen = choose(&params, 0, usable, n, subset);
		assert_int_equal(chosen, count < all ? count : all);
		for (uint32_t i = 0; i < chosen; i++) {
			assert_true(usable[subset[i]]);
		}
	}
}

// U3: one backend after the other becomes unusable and usable again, while some other backends are
// always unusable.
TEST(subset_u3_restarts_replace_only_the_minimum) {
	static struct fleet before;
	static struct fleet during;
	static struct fleet after;
	uint8_t usable[50];

	for (size_t v = 0; v < VARIANTS; v++) {
		struct weir_subset_params params = variant(v, 12, 0, 4);

		memset(usable, 1, sizeof(usable));
		usable[3] = usable[4] = usable[31] = 0;
		fleet_choose(&before, choose, &params, 40, usable, 50);
		for (uint32_t b = 0; b < 50; b++) {
			if (!usable[b]) {
				continue;
			}
			usable[b] = 0;
			fleet_choose(&during, choose, &params, 40, usable, 50);
			for (uint32_t c = 0; c < 40; c++) {
				uint32_t held = (uint32_t)fleet_holds(&before, c, b);
				uint32_t left = 0;

				if (params.algorithm != WEIR_SUBSET_NONE) {
					assert_int_equal(during.length[c], before.length[c]);
				}
				assert_false(fleet_holds(&during, c, b));
				for (uint32_t i = 0; i < before.length[c]; i++) {
					left += !fleet_holds(&during, c, before.member[c][i]);
				}
				assert_int_equal(left, held);
			}
			usable[b] = 1;
			fleet_choose(&after, choose, &params, 40, usable, 50);
			assert_memory_equal(before.length, after.length, 40 * sizeof(uint32_t));
			assert_int_equal(fleet_left(&before, &after), 0);
		}
	}
}

TEST(subset_count_adds_up_the_subsets) {
	static struct fleet fleet;
	uint8_t usable[30];

	memset(usable, 1, sizeof(usable));
	usable[11] = usable[29] = 0;
	for (size_t v = 0; v < VARIANTS; v++) {
		struct weir_subset_params params = variant(v, 7, 1000, 2);
		uint32_t *scratch = numbers_alloc(30 + weir_subset_scratch_count(30));
		uint32_t expected[30];
		uint32_t counts[30];

		for (uint32_t i = 0; i < 30; i++) {
			counts[i] = expected[i] = i; // existing counts are kept
		}
		fleet_choose(&fleet, choose, &params, 25, usable, 30);
		for (uint32_t c = 0; c < 25; c++) {
			for (uint32_t i = 0; i < fleet.length[c]; i++) {
				expected[fleet.member[c][i]]++;
			}
		}
		weir_subset_count(&params, 25, usable, 30, counts, scratch);
		assert_memory_equal(counts, expected, sizeof(counts));
		free(scratch);
	}
}

TEST(subset_client_index_has_no_gaps) {
	uint8_t seen[3 * 4 * 5] = {0};

	for (uint32_t group = 0; group < 3; group++) {
		for (uint32_t member = 0; member < 4; member++) {
			for (uint32_t worker = 0; worker < 5; worker++) {
				struct weir_subset_place place = {group, member, 4, worker, 5};
				uint32_t index =
					weir_subset_client_index(WEIR_SUBSET_CLIENT_WORKER, &place);

				assert_true(index < sizeof(seen) && !seen[index]);
				seen[index] = 1;
				assert_int_equal(weir_subset_client_index(
							 WEIR_SUBSET_CLIENT_INSTANCE, &place),
					group * 4 + member);
				assert_int_equal(
					weir_subset_client_index(WEIR_SUBSET_CLIENT_GROUP, &place),
					group);
			}
		}
	}
}

// All instances of a group have the same subset in the same order, because they must choose the
// same backends for flows.
TEST(subset_group_members_agree) {
	struct weir_subset_place one = {5, 0, 4, 1, 2};
	struct weir_subset_place other = {5, 3, 4, 0, 2};
	uint32_t subsets[2][40];

	for (size_t v = 0; v < VARIANTS; v++) {
		struct weir_subset_params params = variant(v, 10, 0, 0);
		uint32_t chosen;

		params.client = weir_subset_client_index(WEIR_SUBSET_CLIENT_GROUP, &one);
		chosen = choose(&params, 0, NULL, 40, subsets[0]);
		params.client = weir_subset_client_index(WEIR_SUBSET_CLIENT_GROUP, &other);
		assert_int_equal(choose(&params, 0, NULL, 40, subsets[1]), chosen);
		assert_memory_equal(subsets[0], subsets[1], chosen * sizeof(uint32_t));
	}
}

TEST(subset_compare_names_orders_numbers) {
	static const char *const sorted[] = {"", "10", "A", "a", "web", "web-", "web-1", "web-1-2",
		"web-1-10", "web-02", "web-2", "web-9", "web-10", "web-10b", "web-99999999999999",
		"web-100000000000000", "web-a", "web1", "xa", "\xc3\xa4"};

	for (size_t i = 0; i < sizeof(sorted) / sizeof(sorted[0]); i++) {
		for (size_t j = 0; j < sizeof(sorted) / sizeof(sorted[0]); j++) {
			int order = weir_subset_compare_names(sorted[i], sorted[j]);

			if ((order < 0) != (i < j) || (order > 0) != (i > j)) {
				fail_msg("\"%s\" and \"%s\": %d", sorted[i], sorted[j], order);
			}
		}
	}
}

TEST(subset_names_parse) {
	for (int i = 0; i < WEIR_SUBSET_ALGORITHM_COUNT; i++) {
		assert_int_equal(
			weir_subset_parse(weir_subset_name((enum weir_subset_algorithm)i)), i);
	}
	for (int i = 0; i < WEIR_SUBSET_MODE_COUNT; i++) {
		assert_int_equal(
			weir_subset_mode_parse(weir_subset_mode_name((enum weir_subset_mode)i)), i);
	}
	assert_int_equal(weir_subset_parse("rocksteady"), -EINVAL);
	assert_int_equal(weir_subset_mode_parse(""), -EINVAL);
	assert_string_equal(weir_subset_name(WEIR_SUBSET_ALGORITHM_COUNT), "unknown");
	assert_string_equal(weir_subset_name(WEIR_SUBSET_DETERMINISTIC), "deterministic");
	assert_string_equal(weir_subset_client_name(WEIR_SUBSET_CLIENT_WORKER), "worker");
}
