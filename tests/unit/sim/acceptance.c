// SPDX-License-Identifier: BSD-3-Clause
//
// Whole scenarios against the figures of the literature: CPU spread and wasted capacity of the
// policies, the switch from least-loaded to weighted round robin, the sinkhole. Prints the tables.
//
// Bands: the SRE book, chapter 20, says "up to 2x" for round robin and for least-loaded; the rest
// are those of a reference simulation with the same workload and other code (docs/simulator.md).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_lab.h"
#include "summary.h"

#define SEEDS 8
#define JOBS 2

static const char *scenarios; // directory

static struct weir_sim_file *open_scenario(const char *name) {
	struct weir_sim_problems problems = {0};
	struct weir_sim_file *file = NULL;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s.json", scenarios, name);
	assert_int_equal(weir_sim_file_read(path, &file, &problems), 0);
	weir_sim_problems_fini(&problems);
	return file;
}

// A scenario with some of its variants only: those that `names` has, or has not.
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

static const char *const main_policies[] = {
	"round-robin", "least-loaded", "weighted-reported", NULL};

// Every one of the eight seeds, not only their mean.
static void sre20_spread_and_waste_are_in_their_bands(void **state) {
	struct weir_sim_range rr, ll, wrr;
	struct part part;

	(void)state;
	run_part(&part, "sre20", main_policies, true, SEEDS);
	rr = range_of(&part, "round-robin", 0, WEIR_SIM_METRIC_SPREAD);
	ll = range_of(&part, "least-loaded", 0, WEIR_SIM_METRIC_SPREAD);
	wrr = range_of(&part, "weighted-reported", 0, WEIR_SIM_METRIC_SPREAD);
	assert_true(rr.least >= 1.8 && rr.most <= 2.3);
	assert_true(ll.least >= 1.75 && ll.most <= 2.2);
	assert_true(wrr.most <= 1.35);
	assert_true(wrr.mean - 1 <= 0.35 * (rr.mean - 1));
	rr = range_of(&part, "round-robin", 0, WEIR_SIM_METRIC_WASTED);
	wrr = range_of(&part, "weighted-reported", 0, WEIR_SIM_METRIC_WASTED);
	assert_true(rr.mean >= 25 && wrr.mean <= 13);
	part_fini(&part);
}

// The others, in the same table. Policies that know nothing of CPU are about as uneven as round
// robin; those that measure it, or are told the speeds, are better.
static void sre20_of_the_other_policies(void **state) {
	static const char *const blind[] = {
		"random", "power-of-two", "fair-share-average", "fair-share-median"};
	static const char *const knowing[] = {"time-weighted-average", "time-weighted-median",
		"interleaved-average", "interleaved-median", "weighted-configured"};
	struct part part;

	(void)state;
	run_part(&part, "sre20", main_policies, false, 1);
	for (size_t i = 0; i < sizeof(blind) / sizeof(blind[0]); i++) {
		struct weir_sim_range r = range_of(&part, blind[i], 0, WEIR_SIM_METRIC_SPREAD);

		assert_true(r.least >= 1.7 && r.most <= 2.35);
	}
	for (size_t i = 0; i < sizeof(knowing) / sizeof(knowing[0]); i++) {
		struct weir_sim_range r = range_of(&part, knowing[i], 0, WEIR_SIM_METRIC_SPREAD);

		assert_true(r.least >= 1.2 && r.most <= 1.7);
	}
	part_fini(&part);
}

static void switch_to_weighted_halves_the_spread(void **state) {
	static const char *const none[] = {NULL};
	struct weir_sim_range before, after;
	struct part part;

	(void)state;
	run_part(&part, "least_loaded_to_weighted", none, false, 1);
	before = range_of(&part, "least_loaded_to_weighted", 0, WEIR_SIM_METRIC_SPREAD);
	after = range_of(&part, "least_loaded_to_weighted", 1, WEIR_SIM_METRIC_SPREAD);
	assert_true(before.least >= 1.75 && before.most <= 2.2);
	assert_true(after.most <= 1.35);
	before = range_of(&part, "least_loaded_to_weighted", 0, WEIR_SIM_METRIC_WASTED);
	after = range_of(&part, "least_loaded_to_weighted", 1, WEIR_SIM_METRIC_WASTED);
	assert_true(before.mean >= 22 && after.mean <= 13);
	part_fini(&part);
}

// By Little's law a backend that fails after 0.5 ms gets L / (T + 0.5 ms) of a fair share, where L
// is the others' latency (about 0.315 s) and T how long an error counts as active. An error counts
// for 7/8 to 8/8 of the window, 15/16 on average.
static void sinkhole_shares_follow_from_littles_law(void **state) {
	static const struct {
		const char *variant;
		double least, most;
	} cases[] = {
		{"round-robin", 0.97, 1.04},
		{"least-loaded-0s", 10.5, 12.5},
		{"least-loaded-0.3s", 0.95, 1.2},
		{"least-loaded-1s", 0.34, 0.43},
		{"least-loaded-10s", 0.03, 0.06},
		{"least-loaded-auto", 0.1, 0.2}, // ten latencies are 3 s
		{"weighted-penalty-0-99-percent", 8, 20},
		{"weighted-penalty-1", 0.1, 0.2},
		{"weighted-penalty-10", 0.008, 0.02},
	};
	static const char *const left_out[] = {"least-loaded-0.1s", "least-loaded-3s",
		"weighted-penalty-0", "weighted-penalty-3", NULL};
	struct part part;

	(void)state;
	run_part(&part, "sinkhole", left_out, false, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_sim_range share =
			range_of(&part, cases[i].variant, 0, WEIR_SIM_METRIC_SHARE);

		if (share.mean < cases[i].least || share.mean > cases[i].most) {
			fail_msg("%s: share %g, expected %g to %g", cases[i].variant, share.mean,
				cases[i].least, cases[i].most);
		}
	}
	part_fini(&part);
}

int main(int argc, char **argv) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sre20_spread_and_waste_are_in_their_bands),
		cmocka_unit_test(sre20_of_the_other_policies),
		cmocka_unit_test(switch_to_weighted_halves_the_spread),
		cmocka_unit_test(sinkhole_shares_follow_from_littles_law),
	};

	if (argc != 2) {
		return 2;
	}
	scenarios = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
