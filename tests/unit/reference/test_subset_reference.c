// SPDX-License-Identifier: BSD-3-Clause
//
// Subsetting algorithms of other projects, for comparison: rendezvous and deterministic aperture.
#include "prng.h"
#include "subset_lab.h"
#include "subset_reference.h"

TEST(rendezvous_takes_the_lowest_scores) {
	struct weir_rendezvous_score scratch[40];
	uint32_t subset[10];

	for (uint32_t client = 0; client < 50; client++) {
		uint8_t in[40] = {0};
		uint64_t highest = 0;

		weir_subset_rendezvous(client, 0, 40, 10, subset, scratch);
		for (int i = 0; i < 10; i++) {
			struct weir_prng prng = {(uint64_t)client << 32 | subset[i]};
			uint64_t score = weir_prng_next(&prng);

			assert_true(score > highest && !in[subset[i]]);
			in[subset[i]] = 1;
			highest = score;
		}
		for (uint32_t b = 0; b < 40; b++) {
			struct weir_prng prng = {(uint64_t)client << 32 | b};

			assert_true(in[b] || weir_prng_next(&prng) > highest);
		}
	}
}

TEST(rendezvous_salt_changes_the_subsets) {
	struct weir_rendezvous_score scratch[40];
	uint32_t subset[10];
	uint32_t other[10];

	weir_subset_rendezvous(3, 0, 40, 10, subset, scratch);
	weir_subset_rendezvous(3, 1, 40, 10, other, scratch);
	assert_memory_not_equal(subset, other, sizeof(subset));
	weir_subset_rendezvous(3, 1, 40, 0, other, scratch);
}

// 3 clients, 4 backends, size 2: each arc is 2/3 of the circle, and the arcs start at 0, 1/3 and
// 2/3.
TEST(aperture_of_the_documented_example) {
	static const uint64_t expected[3][4] = {{3, 3, 2, 0}, {0, 2, 3, 3}, {3, 1, 1, 3}};
	static const uint32_t covered[] = {3, 3, 4};
	uint64_t cover[4];

	for (uint32_t client = 0; client < 3; client++) {
		assert_int_equal(weir_subset_aperture(client, 3, 4, 2, cover), covered[client]);
		assert_memory_equal(cover, expected[client], sizeof(cover));
	}
}

TEST(aperture_covers_every_backend_equally) {
	struct weir_prng prng = {8};

	for (int i = 0; i < 500; i++) {
		uint32_t clients = 1 + weir_prng_below(&prng, 60);
		uint32_t n = 1 + weir_prng_below(&prng, 60);
		uint32_t size = 1 + weir_prng_below(&prng, n + 3);
		uint64_t total[60] = {0};
		uint64_t cover[60];

		for (uint32_t client = 0; client < clients; client++) {
			uint32_t covered = weir_subset_aperture(client, clients, n, size, cover);

			assert_in_range(covered, size < n ? size : n, n);
			for (uint32_t b = 0; b < n; b++) {
				assert_true(cover[b] <= clients);
				total[b] += cover[b];
			}
		}
		for (uint32_t b = 0; b < n; b++) {
			assert_true(total[b] == total[0] && total[b] > 0);
		}
	}
}
