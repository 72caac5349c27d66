// SPDX-License-Identifier: BSD-3-Clause
//
// Compares the results of complete scenarios with numbers from the literature. Prints the tables,
// with the numbers from the literature in brackets. The scenarios measure the spread of CPU load
// and the wasted capacity with each policy, the causes of spread, the switch from least-loaded to
// weighted round robin, the sinkhole, subsets, and the number of replaced subset members.
//
// Bands: chapter 20 of the SRE book says "up to 2x" for round robin and for least-loaded. The other
// bands are from a reference simulation, which has the same workload but different code
// (docs/design/simulator.md).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_lab.h"
#include "summary.h"

#define SEEDS 4
#define JOBS 2

TEST_ARGUMENT(scenarios); // directory of scenarios
static const char *const everything[] = {NULL}; // variants to omit: none

static struct weir_sim_file *open_scenario(const char *name) {
	struct weir_config_errors errors = {0};
	struct weir_sim_file *file = NULL;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.json", scenarios, name);
	assert_int_equal(weir_sim_file_read(path, &file, &errors), 0);
	weir_config_errors_fini(&errors);
	return file;
}

// A scenario with some of its variants: the variants in `names` of run_part, or, if `named` is
// false, all other variants.
struct part {
	struct weir_sim_file *whole, file;
	struct weir_sim_scenario variant[WEIR_SIM_VARIANTS_MAX];
	struct weir_sim_results *results;
};

static bool is_named(const char *name, const char *const *names) {
	for (; *names != NULL; names++) {
		if (strcmp(*names, name) == 0) {
			return true;
		}
	}
	return false;
}

static void run_part(struct part *part, const char *scenario, const char *const *names, bool named,
	uint32_t seeds) {
	struct weir_sim_batch batch = {
		.file = &part->file, .first_seed = 1, .seeds = seeds, .jobs = JOBS};

	part->whole = open_scenario(scenario);
	part->file = *part->whole;
	part->file.variant = part->variant;
	part->file.variant_count = 0;
	for (uint32_t i = 0; i < part->whole->variant_count; i++) {
		if (is_named(part->whole->variant[i].name, names) == named) {
			part->variant[part->file.variant_count++] = part->whole->variant[i];
		}
	}
	assert_int_equal(weir_sim_batch_run(&batch, &part->results), 0);
	weir_sim_summary_print(stdout, &part->file, part->results);
	printf("\n");
	fflush(stdout);
}

static void part_fini(struct part *part) {
	weir_sim_results_free(part->results);
	weir_sim_file_free(part->whole);
}

static struct weir_sim_range range_of(const struct part *part, const char *variant, uint32_t window,
	enum weir_sim_metric metric) {
	for (uint32_t i = 0; i < part->file.variant_count; i++) {
		if (strcmp(part->file.variant[i].name, variant) == 0) {
			return weir_sim_range_of(part->results, i, window, metric);
		}
	}
	fail_msg("no variant %s", variant);
	return (struct weir_sim_range){0};
}

struct band {
	const char *variant;
	double least, most; // permitted range of the result with each seed
};

static void check_bands(const struct part *part, const struct band *bands, size_t count) {
	for (size_t i = 0; i < count; i++) {
		struct weir_sim_range spread =
			range_of(part, bands[i].variant, 0, WEIR_SIM_METRIC_SPREAD);

		if (spread.least < bands[i].least || spread.most > bands[i].most) {
			fail_msg("%s: spread %g to %g, expected %g to %g", bands[i].variant,
				spread.least, spread.most, bands[i].least, bands[i].most);
		}
	}
}

// Checks each of the four seeds, not only the mean. Policies that do not use CPU load are about as
// uneven as round robin. Policies that measure the CPU, or use configured speeds, are better.
TEST(sre20_spread_and_waste_are_in_their_bands) {
	static const struct band bands[] = {
		{"round-robin", 1.8, 2.3},
		{"least-loaded", 1.75, 2.2},
		{"weighted-reported", 1, 1.35},
		{"random", 1.7, 2.35},
		{"power-of-two", 1.7, 2.35},
		{"fair-share-average", 1.7, 2.35},
		{"fair-share-median", 1.7, 2.35},
		{"time-weighted-average", 1.2, 1.7},
		{"time-weighted-median", 1.2, 1.7},
		{"interleaved-average", 1.2, 1.8},
		{"interleaved-median", 1.2, 1.8},
		{"weighted-configured", 1.2, 1.7},
	};
	struct weir_sim_range rr, wrr;
	struct part part;

	run_part(&part, "sre20", everything, false, SEEDS);
	printf("[round robin 1.8 to 2.3, least-loaded 1.75 to 2.2, weighted round robin at most "
	       "1.35]\n\n");
	check_bands(&part, bands, sizeof(bands) / sizeof(bands[0]));
	rr = range_of(&part, "round-robin", 0, WEIR_SIM_METRIC_SPREAD);
	wrr = range_of(&part, "weighted-reported", 0, WEIR_SIM_METRIC_SPREAD);
	assert_true(wrr.mean - 1 <= 0.35 * (rr.mean - 1));
	rr = range_of(&part, "round-robin", 0, WEIR_SIM_METRIC_WASTED);
	wrr = range_of(&part, "weighted-reported", 0, WEIR_SIM_METRIC_WASTED);
	assert_true(rr.mean >= 25 && wrr.mean <= 13);
	rr = range_of(&part, "round-robin", 0, WEIR_SIM_METRIC_WASTED_CORES);
	wrr = range_of(&part, "weighted-reported", 0, WEIR_SIM_METRIC_WASTED_CORES);
	assert_true(wrr.mean < 0.35 * rr.mean);
	part_fini(&part);
}

// Each scenario has only one cause of spread, and is run with round robin and with weighted round
// robin.
TEST(causes_of_spread_have_the_known_size) {
	static const struct {
		const char *scenario, *suffix;
		double round_robin, weighted; // results of the reference simulation
		uint32_t seeds; // random subsets need more seeds, because they differ widely
	} causes[] = {
		{"machine_diversity", "", 1.78, 1.14, 2},
		{"antagonists", "", 1.38, 1.19, 2},
		{"query_cost", "", 1.22, 1.14, 2},
		{"random_subsetting", "-random", 3.05, 3.02, 4},
		{"skewed_clients", "-20", 1.90, 1.79, 2},
	};

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		char rr[64], wrr[64];
		const char *const names[] = {rr, wrr, NULL};
		struct part part;

		snprintf(rr, sizeof(rr), "round-robin%s", causes[i].suffix);
		snprintf(wrr, sizeof(wrr), "weighted-round-robin%s", causes[i].suffix);
		run_part(&part, causes[i].scenario, names, true, causes[i].seeds);
		printf("[%.2f, %.2f]\n\n", causes[i].round_robin, causes[i].weighted);
		lab_near(range_of(&part, rr, 0, WEIR_SIM_METRIC_SPREAD).mean, causes[i].round_robin,
			0.15);
		lab_near(range_of(&part, wrr, 0, WEIR_SIM_METRIC_SPREAD).mean, causes[i].weighted,
			0.15);
		part_fini(&part);
	}
}

TEST(switch_to_weighted_halves_the_spread) {
	struct weir_sim_range before, after;
	struct part part;

	run_part(&part, "least_loaded_to_weighted", everything, false, 1);
	before = range_of(&part, "least_loaded_to_weighted", 0, WEIR_SIM_METRIC_SPREAD);
	after = range_of(&part, "least_loaded_to_weighted", 1, WEIR_SIM_METRIC_SPREAD);
	assert_true(before.least >= 1.75 && before.most <= 2.2);
	assert_true(after.most <= 1.35);
	before = range_of(&part, "least_loaded_to_weighted", 0, WEIR_SIM_METRIC_WASTED);
	after = range_of(&part, "least_loaded_to_weighted", 1, WEIR_SIM_METRIC_WASTED);
	assert_true(before.mean >= 22 && after.mean <= 13);
	part_fini(&part);
}

struct share_case { // share of the failing backend; 1 = the mean share of the other backends
	const char *variant;
	double least, most;
};

static void expect_shares(struct part *part, const struct share_case *cases, size_t n) {
	for (size_t i = 0; i < n; i++) {
		struct weir_sim_range share =
			range_of(part, cases[i].variant, 0, WEIR_SIM_METRIC_SHARE);

		if (share.mean < cases[i].least || share.mean > cases[i].most) {
			fail_msg("%s: share %g, expected %g to %g", cases[i].variant, share.mean,
				cases[i].least, cases[i].most);
		}
	}
}

// By Little's law, a backend that fails after 0.5 ms gets L / (T + 0.5 ms) times its fair share. L
// is the latency of the other backends (about 0.315 s). T is the time for which an error counts as
// active: 7/8 to 8/8 of the error window, 15/16 on average.
TEST(sinkhole_shares_follow_from_littles_law) {
	static const struct share_case cases[] = {
		{"round-robin", 0.97, 1.04},
		{"least-loaded-0s", 10.5, 12.5},
		{"least-loaded-0.3s", 0.95, 1.2},
		{"least-loaded-1s", 0.34, 0.43},
		{"least-loaded-10s", 0.03, 0.06},
		{"least-loaded-auto", 0.1, 0.2}, // the window is 10 times the latency, about 3 s
		{"weighted-penalty-0-99-percent", 8, 20},
		{"weighted-penalty-1", 0.1, 0.2},
		{"weighted-penalty-10", 0.008, 0.02},
	};
	static const char *const left_out[] = {"least-loaded-0.1s", "least-loaded-3s",
		"weighted-penalty-0", "weighted-penalty-3", NULL};
	struct part part;

	run_part(&part, "sinkhole", left_out, false, 1);
	expect_shares(&part, cases, sizeof(cases) / sizeof(cases[0]));
	part_fini(&part);
}

// Figures 20-1 and 20-2 of the SRE book: the most loaded backend limits the total load. According
// to the book, perhaps 700 of 1,000 reserved CPUs can be used if the load is uneven. This scenario
// has 1,000 CPUs.
TEST(uneven_load_wastes_a_third_of_a_thousand_cpus) {
	static const struct {
		const char *variant;
		double used_least, used_most, wasted_least, wasted_most; // bounds, in CPUs
	} cases[] = {
		{"uneven", 620, 720, 230, 370},
		{"even", 860, 920, 30, 130},
	};
	struct weir_sim_file *over_time = open_scenario("figure_20_1"); // the load over time
	struct part part;

	run_part(&part, "figure_20_2", everything, false, 1);
	for (size_t i = 0; i < 2; i++) {
		const char *variant = cases[i].variant;
		const struct weir_sim_scenario *one = &part.file.variant[i];
		const struct weir_sim_scenario *other = &over_time->variant[i];
		double used = 10 * range_of(&part, variant, 0, WEIR_SIM_METRIC_CPU).mean;
		double most = range_of(&part, variant, 0, WEIR_SIM_METRIC_CPU_MAX).mean;
		double wasted = range_of(&part, variant, 0, WEIR_SIM_METRIC_WASTED_CORES).mean;

		assert_int_equal(one->backends.count * one->backends.cores, 1000);
		assert_string_equal(other->name, variant);
		assert_int_equal(other->backends.count, one->backends.count);
		assert_true(other->clients.load_percent == one->clients.load_percent);
		assert_int_equal(other->policy.name, one->policy.name);
		if (used < cases[i].used_least || used > cases[i].used_most ||
			wasted < cases[i].wasted_least || wasted > cases[i].wasted_most ||
			most < 92) {
			fail_msg("%s: %g used, %g wasted, the most loaded at %g %%", variant, used,
				wasted, most);
		}
	}
	part_fini(&part);
	weir_sim_file_free(over_time);
}

// Failed requests use no CPU time. Without a penalty, the failing backend therefore gets more than
// its share, unless the numerator of its weight counts only successful requests.
TEST(successful_requests_as_numerator_are_a_penalty) {
	static const struct share_case cases[] = {
		{"round-robin", 0.97, 1.04},
		{"all-penalty-0", 1.35, 1.75},
		{"successful-penalty-0", 0.65, 0.9},
		{"all", 0.3, 0.45},
		{"successful", 0.08, 0.18},
	};
	static const char *const left_out[] = {"all-penalty-3", "successful-penalty-3", NULL};
	struct part part;

	run_part(&part, "half_failing", left_out, false, 1);
	expect_shares(&part, cases, sizeof(cases) / sizeof(cases[0]));
	part_fini(&part);
}

// A backend that returns errors at once within connections looks fast until it reports the errors.
// The first window starts 3 s after the failure.
TEST(reported_errors_end_the_sinkhole) {
	static const char *const misled[] = {
		"least-loaded", "power-of-two", "fair-share", "time-weighted"};
	static const char *const left_out[] = {"round-robin", NULL};
	struct part part;

	run_part(&part, "sinkhole_established", left_out, false, 1);
	for (size_t i = 0; i < sizeof(misled) / sizeof(misled[0]); i++) {
		char reported[64];

		snprintf(reported, sizeof(reported), "%s-reported", misled[i]);
		assert_true(range_of(&part, misled[i], 1, WEIR_SIM_METRIC_SHARE).mean > 1.7);
		for (uint32_t window = 0; window < 2; window++) {
			double share =
				range_of(&part, reported, window, WEIR_SIM_METRIC_SHARE).mean;

			if (share > 0.5) {
				fail_msg("%s: share %g in window %u", reported, share, window);
			}
		}
	}
	part_fini(&part);
}

// Balanced weights even out differences in load that reported weights do not account for, for
// example if each client uses only a part of the backends, or if some clients send more requests.
TEST(balanced_weights_correct_uneven_clients) {
	static const struct {
		const char *scenario, *reported, *balanced;
		double least;
	} cases[] = {
		{"random_subsetting", "weighted-round-robin-random", "balanced-random", 2.5},
		{"skewed_clients", "weighted-round-robin-20", "balanced-20", 1.5},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const names[] = {cases[i].reported, cases[i].balanced, NULL};
		struct part part;

		run_part(&part, cases[i].scenario, names, true, 2);
		assert_true(range_of(&part, cases[i].reported, 0, WEIR_SIM_METRIC_SPREAD).least >
			    cases[i].least);
		assert_true(
			range_of(&part, cases[i].balanced, 0, WEIR_SIM_METRIC_SPREAD).most < 1.25);
		part_fini(&part);
	}
}

// One request in a hundred costs a thousand times as much. Such requests change the average, but
// not the median.
TEST(average_is_misled_by_rare_requests) {
	static const char *const names[] = {"round-robin", "fair-share-average",
		"fair-share-median", "time-weighted-average", "time-weighted-median", NULL};
	struct weir_sim_range average, median;
	struct part part;

	run_part(&part, "thousand_x_cost", names, true, 2);
	average = range_of(&part, "fair-share-average", 0, WEIR_SIM_METRIC_SPREAD);
	median = range_of(&part, "fair-share-median", 0, WEIR_SIM_METRIC_SPREAD);
	assert_true(average.least > 2.2 && median.most < 2.1);
	average = range_of(&part, "time-weighted-average", 0, WEIR_SIM_METRIC_P99_MS);
	median = range_of(&part, "time-weighted-median", 0, WEIR_SIM_METRIC_P99_MS);
	assert_true(average.least > 2 * median.most);
	part_fini(&part);
}

TEST(clients_of_backends_agree_with_the_book) {
	static const struct {
		const char *scenario, *variant;
		double least, most;
	} cases[] = {
		{"subset_random", "size-90", 57, 109},
		{"subset_random", "size-30", 15, 45},
		{"subset_deterministic", "deterministic", 10, 10},
		{"subset_deterministic", "rocksteadier", 10, 10},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const names[] = {cases[i].variant, NULL};
		struct part part;

		run_part(&part, cases[i].scenario, names, true, 1);
		printf("[%.0f, %.0f]\n\n", cases[i].least, cases[i].most);
		assert_int_equal(
			range_of(&part, cases[i].variant, 0, WEIR_SIM_METRIC_CLIENTS_MIN).mean,
			cases[i].least);
		assert_int_equal(
			range_of(&part, cases[i].variant, 0, WEIR_SIM_METRIC_CLIENTS_MAX).mean,
			cases[i].most);
		part_fini(&part);
	}
}

// The simulated fleet has the same results as the subsetting code alone (test_subset_table).
TEST(churn_equals_that_of_the_subsetting_code) {
	static const char *const names[] = {
		"random", "deterministic", "deterministic-exact", "rocksteadier"};
	static const struct {
		const char *window;
		double least, replaced[4];
	} cases[] = {
		// With random subsets, 7 clients use the dead backend; otherwise 10 clients.
		{"one-dead", 1, {0.7, 1, 1, 1}},
		{"one-more", 100.0 / 101, {68.1, 61.1, 77.4, 1}},
		{"ten-more", 1000.0 / 110, {80.8, 80, 47, 9}},
		{"one-fewer", 1, {65.7, 76.3, 80.3, 1}},
		{"ten-fewer", 10, {79, 77.8, 80.3, 10}},
		{"inside", 100.0 / 101, {50.7, 39.2, 38.1, 43.7}},
		{"rolling", 200, {200, 200, 200, 200}},
	};
	struct part part;

	run_part(&part, "churn", everything, false, 1);
	printf("[replaced and least as in the tables of test_subset_table; random lost a backend "
	       "of 7 clients]\n\n");
	for (uint32_t w = 0; w < sizeof(cases) / sizeof(cases[0]); w++) {
		assert_string_equal(part.file.variant[0].window[w].name, cases[w].window);
		for (int i = 0; i < 4; i++) {
			lab_near(range_of(&part, names[i], w, WEIR_SIM_METRIC_REPLACED).mean,
				cases[w].replaced[i], 1e-9);
			lab_near(range_of(&part, names[i], w, WEIR_SIM_METRIC_LEAST_REPLACED).mean,
				cases[w].least, 1e-9);
		}
	}
	part_fini(&part);
}

TEST(rolling_restart_with_drain_loses_nothing) {
	static const struct {
		const char *variant;
		double peak; // maximum number of clients of a backend during the restarts
	} cases[] = {{"random", 17}, {"deterministic", 13}, {"deterministic-exact", 13},
		{"rocksteadier", 11}, {"rocksteadier-killed", 11}};
	struct part part;

	run_part(&part, "rolling_restart", everything, false, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *name = cases[i].variant;
		double errors = range_of(&part, name, 0, WEIR_SIM_METRIC_ERRORS).mean;

		assert_int_equal(
			range_of(&part, name, 0, WEIR_SIM_METRIC_CLIENTS_PEAK).mean, cases[i].peak);
		assert_int_equal(range_of(&part, name, 0, WEIR_SIM_METRIC_MEMBERS_LEAST).mean, 20);
		lab_near(range_of(&part, name, 0, WEIR_SIM_METRIC_REPLACED).mean, 200, 1e-9);
		if (strcmp(name, "rocksteadier-killed") == 0) {
			assert_true(errors > 0.1);
		} else {
			assert_true(errors == 0);
		}
	}
	part_fini(&part);
}
