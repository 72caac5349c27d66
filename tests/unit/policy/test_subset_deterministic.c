// SPDX-License-Identifier: BSD-3-Clause
//
// Deterministic subsetting: slices, evenness, and the effect of failures.
#include "prng.h"
#include "subset_lab.h"

static struct weir_subset_params deterministic(
	enum weir_subset_mode mode, uint32_t size, uint32_t client, uint32_t salt) {
	return (struct weir_subset_params){WEIR_SUBSET_DETERMINISTIC, mode, size, client, salt};
}

static struct spread spread_with(
	enum weir_subset_mode mode, uint32_t clients, uint32_t backends, uint32_t size) {
	struct weir_subset_params params = deterministic(mode, size, 0, 0);

	return count_spread(&params, clients, backends);
}

TEST(deterministic_300_by_300_of_10_gives_every_backend_10) {
	struct spread spread = spread_with(WEIR_SUBSET_MODE_SPREAD, 300, 300, 10);

	assert_int_equal(spread.min, 10);
	assert_int_equal(spread.max, 10);
	spread = spread_with(WEIR_SUBSET_MODE_EXACT, 300, 300, 10);
	assert_int_equal(spread.min, 10);
	assert_int_equal(spread.max, 10);
}

TEST(deterministic_12_backends_of_3_with_10_clients_gives_2_or_3) {
	struct spread spread = spread_with(WEIR_SUBSET_MODE_SPREAD, 10, 12, 3);

	assert_int_equal(spread.min, 2);
	assert_int_equal(spread.max, 3);
	assert_int_equal(spread.total, 30);
}

// guarantee U4
TEST(deterministic_u4_any_two_backends_differ_by_one) {
	struct weir_prng prng = {5};
	int uneven = 0;

	for (int i = 0; i < 1000; i++) {
		uint32_t clients = 1 + weir_prng_below(&prng, 300);
		uint32_t backends = 1 + weir_prng_below(&prng, 300);
		uint32_t size = 1 + weir_prng_below(&prng, backends);
		struct spread spread =
			spread_with(WEIR_SUBSET_MODE_SPREAD, clients, backends, size);

		uneven += backends % size != 0;
		if (spread.max - spread.min > 1 || spread.total < (uint64_t)clients * size) {
			fail_msg("%u clients, %u backends, size %u: %u to %u", clients, backends,
				size, spread.min, spread.max);
		}
	}
	// For most sizes, the number of backends is not a multiple of the size.
	assert_in_range(uneven, 500, 1000);
}

TEST(deterministic_exact_differs_by_two_at_most) {
	struct weir_prng prng = {6};

	for (int i = 0; i < 1000; i++) {
		uint32_t clients = 1 + weir_prng_below(&prng, 300);
		uint32_t backends = 1 + weir_prng_below(&prng, 300);
		uint32_t size = 1 + weir_prng_below(&prng, backends);
		struct spread spread = spread_with(WEIR_SUBSET_MODE_EXACT, clients, backends, size);

		assert_true(spread.max - spread.min <= 2);
		assert_int_equal(spread.total, (uint64_t)clients * size);
	}
}

// The clients of a round divide the shuffle of the round into slices. Either no backend is left
// out, or the backends that are left out change from round to round.
TEST(deterministic_slices_are_adjacent) {
	for (uint32_t n = 2; n <= 64; n++) {
		for (uint32_t size = 1; size < n; size++) {
			uint32_t slices = n / size;
			uint32_t end = 0;

			for (uint32_t client = 7 * slices; client < 8 * slices; client++) {
				struct weir_subset_slice slice =
					weir_subset_slice(WEIR_SUBSET_MODE_SPREAD, client, n, size);

				assert_int_equal(slice.round, 7);
				assert_int_equal(slice.first, end);
				assert_in_range(slice.length, n / slices, n / slices + 1);
				end += slice.length;
				slice = weir_subset_slice(WEIR_SUBSET_MODE_EXACT, client, n, size);
				assert_int_equal(slice.round, 7);
				assert_int_equal(slice.first, (client - 7 * slices) * size);
				assert_int_equal(slice.length, size);
			}
			assert_int_equal(end, n);
		}
	}
}

TEST(deterministic_failure_is_filled_by_the_next_of_the_shuffle) {
	// Shuffle of round 0: 5 11 6 7 3 1 2 9 8 0 4 10
	static const uint32_t next[] = {5, 6, 7};
	static const uint32_t over_the_end[] = {4, 10, 6};
	struct weir_subset_params params = deterministic(WEIR_SUBSET_MODE_SPREAD, 3, 0, 0);
	uint8_t usable[12];
	uint32_t subset[12];

	memset(usable, 1, sizeof(usable));
	usable[11] = 0;
	assert_int_equal(choose(&params, 0, usable, 12, subset), 3);
	assert_memory_equal(subset, next, sizeof(next));
	usable[0] = usable[5] = 0;
	params.client = 3;
	assert_int_equal(choose(&params, 0, usable, 12, subset), 3);
	assert_memory_equal(subset, over_the_end, sizeof(over_the_end));
}

TEST(deterministic_exact_uses_left_out_backends_last) {
	// 10 backends, subsets of 4: round 0 leaves 0 and 1 out, round 1 leaves 2 and 3 out.
	struct weir_subset_params params = deterministic(WEIR_SUBSET_MODE_EXACT, 4, 0, 0);
	uint8_t usable[10] = {1, 1, 0, 0, 0, 0, 0, 1, 1, 1};
	uint32_t subset[10];

	assert_int_equal(choose(&params, 0, usable, 10, subset), 4);
	assert_true(subset[0] >= 7 && subset[1] >= 7 && subset[2] >= 7);
	assert_int_equal(subset[3], 0);
	for (params.client = 2; params.client < 4; params.client++) {
		assert_int_equal(choose(&params, 0, NULL, 10, subset), 4);
		for (int i = 0; i < 4; i++) {
			assert_true(subset[i] != 2 && subset[i] != 3);
		}
	}
}

// All backends of one subset fail. Each round has its own shuffle, so the clients of these backends
// are spread over many other backends. If all rounds had the same shuffle, each of the next ten
// backends would get ten more clients.
TEST(deterministic_loss_of_a_whole_subset_is_spread) {
	static struct fleet before;
	static struct fleet after;
	struct weir_subset_params params = deterministic(WEIR_SUBSET_MODE_SPREAD, 10, 0, 0);
	uint8_t usable[300];
	uint32_t most = 0;

	memset(usable, 1, sizeof(usable));
	fleet_choose(&before, choose, &params, 300, NULL, 300);
	for (int i = 0; i < 10; i++) {
		usable[before.member[0][i]] = 0;
	}
	fleet_choose(&after, choose, &params, 300, usable, 300);
	for (uint32_t b = 0; b < 300; b++) {
		uint32_t clients = 0;

		for (uint32_t c = 0; c < 300; c++) {
			clients += (uint32_t)fleet_holds(&after, c, b);
		}
		most = clients > most ? clients : most;
		assert_true(clients >= 10 || !usable[b]);
	}
	assert_in_range(most, 11, 13);
	assert_int_equal(fleet_left(&before, &after), 100);
}
