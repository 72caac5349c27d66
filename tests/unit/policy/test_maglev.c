// SPDX-License-Identifier: BSD-3-Clause
//
// Maglev: the shares of backends, and the number of slots that move when a backend is removed. The
// tables are compared with recorded tables of other implementations, and with a simple
// implementation of the accumulator method.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "maglev.h"
#include "test.h"

#define SLOTS_MAX 65537u
#define BACKENDS_MAX 10000u

struct lab {
	json_t *vectors;
	struct weir_maglev_backend backends[BACKENDS_MAX];
	uint16_t table[SLOTS_MAX];
	uint16_t other[SLOTS_MAX];
	uint32_t counts[BACKENDS_MAX];
	void *scratch;
	size_t scratch_bytes;
};

TEST_ARGUMENT(vectors_path);

static int setup(void **state) {
	struct lab *f = calloc(1, sizeof(*f));
	json_error_t error;

	assert_non_null(f);
	f->vectors = json_load_file(vectors_path, 0, &error);
	if (f->vectors == NULL) {
		fail_msg("%s:%d: %s", vectors_path, error.line, error.text);
	}
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct lab *f = *state;

	json_decref(f->vectors);
	free(f->scratch);
	free(f);
	return 0;
}

// Builds a table. The scratch memory has exactly the required size, so that AddressSanitizer
// detects an access after its end.
static void build(struct lab *f, uint32_t n, uint16_t *table, uint32_t slots) {
	free(f->scratch);
	f->scratch = malloc(weir_maglev_scratch_bytes(n));
	assert_non_null(f->scratch);
	weir_maglev_build(f->backends, n, table, slots, f->scratch);
}

static void count(struct lab *f, uint32_t n, const uint16_t *table, uint32_t slots) {
	memset(f->counts, 0, sizeof(f->counts));
	for (uint32_t i = 0; i < slots; i++) {
		assert_true(table[i] < n);
		f->counts[table[i]]++;
	}
}

static uint64_t next_random(uint64_t *seed) {
	uint64_t x = *seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

// Sets up backends 1 to n with equal weights.
static void permute(struct lab *f, uint32_t n, uint32_t slots, uint32_t weight) {
	for (uint32_t i = 0; i < n; i++) {
		f->backends[i].weight = weight;
		weir_maglev_permutation(i + 1, slots, &f->backends[i].offset, &f->backends[i].skip);
	}
}

static uint32_t integer(const json_t *object, const char *key) {
	const json_t *value = json_object_get(object, key);

	assert_true(json_is_integer(value));
	return (uint32_t)json_integer_value(value);
}

// Returns the FNV-1a hash of the table as 32-bit little-endian words. The offset basis is not the
// usual one. It was determined from those tables of which the vectors file contains all slots.
static uint64_t fnv1a(const uint16_t *table, uint32_t slots) {
	uint64_t hash = 0x14650fb0739d0383ull;

	for (uint32_t i = 0; i < slots; i++) {
		uint32_t entry = table[i];

		for (unsigned int byte = 0; byte < 4; byte++) {
			hash = (hash ^ (entry >> 8 * byte & 0xff)) * 0x100000001b3ull;
		}
	}
	return hash;
}

static void check_table(const json_t *expected, const uint16_t *table, uint32_t slots) {
	const json_t *entry;
	size_t i;

	assert_int_equal(json_array_size(expected), slots);
	json_array_foreach (expected, i, entry) {
		uint16_t want = json_integer_value(entry) < 0 ? WEIR_MAGLEV_EMPTY
							      : (uint16_t)json_integer_value(entry);

		assert_int_equal(table[i], want);
	}
}

// --- recorded tables ----------------------------------------------------------------------

static void replay_katran(struct lab *f, const json_t *vector) {
	const json_t *endpoints = json_object_get(vector, "endpoints");
	uint32_t slots = integer(vector, "M");
	uint32_t n = (uint32_t)json_array_size(endpoints);
	const json_t *endpoint, *expected;
	char hash[20];
	const char *name;
	size_t i;

	assert_true(slots <= SLOTS_MAX && n <= BACKENDS_MAX);
	json_array_foreach (endpoints, i, endpoint) {
		assert_int_equal(integer(endpoint, "num"), i);
		f->backends[i].offset = integer(endpoint, "offset");
		f->backends[i].skip = integer(endpoint, "skip");
		f->backends[i].weight = integer(endpoint, "weight");
	}
	build(f, n, f->table, slots);
	if (json_object_get(vector, "table") != NULL) {
		check_table(json_object_get(vector, "table"), f->table, slots);
	}
	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)fnv1a(f->table, slots));
	assert_string_equal(
		hash, json_string_value(json_object_get(vector, "fnv1a64_of_table_as_le_int32")));
	count(f, n, f->table, slots);
	json_object_foreach (json_object_get(vector, "counts"), name, expected) {
		assert_int_equal(f->counts[atoi(name)], json_integer_value(expected));
	}
}

TEST_GROUP(setup, teardown);

TEST(recorded_tables_of_katran_v2_are_reproduced) {
	struct lab *f = *state;
	const json_t *vector;
	unsigned int replayed = 0;
	size_t i;

	json_array_foreach (json_object_get(f->vectors, "katran"), i, vector) {
		if (strcmp(json_string_value(json_object_get(vector, "impl")),
			    "katran MaglevHashV2") == 0) {
			replay_katran(f, vector);
			replayed++;
		}
	}
	assert_int_equal(replayed, 8);
}

// Version 1 of katran first gives each backend as many slots as its weight. Of 31 slots, backends
// with weights 10, 5 and 1 then get 15, 10 and 6. In this implementation, they must get 20, 10
// and 1.
TEST(shares_of_katran_v1_are_not_ours) {
	struct lab *f = *state;
	const json_t *vector = json_array_get(json_object_get(f->vectors, "katran"), 8);
	const json_t *endpoints = json_object_get(vector, "endpoints");
	const json_t *endpoint;
	size_t i;

	assert_string_equal(
		json_string_value(json_object_get(vector, "impl")), "katran MaglevHash(v1)");
	json_array_foreach (endpoints, i, endpoint) {
		f->backends[i].offset = integer(endpoint, "offset");
		f->backends[i].skip = integer(endpoint, "skip");
		f->backends[i].weight = integer(endpoint, "weight");
	}
	build(f, 3, f->table, 31);
	count(f, 3, f->table, 31);
	assert_int_equal(f->counts[0], 20);
	assert_int_equal(f->counts[1], 10);
	assert_int_equal(f->counts[2], 1);
}

TEST(example_of_the_paper_is_reproduced) {
	struct lab *f = *state;
	const json_t *example = json_object_get(f->vectors, "paper_example");
	const uint32_t offsets[] = {3, 0, 3};
	const uint32_t skips[] = {4, 2, 1};

	for (uint32_t i = 0; i < 3; i++) {
		f->backends[i] = (struct weir_maglev_backend){offsets[i], skips[i], 1};
	}
	build(f, 3, f->table, 7);
	check_table(json_object_get(example, "expect_before"), f->table, 7);
	f->backends[1].weight = 0;
	build(f, 3, f->table, 7);
	check_table(json_object_get(example, "expect_after"), f->table, 7);
}

TEST(table_without_weight_is_empty) {
	struct lab *f = *state;
	const json_t *edge = json_object_get(f->vectors, "edge");

	build(f, 0, f->table, 7);
	check_table(json_object_get(edge, "no_backends"), f->table, 7);
	permute(f, 3, 7, 0);
	build(f, 3, f->table, 7);
	check_table(json_object_get(edge, "all_zero_weight"), f->table, 7);
}

static uint32_t count_changes(const struct lab *f, uint32_t slots, uint32_t except) {
	uint32_t changed = 0;

	for (uint32_t i = 0; i < slots; i++) {
		changed += f->table[i] != except && f->table[i] != f->other[i];
	}
	return changed;
}

static void check_disruption(struct lab *f, const json_t *vector) {
	uint32_t n = integer(vector, "N");
	uint32_t slots = integer(vector, "M");
	uint32_t low = UINT32_MAX, high = 0, changed;
	uint32_t removed = n / 2;

	permute(f, n, slots, 1);
	build(f, n, f->table, slots);
	count(f, n, f->table, slots);
	for (uint32_t i = 0; i < n; i++) {
		low = f->counts[i] < low ? f->counts[i] : low;
		high = f->counts[i] > high ? f->counts[i] : high;
	}
	assert_int_equal(low, integer(vector, "min_entries"));
	assert_int_equal(high, integer(vector, "max_entries"));
	f->backends[removed].weight = 0;
	build(f, n, f->other, slots);
	changed = count_changes(f, slots, removed);
	print_message("remove 1 of %u, %u slots: its own %.2f %% move (ideal %.2f %%), and %.2f %% "
		      "of the others\n",
		n, slots, 100.0 * f->counts[removed] / slots, 100.0 / n, 100.0 * changed / slots);
	assert_int_equal(f->counts[removed], integer(vector, "removed_backend_entries"));
	assert_int_equal(changed, integer(vector, "other_entries_that_changed"));
}

static void check_entries(struct lab *f, const json_t *vector) {
	const json_t *weights = json_object_get(vector, "weights");
	const json_t *entries = json_object_get(vector, "entries");
	uint32_t n = (uint32_t)json_array_size(weights);
	uint32_t slots = integer(vector, "M");

	permute(f, n, slots, 0);
	for (uint32_t i = 0; i < n; i++) {
		f->backends[i].weight = (uint32_t)json_integer_value(json_array_get(weights, i));
	}
	build(f, n, f->table, slots);
	count(f, n, f->table, slots);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(f->counts[i], json_integer_value(json_array_get(entries, i)));
	}
}

TEST(recorded_disruption_is_reproduced) {
	struct lab *f = *state;
	const json_t *vector;
	size_t i;

	json_array_foreach (json_object_get(f->vectors, "disruption"), i, vector) {
		if (json_object_get(vector, "N") != NULL) {
			check_disruption(f, vector);
		} else {
			check_entries(f, vector);
		}
	}
	assert_int_equal(i, 7);
}

TEST(recorded_churn_of_weight_changes_is_reproduced) {
	struct lab *f = *state;
	const json_t *vector;
	size_t i;

	json_array_foreach (json_object_get(f->vectors, "weight_change_churn"), i, vector) {
		double want = json_number_value(json_object_get(vector, "entries_changed_percent"));
		double least =
			json_number_value(json_object_get(vector, "minimum_possible_percent"));
		double percent;

		permute(f, 10, 65537, 100);
		build(f, 10, f->table, 65537);
		f->backends[3].weight = integer(vector, "one_of_ten_weight_100_to");
		build(f, 10, f->other, 65537);
		percent = 100.0 * count_changes(f, 65537, UINT32_MAX) / 65537;
		assert_true(percent >= least - 0.005 && percent > want - 0.005 &&
			    percent < want + 0.005);
	}
	assert_int_equal(i, 4);
}

// --- disruption and minimum ----------------------------------------------------------------

// The slots of the removed backend must move, and only a few other slots may move. Also tests
// different weights.
TEST(removal_of_one_moves_little_more_than_its_share) {
	struct lab *f = *state;
	const uint32_t sizes[] = {2, 3, 10, 50, 100, 650};

	for (unsigned int s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint32_t n = sizes[s], removed = n / 2, own = 0, other = 0;

		permute(f, n, 65537, 100);
		build(f, n, f->table, 65537);
		f->backends[removed].weight = 0;
		build(f, n, f->other, 65537);
		for (uint32_t i = 0; i < 65537; i++) {
			own += f->table[i] == removed;
			other += f->table[i] != removed && f->table[i] != f->other[i];
			assert_true(f->other[i] != removed);
		}
		print_message("remove 1 of %u of 65537 slots: %.3f %% moved, ideal %.3f %%\n", n,
			100.0 * (own + other) / 65537, 100.0 / n);
		assert_true(own >= 65537 / n && own <= 65537 / n + 1);
		assert_true(other < 65537 / 50); // at most 2 %
	}
}

// --- shares -------------------------------------------------------------------------------

static void check_shares(struct lab *f, uint32_t n, uint32_t slots, const char *what) {
	uint64_t sum = 0;
	double worst = 0;

	build(f, n, f->table, slots);
	count(f, n, f->table, slots);
	for (uint32_t i = 0; i < n; i++) {
		sum += f->backends[i].weight;
	}
	for (uint32_t i = 0; i < n; i++) {
		double ideal = (double)slots * f->backends[i].weight / (double)sum;
		double off = f->counts[i] > ideal ? f->counts[i] - ideal : ideal - f->counts[i];

		worst = off > worst ? off : worst;
		assert_true(f->backends[i].weight > 0 || f->counts[i] == 0);
	}
	print_message("%s: worst share off by %.2f of %u slots\n", what, worst, slots);
	assert_true(worst <= slots / 100.0);
	assert_true(worst <= 2.0);
}

static void weights(struct lab *f, uint32_t slots, uint32_t n, const uint32_t *values) {
	permute(f, n, slots, 0);
	for (uint32_t i = 0; i < n; i++) {
		f->backends[i].weight = values[i];
	}
}

TEST(any_ratio_of_weights_is_honoured_within_one_percent) {
	struct lab *f = *state;
	uint64_t seed = 1;

	weights(f, 65537, 2, (const uint32_t[]){1, 10});
	check_shares(f, 2, 65537, "1:10");
	weights(f, 65537, 2, (const uint32_t[]){1, 1000});
	check_shares(f, 2, 65537, "1:1000");
	weights(f, 65537, 2, (const uint32_t[]){1, UINT32_MAX});
	check_shares(f, 2, 65537, "1:4294967295");
	weights(f, 65537, 3, (const uint32_t[]){3, 5, 7});
	check_shares(f, 3, 65537, "3:5:7");
	weights(f, 251, 3, (const uint32_t[]){3, 5, 7});
	check_shares(f, 3, 251, "3:5:7, small table");
	weights(f, 4093, 4, (const uint32_t[]){UINT32_MAX, UINT32_MAX, 0, UINT32_MAX - 1});
	check_shares(f, 4, 4093, "largest weights and 0");
	for (unsigned int round = 0; round < 50; round++) {
		uint32_t n = 1 + (uint32_t)(next_random(&seed) % 500);
		uint32_t limit = 1u << next_random(&seed) % 20;
		char what[64];

		permute(f, n, 65537, 0);
		for (uint32_t i = 0; i < n; i++) {
			f->backends[i].weight = 1 + (uint32_t)(next_random(&seed) % limit);
		}
		snprintf(what, sizeof(what), "%u random weights up to %u", n, limit);
		check_shares(f, n, 65537, what);
	}
}

// --- the schedule compared with the simple method --------------------------------------------

static void build_plainly(const struct lab *f, uint32_t n, uint16_t *table, uint32_t slots) {
	uint64_t *gained = calloc(n, sizeof(*gained));
	uint32_t *cursor = calloc(n, sizeof(*cursor));
	uint64_t heaviest = 0;
	uint32_t filled = 0;

	assert_non_null(gained);
	assert_non_null(cursor);
	for (uint32_t i = 0; i < n; i++) {
		cursor[i] = f->backends[i].offset;
		heaviest = f->backends[i].weight > heaviest ? f->backends[i].weight : heaviest;
	}
	memset(table, 0xff, slots * sizeof(*table));
	while (filled < slots) {
		for (uint32_t i = 0; i < n && filled < slots; i++) {
			gained[i] += f->backends[i].weight;
			if (gained[i] < heaviest) {
				continue;
			}
			gained[i] -= heaviest;
			while (table[cursor[i]] != WEIR_MAGLEV_EMPTY) {
				cursor[i] = (cursor[i] + f->backends[i].skip) % slots;
			}
			table[cursor[i]] = (uint16_t)i;
			filled++;
		}
	}
	free(cursor);
	free(gained);
}

TEST(schedule_gives_the_table_of_the_simple_method) {
	const uint32_t primes[] = {2, 3, 7, 31, 101, 251, 1009, 4093};
	struct lab *f = *state;
	uint64_t seed = 7;

	for (unsigned int round = 0; round < 2000; round++) {
		uint32_t slots = primes[next_random(&seed) % 8];
		uint32_t most = slots < 200 ? slots : 200;
		uint32_t n = 1 + (uint32_t)(next_random(&seed) % most);
		// The weights range from equal weights to a single weight that exceeds the sum of
		// all other weights.
		unsigned int bits = (unsigned int)(next_random(&seed) % 12);

		permute(f, n, slots, 1);
		for (uint32_t i = 0; i < n; i++) {
			f->backends[i].weight = (uint32_t)(next_random(&seed) % (1u << bits));
		}
		f->backends[next_random(&seed) % n].weight =
			1 + (uint32_t)(next_random(&seed) % (8u << bits));
		build(f, n, f->table, slots);
		build_plainly(f, n, f->other, slots);
		assert_memory_equal(f->table, f->other, slots * sizeof(f->table[0]));
	}
}

// weir_maglev_build inspects fewer slots at once if there are many backends, and uses another
// method for the last slots. The cases have few or many backends, and few, many, or the maximum
// number of last slots.
TEST(large_tables_equal_those_of_the_simple_method) {
	const struct {
		uint32_t n, slots, weights; // weights are 1 .. `weights`
	} cases[] = {
		{1, 65537, 1},
		{2, 65537, 3},
		{100, 65537, 1},
		{100, 65537, 100},
		{100, 65537, 4}, // the mean weight is more than half of the largest weight
		{999, 65537, 2},
		{1000, 65537, 2},
		{3000, 65537, 50},
		{9999, 16381, 5},
		{65, 524287, 10},
	};
	struct lab *f = *state;
	uint64_t seed = 5;

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t n = cases[i].n, slots = cases[i].slots;
		uint16_t *table = calloc(slots, sizeof(*table));
		uint16_t *plain = calloc(slots, sizeof(*plain));

		assert_non_null(table);
		assert_non_null(plain);
		permute(f, n, slots, 1);
		for (uint32_t k = 0; k < n; k++) {
			weir_maglev_permutation(next_random(&seed), slots, &f->backends[k].offset,
				&f->backends[k].skip);
			f->backends[k].weight =
				1 + (uint32_t)(next_random(&seed) % cases[i].weights);
		}
		f->backends[n / 2].weight = cases[i].weights;
		if (i % 2 == 1) {
			f->backends[n / 3].weight = 0;
		}
		build(f, n, table, slots);
		build_plainly(f, n, plain, slots);
		assert_memory_equal(table, plain, slots * sizeof(*table));
		free(plain);
		free(table);
	}
}

// A backend with nearly all of the weight gets nearly all turns, in succession.
TEST(one_heavy_backend_gets_the_slots_of_the_simple_method) {
	struct lab *f = *state;

	permute(f, 100, 65537, 1);
	f->backends[42].weight = 1000;
	build(f, 100, f->table, 65537);
	build_plainly(f, 100, f->other, 65537);
	assert_memory_equal(f->table, f->other, sizeof(f->table));
}

// --- cost, primes -------------------------------------------------------------------------

static double build_ms(struct lab *f, uint32_t n, uint32_t slots) {
	double best = 1e9;

	for (unsigned int i = 0; i < 5; i++) {
		struct timespec from, to;
		double ms;

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
		build(f, n, f->table, slots);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
		ms = (double)(to.tv_sec - from.tv_sec) * 1e3 +
		     (double)(to.tv_nsec - from.tv_nsec) / 1e6;
		best = ms < best ? ms : best;
	}
	return best;
}

// The time limit is high, because of sanitizers and slow machines. The simple method would need
// minutes for the last case.
TEST(large_table_is_built_in_milliseconds_with_any_weights) {
	struct lab *f = *state;
	double equal, random, skewed;
	uint64_t seed = 3;

	permute(f, BACKENDS_MAX, 65537, 100);
	equal = build_ms(f, BACKENDS_MAX, 65537);
	for (uint32_t i = 0; i < BACKENDS_MAX; i++) {
		f->backends[i].weight = 1 + (uint32_t)(next_random(&seed) % 1000);
	}
	random = build_ms(f, BACKENDS_MAX, 65537);
	permute(f, BACKENDS_MAX, 65537, 1);
	f->backends[5000].weight = UINT32_MAX;
	skewed = build_ms(f, BACKENDS_MAX, 65537);
	print_message("10,000 backends, 65,537 slots: equal %.2f ms, random %.2f ms, one heavy "
		      "%.2f ms\n",
		equal, random, skewed);
	assert_true(equal < 100 && random < 100 && skewed < 100);
}

TEST(permutation_is_in_range) {
	const uint32_t primes[] = {2, 3, 251, 65537, 16777213};
	uint64_t seed = 9;

	for (unsigned int p = 0; p < 5; p++) {
		for (unsigned int i = 0; i < 10000; i++) {
			uint32_t offset = UINT32_MAX, skip = 0;

			weir_maglev_permutation(next_random(&seed), primes[p], &offset, &skip);
			assert_true(offset < primes[p]);
			assert_true(skip >= 1 && skip < primes[p]);
		}
	}
}

TEST(primes_are_distinguished_from_other_numbers) {
	const uint32_t primes[] = {2, 3, 5, 7, 251, 4093, 65521, 65537, 16777213, 4294967291u};
	const uint32_t others[] = {0, 1, 4, 9, 25, 65535, 65536, 4294967295u, 4294836225u};

	for (unsigned int i = 0; i < sizeof(primes) / sizeof(primes[0]); i++) {
		assert_true(weir_is_prime(primes[i]));
	}
	for (unsigned int i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_false(weir_is_prime(others[i]));
	}
}
