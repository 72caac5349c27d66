// SPDX-License-Identifier: BSD-3-Clause
//
// Comparison of the subsetting algorithms. Measures the number of clients of each backend, and the
// number of subset members that a change replaces. The second number is compared with the minimum
// number that any algorithm must replace. Prints the tables of docs/design/policy-measurements.md,
// with numbers from the literature in brackets.
#include <stdio.h>

#include "prng.h"
#include "subset_lab.h"
#include "subset_reference.h"

#define SALTS 100u

// Sizes of the service in the churn table.
#define BACKENDS 100u
#define CLIENTS 50u
#define SIZE 20u

enum contender {
	RANDOM,
	DETERMINISTIC,
	EXACT,
	ROCKSTEADIER,
	RENDEZVOUS,
	APERTURE,
	CONTENDERS,
};

static uint32_t choose_rendezvous(const struct weir_subset_params *params, uint32_t clients,
	const uint8_t *usable, uint32_t n, uint32_t *ret_subset) {
	static struct weir_rendezvous_score scratch[FLEET_BACKENDS_MAX];
	static uint32_t order[FLEET_BACKENDS_MAX];
	uint32_t chosen = 0;

	(void)clients;
	weir_subset_rendezvous(params->client, params->salt, n, n, order, scratch);
	for (uint32_t i = 0; i < n && chosen < params->size; i++) {
		if (usable == NULL || usable[order[i]]) {
			ret_subset[chosen++] = order[i];
		}
	}
	return chosen;
}

// The circle of an aperture has only the usable backends, because an aperture has no list of
// replacements for unusable backends.
static uint32_t choose_aperture(const struct weir_subset_params *params, uint32_t clients,
	const uint8_t *usable, uint32_t n, uint32_t *ret_subset) {
	static uint64_t cover[FLEET_BACKENDS_MAX];
	static uint32_t present[FLEET_BACKENDS_MAX];
	uint32_t count = 0;
	uint32_t chosen = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (usable == NULL || usable[i]) {
			present[count++] = i;
		}
	}
	weir_subset_aperture(params->client, clients, count, params->size, cover);
	for (uint32_t i = 0; i < count; i++) {
		if (cover[i] > 0) {
			ret_subset[chosen++] = present[i];
		}
	}
	return chosen;
}

static const struct {
	const char *name;
	fleet_chooser *chooser;
	struct weir_subset_params params;
} contenders[CONTENDERS] = {
	[RANDOM] = {"random", choose, {WEIR_SUBSET_RANDOM, 0, SIZE, 0, 0}},
	[DETERMINISTIC] = {"determ.", choose, {WEIR_SUBSET_DETERMINISTIC, 0, SIZE, 0, 0}},
	[EXACT] = {"exact", choose,
		{WEIR_SUBSET_DETERMINISTIC, WEIR_SUBSET_MODE_EXACT, SIZE, 0, 0}},
	[ROCKSTEADIER] = {"rockst.", choose, {WEIR_SUBSET_ROCKSTEADIER, 0, SIZE, 0, 0}},
	[RENDEZVOUS] = {"rendezv.", choose_rendezvous, {.size = SIZE}},
	[APERTURE] = {"aperture", choose_aperture, {.size = SIZE}},
};

struct row {
	double percent[CONTENDERS];
};

static void fleet_of(struct fleet *fleet, enum contender c, uint32_t clients, const uint8_t *usable,
	uint32_t n) {
	fleet_choose(fleet, contenders[c].chooser, &contenders[c].params, clients, usable, n);
}

static void print_heads(void) {
	printf("%-46s%9s", "", "bound");
	for (int c = 0; c < CONTENDERS; c++) {
		printf("%10s", contenders[c].name);
	}
	printf("\n");
}

static void print_row(const char *event, double bound, const struct row *row, const char *known) {
	printf("%-46s%8.2f%%", event, bound);
	for (int c = 0; c < CONTENDERS; c++) {
		printf("%9.2f%%", row->percent[c]);
	}
	printf("  %s\n", known);
}

// Returns how many members are replaced when the number of backends or clients changes, in percent
// of all previous members.
static struct row resize(uint32_t backends, uint32_t new_backends, uint32_t new_clients) {
	static struct fleet before;
	static struct fleet after;
	struct row row;

	for (int c = 0; c < CONTENDERS; c++) {
		fleet_of(&before, c, CLIENTS, NULL, backends);
		fleet_of(&after, c, new_clients, NULL, new_backends);
		row.percent[c] = 100.0 * (double)fleet_left(&before, &after) /
				 (double)fleet_members(&before);
	}
	return row;
}

// Returns how many members are replaced when a backend is inserted in the middle of the list. The
// backends after it get new indexes.
static struct row insert_in_the_middle(void) {
	static struct fleet before;
	static struct fleet after;
	struct row row;

	for (int c = 0; c < CONTENDERS; c++) {
		fleet_of(&before, c, CLIENTS, NULL, BACKENDS);
		fleet_of(&after, c, CLIENTS, NULL, BACKENDS + 1);
		for (uint32_t i = 0; i < CLIENTS; i++) {
			for (uint32_t j = 0; j < after.length[i]; j++) {
				uint32_t *member = &after.member[i][j];

				if (*member == BACKENDS / 2) {
					*member = BACKENDS; // the new backend
				} else if (*member > BACKENDS / 2) {
					--*member;
				}
			}
		}
		row.percent[c] = 100.0 * (double)fleet_left(&before, &after) /
				 (double)fleet_members(&before);
	}
	return row;
}

static void assert_near(double value, double expected, double tolerance) {
	if (value < expected - tolerance || value > expected + tolerance) {
		fail_msg("%f is not %f +- %f", value, expected, tolerance);
	}
}

// Checks a row of the table. According to the literature and the guarantees, rocksteadier and
// rendezvous replace nearly the minimum number of members, and deterministic subsetting replaces
// far more.
static void resize_row(
	const char *event, double bound, uint32_t from, uint32_t to, const char *known) {
	struct row row = resize(from, to, CLIENTS);

	print_row(event, bound, &row, known);
	assert_near(row.percent[ROCKSTEADIER], bound, 0.15 * bound + 0.1);
	assert_near(row.percent[RENDEZVOUS], bound, 0.3 * bound + 0.1);
	assert_true(row.percent[DETERMINISTIC] > 50);
	assert_true(row.percent[EXACT] > 20);
	assert_true(row.percent[RANDOM] > 50);
}

TEST(table_growing_and_shrinking) {
	struct row row;

	printf("\nMembers of subsets replaced by a change: %u clients, %u backends, size %u\n",
		CLIENTS, BACKENDS, SIZE);
	print_heads();
	resize_row("one more backend at the end of the list", 100.0 / 101, 100, 101,
		"[determ. 61.1 %, rockst. 1.0 %]");
	resize_row("ten more", 1000.0 / 110, 100, 110, "[80.0 %, 9.0 %]");
	resize_row("the last backend removed", 100.0 / 100, 100, 99, "[76.3 %, 1.0 %]");
	resize_row("the last ten removed", 1000.0 / 100, 100, 90, "");
	row = insert_in_the_middle();
	print_row("one more backend in the middle of the list", 100.0 / 101, &row, "");
	for (int c = 0; c <= RENDEZVOUS; c++) {
		assert_true(row.percent[c] > 5); // therefore the list needs a canonical order
	}
	row = resize(100, 100, CLIENTS + 1);
	print_row("one more client (members of the other clients)", 0, &row, "");
	for (int c = 0; c < APERTURE; c++) {
		assert_true(row.percent[c] == 0); // guarantee U1
	}
	row = resize(100, 100, CLIENTS - 1);
	print_row("one client fewer", 0, &row, "");
	for (int c = 0; c < APERTURE; c++) {
		assert_true(row.percent[c] == 0);
	}
	row = resize(100, 101, CLIENTS);
	assert_near(row.percent[DETERMINISTIC], 61.1, 0.05);
	assert_near(row.percent[ROCKSTEADIER], 1.0, 0.05);
	row = resize(100, 110, CLIENTS);
	assert_near(row.percent[DETERMINISTIC], 80.0, 0.05);
	row = resize(100, 99, CLIENTS);
	assert_near(row.percent[DETERMINISTIC], 76.3, 0.05);
}

// A rolling restart: one backend after the other becomes unusable, and then usable again.
struct roll {
	// Members replaced by the loss of one backend, in percent of all members, on average
	struct row lost;
	struct row rolled; // members replaced by the complete rolling restart
	uint32_t most[CONTENDERS]; // maximum number of clients of a backend at any time
	uint32_t fewest[CONTENDERS]; // minimum number of usable members of a client at any time
};

static void roll_one(struct roll *roll, enum contender c) {
	static struct fleet before;
	static struct fleet during;
	static struct fleet after;
	uint8_t usable[BACKENDS];
	uint64_t down = 0;
	uint64_t up = 0;
	double members;

	memset(usable, 1, sizeof(usable));
	fleet_of(&before, c, CLIENTS, usable, BACKENDS);
	members = (double)fleet_members(&before);
	roll->most[c] = fleet_spread(&before).max;
	roll->fewest[c] = UINT32_MAX;
	for (uint32_t b = 0; b < BACKENDS; b++) {
		struct spread spread;

		usable[b] = 0;
		fleet_of(&during, c, CLIENTS, usable, BACKENDS);
		spread = fleet_spread(&during);
		roll->most[c] = spread.max > roll->most[c] ? spread.max : roll->most[c];
		for (uint32_t i = 0; i < CLIENTS; i++) {
			if (during.length[i] < roll->fewest[c]) {
				roll->fewest[c] = during.length[i];
			}
		}
		down += fleet_left(&before, &during);
		usable[b] = 1;
		fleet_of(&after, c, CLIENTS, usable, BACKENDS);
		up += fleet_left(&during, &after);
		before = after;
	}
	roll->lost.percent[c] = 100.0 * (double)down / members / BACKENDS;
	roll->rolled.percent[c] = 100.0 * (double)(down + up) / members;
}

TEST(table_loss_and_rolling_restart) {
	static struct roll roll;

	for (int c = 0; c < CONTENDERS; c++) {
		roll_one(&roll, c);
	}
	printf("\nBackends that become unusable and stay in the list\n");
	print_heads();
	print_row("one lost, mean over all backends", 100.0 / BACKENDS, &roll.lost, "");
	print_row("rolling restart one by one, down and up", 200, &roll.rolled, "");
	printf("%-46s%9u", "  most clients of a backend meanwhile", CLIENTS * SIZE / BACKENDS);
	for (int c = 0; c < CONTENDERS; c++) {
		printf("%10u", roll.most[c]);
	}
	printf("\n%-46s%9u", "  fewest usable backends of a client", SIZE);
	for (int c = 0; c < CONTENDERS; c++) {
		printf("%10u", roll.fewest[c]);
	}
	printf("\n");
	for (int c = 0; c <= RENDEZVOUS; c++) {
		assert_near(roll.lost.percent[c], 100.0 / BACKENDS, 1e-9); // guarantee U3
		assert_near(roll.rolled.percent[c], 200, 1e-9);
		assert_int_equal(roll.fewest[c], SIZE); // guarantee U2
	}
	assert_in_range(roll.most[DETERMINISTIC], 11, 13);
	assert_in_range(roll.most[ROCKSTEADIER], 11, 13);
}

static struct spread print_spread(enum contender c, uint32_t clients, uint32_t backends,
	uint32_t size, uint32_t salt, const char *known) {
	static struct fleet fleet;
	struct weir_subset_params params = contenders[c].params;
	struct spread spread;

	params.size = size;
	params.salt = salt;
	fleet_choose(&fleet, contenders[c].chooser, &params, clients, NULL, backends);
	spread = fleet_spread(&fleet);
	printf("%-10s%8u%9u%6u%7u%10.1f%7u%7u  %s\n", contenders[c].name, clients, backends, size,
		salt, (double)spread.total / backends, spread.min, spread.max, known);
	return spread;
}

static void assert_spread(struct spread spread, uint32_t min, uint32_t max) {
	assert_int_equal(spread.min, min);
	assert_int_equal(spread.max, max);
}

TEST(table_clients_per_backend) {
	printf("\nClients of a backend\n");
	printf("%-10s%8s%9s%6s%7s%10s%7s%7s\n", "", "clients", "backends", "size", "salt", "mean",
		"least", "most");
	assert_spread(print_spread(RANDOM, 300, 300, 90, 8985, "[57 to 109]"), 57, 109);
	assert_spread(print_spread(RANDOM, 300, 300, 30, 58, "[15 to 45]"), 15, 45);
	assert_spread(print_spread(DETERMINISTIC, 300, 300, 10, 0, "[10 each]"), 10, 10);
	assert_spread(print_spread(DETERMINISTIC, 300, 300, 90, 0, "[100 each]"), 100, 100);
	assert_spread(print_spread(EXACT, 300, 300, 90, 0, "[90 each]"), 90, 90);
	assert_spread(print_spread(DETERMINISTIC, 10, 12, 3, 0, "[2 or 3]"), 2, 3);
	assert_spread(print_spread(DETERMINISTIC, 203, 305, 20, 0, "[13 to 14]"), 13, 14);
	assert_spread(print_spread(ROCKSTEADIER, 300, 300, 10, 0, "[10 each]"), 10, 10);
	assert_spread(print_spread(ROCKSTEADIER, 203, 305, 20, 0, "[12 to 15]"), 12, 15);
	assert_spread(print_spread(RENDEZVOUS, 300, 300, 10, 0, "[1 to 20]"), 1, 20);
	assert_spread(print_spread(RENDEZVOUS, 203, 305, 20, 0, "[5 to 25]"), 5, 25);
	print_spread(APERTURE, 203, 305, 20, 0, "(members; the sum of parts is even)");
}

// The largest difference between the numbers of clients of two backends, in 1,000 random fleets.
TEST(table_largest_difference) {
	static const enum contender tried[] = {DETERMINISTIC, EXACT, ROCKSTEADIER, RANDOM};
	static const uint32_t allowed[] = {1, 2, UINT32_MAX, UINT32_MAX};

	printf("\nMaximum minus minimum clients of a backend, largest of 1,000 random fleets "
	       "(up to 300\nclients, 300 backends, any size)\n");
	for (size_t i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
		struct weir_prng prng = {11};
		uint32_t largest = 0;

		for (int trial = 0; trial < 1000; trial++) {
			struct weir_subset_params params = contenders[tried[i]].params;
			uint32_t clients = 1 + weir_prng_below(&prng, 300);
			uint32_t backends = 1 + weir_prng_below(&prng, 300);
			struct spread spread;

			params.size = 1 + weir_prng_below(&prng, backends);
			spread = count_spread(&params, clients, backends);
			if (spread.max - spread.min > largest) {
				largest = spread.max - spread.min;
			}
		}
		printf("%-10s%4u%s\n", contenders[tried[i]].name, largest,
			tried[i] == DETERMINISTIC ? "  [1]"
			: tried[i] == EXACT       ? "  [2]"
						  : "");
		assert_true(largest <= allowed[i]);
	}
}

// Measures the difference between the maximum and the minimum number of clients of a backend with
// rocksteadier. The fleets are realistic, with subsets of up to a third of the backends.
static void practical_row(const char *name, uint32_t client_step, uint32_t backend_step,
	uint32_t allowed, double few_percent) {
	struct weir_subset_params params = contenders[ROCKSTEADIER].params;
	uint32_t largest = 0;
	uint32_t fleets = 0;
	uint32_t few = 0; // fleets with a difference of 3 or less

	for (uint32_t n = 30; n <= 300; n += backend_step) {
		for (uint32_t clients = 30; clients <= 300; clients += client_step) {
			for (params.size = 10; params.size <= n / 3; params.size += 7) {
				struct spread spread = count_spread(&params, clients, n);
				uint32_t difference = spread.max - spread.min;

				largest = difference > largest ? difference : largest;
				few += difference <= 3;
				fleets++;
			}
		}
	}
	printf("%-36s%8u fleets: %u at most, 3 or less in %.0f %%\n", name, fleets, largest,
		100.0 * few / fleets);
	assert_true(largest <= allowed);
	assert_true(100.0 * few / fleets >= few_percent);
}

TEST(table_rocksteadier_in_practice) {
	printf("\nMaximum minus minimum clients of a backend with rocksteadier, sizes up to 1/3\n");
	practical_row("multiples of ten", 30, 30, 8, 98);
	practical_row("any numbers", 17, 13, 10, 50);
}

// Minimum and maximum number of clients of a backend with random subsetting, for each subset size,
// as means over the salts. All sizes use the same shuffle, because a larger subset is a longer part
// of the same list.
struct by_size {
	double least[301];
	double most[301];
};

// Bands that contain the minimum and the maximum for 99 % of the salts. They are from a separate
// run with 60,000 salts.
static const struct {
	uint32_t size, least_from, least_to, most_from, most_to;
} bands[] = {{30, 11, 19, 42, 54}, {90, 59, 73, 107, 124}, {225, 193, 208, 241, 256}};

#define BANDS (sizeof(bands) / sizeof(bands[0]))

struct in_band {
	// Number of salts whose minimum, or whose maximum, is in the band
	uint32_t least[BANDS], most[BANDS];
};

static void count_in_band(struct in_band *in_band, uint32_t size, struct spread spread) {
	for (size_t i = 0; i < BANDS; i++) {
		if (bands[i].size == size) {
			in_band->least[i] += spread.min >= bands[i].least_from &&
					     spread.min <= bands[i].least_to;
			in_band->most[i] +=
				spread.max >= bands[i].most_from && spread.max <= bands[i].most_to;
		}
	}
}

static void random_by_size(struct by_size *by_size, struct in_band *in_band) {
	static uint32_t lists[300][300];
	uint32_t scratch[330];

	assert_true(weir_subset_scratch_count(300) <= 330);
	for (uint32_t salt = 0; salt < SALTS; salt++) {
		uint32_t counts[300] = {0};

		for (uint32_t client = 0; client < 300; client++) {
			struct weir_subset_params params = {
				WEIR_SUBSET_RANDOM, 0, 299, client, salt};

			weir_subset_order(&params, 300, lists[client], scratch);
		}
		for (uint32_t size = 1; size <= 300; size++) {
			struct spread spread;

			for (uint32_t client = 0; client < 300; client++) {
				counts[lists[client][size - 1]]++;
			}
			spread = spread_of(counts, 300);
			by_size->least[size] += (double)spread.min / SALTS;
			by_size->most[size] += (double)spread.max / SALTS;
			count_in_band(in_band, size, spread);
		}
	}
}

TEST(table_random_subsets_must_be_large) {
	static struct by_size by_size;
	struct in_band in_band = {0};
	uint32_t smallest = 300;

	random_by_size(&by_size, &in_band);
	while (by_size.least[smallest - 1] >= 0.9 * (smallest - 1) &&
		by_size.most[smallest - 1] <= 1.1 * (smallest - 1)) {
		smallest--;
	}
	printf("\nRandom subsetting, 300 clients, 300 backends, means over %u salts\n", SALTS);
	printf("%-10s%8s%8s\n", "size", "least", "most");
	printf("%-10u%8.1f%8.1f  [67.7, 113.3]\n", 90u, by_size.least[90], by_size.most[90]);
	printf("%-10u%8.1f%8.1f\n", 30u, by_size.least[30], by_size.most[30]);
	printf("%-10u%8.1f%8.1f  least and most within 10 %% of the mean: %.0f %% of the backends "
	       "[75 %%]\n",
		smallest, by_size.least[smallest], by_size.most[smallest], smallest / 3.0);
	assert_near(by_size.least[90], 67.7, 1);
	assert_near(by_size.most[90], 113.3, 1);
	assert_in_range(smallest, 300 * 70 / 100, 300 * 80 / 100);
	for (size_t i = 0; i < BANDS; i++) {
		printf("size %3u: least within %u to %u with %u salts [99], most within %u to %u "
		       "with %u [99]\n",
			bands[i].size, bands[i].least_from, bands[i].least_to, in_band.least[i],
			bands[i].most_from, bands[i].most_to, in_band.most[i]);
		assert_in_range(in_band.least[i], 95, SALTS);
		assert_in_range(in_band.most[i], 95, SALTS);
	}
}
