// SPDX-License-Identifier: BSD-3-Clause
//
// Complete scenarios of stealing: its benefit with each policy, its cost, the recorded run of
// dask.distributed, and the stealing of buckets between workers.
//
// The permitted ranges (bands) contain the results of two seeds, and agree with
// docs/design/policy-measurements.md and docs/design/simulator.md.
#include "sim_bands.h"
#include "sim_lab.h"

TEST_ARGUMENT(scenarios); // directory of scenarios

#define MEAN WEIR_SIM_METRIC_MEAN_MS
#define P99 WEIR_SIM_METRIC_P99_MS
#define P999 WEIR_SIM_METRIC_P999_MS
#define ERRORS WEIR_SIM_METRIC_ERRORS
#define MOVED WEIR_SIM_METRIC_MOVED
#define SILENT WEIR_SIM_METRIC_SILENT
#define BUSIEST WEIR_SIM_METRIC_BUSIEST
#define MOST WEIR_SIM_METRIC_BUSIEST_MOST

#define CHECK(scenario, bands) \
	lab_check(scenarios, scenario, bands, sizeof(bands) / sizeof((bands)[0]))

// With stealing, no request waits for seconds or is refused, even if the policy does not measure
// the queue. With TCP, a moved connection waits a second for the client's retransmission.
TEST(steal_empties_a_stuck_backend) {
	static const struct lab_band bands[] = {
		{"round-robin", P999, 4200, 5800},
		{"round-robin", ERRORS, 1.3, 2},
		{"round-robin-steal", P999, 280, 390},
		{"round-robin-steal", ERRORS, 0, 0},
		{"random", P999, 4200, 6000},
		{"random", ERRORS, 1.3, 2.1},
		{"random-steal", P999, 270, 400},
		{"random-steal", ERRORS, 0, 0},
		{"maglev", P999, 4300, 6300},
		{"maglev", ERRORS, 1.2, 2},
		{"maglev-steal", P999, 280, 400},
		{"maglev-steal", ERRORS, 0, 0},
		{"least-loaded", P999, 370, 540},
		{"least-loaded", ERRORS, 0, 0},
		{"least-loaded-steal", P999, 260, 370},
		{"least-loaded-steal", ERRORS, 0, 0},
		{"power-of-two", P999, 730, 1100},
		{"power-of-two", ERRORS, 0, 0},
		{"power-of-two-steal", P999, 270, 380},
		{"power-of-two-steal", ERRORS, 0, 0},
		{"weighted-reported", P999, 4100, 6100},
		{"weighted-reported", ERRORS, 0.21, 0.34},
		{"weighted-reported-steal", P999, 240, 340},
		{"weighted-reported-steal", ERRORS, 0, 0},
		{"fair-share-median", P999, 4300, 6400},
		{"fair-share-median", ERRORS, 1.2, 2},
		{"fair-share-median-steal", P999, 280, 390},
		{"fair-share-median-steal", ERRORS, 0, 0},
		{"time-weighted-median", P999, 4400, 6200},
		{"time-weighted-median", ERRORS, 1.2, 2},
		{"time-weighted-median-steal", P999, 280, 390},
		{"time-weighted-median-steal", ERRORS, 0, 0},
		{"prequal", P999, 4100, 6100},
		{"prequal", ERRORS, 0, 0.39},
		{"prequal-steal", P999, 290, 410},
		{"prequal-steal", ERRORS, 0, 0},
		{"round-robin-steal-tcp", P999, 940, 1300},
		{"round-robin-steal-tcp", ERRORS, 0, 0},
		{"least-loaded-steal-tcp", P999, 380, 540},
		{"least-loaded-steal-tcp", ERRORS, 0, 0},
	};

	CHECK("steal_stuck_backend", bands);
}

// With stealing, the latency is as low as with least-loaded, which stealing cannot improve.
TEST(steal_helps_in_bursts_where_the_policy_does_not) {
	static const struct lab_band bands[] = {
		{"round-robin", P99, 340, 470},
		{"round-robin", ERRORS, 0, 0.21},
		{"round-robin-steal", P99, 160, 220},
		{"round-robin-steal", ERRORS, 0, 0},
		{"random", P99, 370, 500},
		{"random", ERRORS, 0, 0.31},
		{"random-steal", P99, 160, 220},
		{"random-steal", ERRORS, 0, 0},
		{"maglev", P99, 350, 500},
		{"maglev", ERRORS, 0, 0.31},
		{"maglev-steal", P99, 160, 220},
		{"maglev-steal", ERRORS, 0, 0},
		{"least-loaded", P99, 140, 190},
		{"least-loaded", ERRORS, 0, 0},
		{"least-loaded-steal", P99, 150, 200},
		{"least-loaded-steal", ERRORS, 0, 0},
		{"power-of-two", P99, 150, 200},
		{"power-of-two", ERRORS, 0, 0},
		{"power-of-two-steal", P99, 150, 200},
		{"power-of-two-steal", ERRORS, 0, 0},
		{"weighted-reported", P99, 350, 470},
		{"weighted-reported", ERRORS, 0, 0.21},
		{"weighted-reported-steal", P99, 160, 220},
		{"weighted-reported-steal", ERRORS, 0, 0},
		{"fair-share-median", P99, 340, 490},
		{"fair-share-median", ERRORS, 0, 0.26},
		{"fair-share-median-steal", P99, 160, 230},
		{"fair-share-median-steal", ERRORS, 0, 0},
		{"time-weighted-median", P99, 340, 490},
		{"time-weighted-median", ERRORS, 0, 0.33},
		{"time-weighted-median-steal", P99, 160, 220},
		{"time-weighted-median-steal", ERRORS, 0, 0},
		{"prequal", P99, 460, 600},
		{"prequal", ERRORS, 0.97, 1.8},
		{"prequal-steal", P99, 230, 300},
		{"prequal-steal", ERRORS, 0, 0.034},
		{"round-robin-steal-tcp", P99, 260, 390},
		{"round-robin-steal-tcp", ERRORS, 0, 0.0059},
		{"least-loaded-steal-tcp", P99, 140, 190},
		{"least-loaded-steal-tcp", ERRORS, 0, 0},
	};

	CHECK("steal_bursty_clients", bands);
}

// Checks the mean: requests that wait behind expensive requests affect the mean, but the 99th
// percentile depends only on the expensive requests.
TEST(steal_moves_requests_behind_expensive_ones) {
	static const struct lab_band bands[] = {
		{"round-robin", MEAN, 120, 180},
		{"round-robin-steal", MEAN, 45, 67},
		{"random", MEAN, 120, 180},
		{"random-steal", MEAN, 48, 66},
		{"maglev", MEAN, 120, 180},
		{"maglev-steal", MEAN, 45, 63},
		{"least-loaded", MEAN, 37, 52},
		{"least-loaded-steal", MEAN, 31, 43},
		{"power-of-two", MEAN, 48, 66},
		{"power-of-two-steal", MEAN, 32, 44},
		{"weighted-reported", MEAN, 130, 190},
		{"weighted-reported-steal", MEAN, 47, 72},
		{"fair-share-median", MEAN, 120, 180},
		{"fair-share-median-steal", MEAN, 44, 71},
		{"time-weighted-median", MEAN, 150, 230},
		{"time-weighted-median-steal", MEAN, 61, 86},
		{"prequal", MEAN, 120, 180},
		{"prequal-steal", MEAN, 49, 70},
		{"round-robin-steal-tcp", MEAN, 110, 160},
		{"least-loaded-steal-tcp", MEAN, 40, 56},
	};

	CHECK("steal_thousand_x_cost", bands);
}

// The benefit is smaller if plans are infrequent or have few requests, or if answers are late or
// lost. If all answers are lost, stealing increases the mean by a tenth.
TEST(steal_depends_on_its_messages) {
	static const struct lab_band bands[] = {
		{"off", MEAN, 61, 73},
		{"off", ERRORS, 1.3, 2},
		{"off", SILENT, 0, 0},
		{"every-10ms", MEAN, 44, 52},
		{"every-10ms", ERRORS, 0, 0},
		{"every-10ms", SILENT, 0, 0},
		{"every-100ms", MEAN, 43, 52},
		{"every-100ms", ERRORS, 0, 0},
		{"every-100ms", SILENT, 0, 0},
		{"every-1s", MEAN, 60, 72},
		{"every-1s", ERRORS, 0.78, 1.3},
		{"every-1s", SILENT, 0, 0},
		{"every-10s", MEAN, 61, 73},
		{"every-10s", ERRORS, 1.2, 2},
		{"every-10s", SILENT, 0, 0},
		{"at-most-5-a-plan", MEAN, 61, 73},
		{"at-most-5-a-plan", ERRORS, 0.67, 1.1},
		{"at-most-5-a-plan", SILENT, 0, 0},
		{"latency-20ms", MEAN, 44, 53},
		{"latency-20ms", ERRORS, 0, 0},
		{"latency-20ms", SILENT, 0, 0},
		{"latency-200ms", MEAN, 63, 75},
		{"latency-200ms", ERRORS, 0.28, 0.44},
		{"latency-200ms", SILENT, 0, 0},
		{"half-lost", MEAN, 65, 78},
		{"half-lost", ERRORS, 0.7, 1.2},
		{"half-lost", SILENT, 18, 29},
		{"all-lost", MEAN, 68, 81},
		{"all-lost", ERRORS, 1.2, 2},
		{"all-lost", SILENT, 29, 47},
		{"answers-too-late", MEAN, 65, 77},
		{"answers-too-late", ERRORS, 1.2, 2},
		{"answers-too-late", SILENT, 20, 35},
		{"begun-unknown", MEAN, 44, 52},
		{"begun-unknown", ERRORS, 0, 0},
		{"begun-unknown", SILENT, 0, 0},
		{"by-backend", MEAN, 43, 52},
		{"by-backend", ERRORS, 0, 0},
		{"by-backend", SILENT, 0, 0},
		{"tcp", MEAN, 60, 72},
		{"tcp", ERRORS, 0, 0},
		{"tcp", SILENT, 0, 0},
		{"tcp-half-lost", MEAN, 63, 75},
		{"tcp-half-lost", ERRORS, 0.63, 0.97},
		{"tcp-half-lost", SILENT, 17, 27},
		{"no-thresholds", MEAN, 43, 52},
		{"no-thresholds", ERRORS, 0, 0},
		{"no-thresholds", SILENT, 0, 0},
		{"dask-thresholds", MEAN, 60, 71},
		{"dask-thresholds", ERRORS, 0.78, 1.3},
		{"dask-thresholds", SILENT, 0, 0},
	};

	CHECK("steal_limits", bands);
}

// In tests/vectors/dask_stealing.json, draining takes 12 s. The optimum is 10 s; without stealing,
// draining takes 40 s.
TEST(steal_drains_as_recorded) {
	static const struct lab_band bands[] = {
		{"off", P999, 39900, 40100},
		{"dask", P999, 11950, 12050},
		{"begun-known", P999, 10900, 11050},
		{"every-100ms", P999, 9900, 10150},
		{"latency-500ms", P999, 12900, 13050},
		{"half-lost", P999, 20000, 26000},
	};

	CHECK("steal_drain", bands);
}

// After 2 s, the load of the busiest worker is at most 1.2 times the mean in every sample of 250
// ms, unless a hand-over takes 10 ms at each of the two workers.
TEST(workers_even_out_hot_buckets_in_two_seconds) {
	static const struct lab_band bands[] = {
		{"two-off", MOST, 1.8, 2},
		{"two-off", MOVED, 0, 0},
		{"two-off", ERRORS, 0, 0},
		{"two-off/after", MOST, 1.8, 2},
		{"two-off/after", MOVED, 0, 0},
		{"two-off/after", ERRORS, 0, 0},
		{"two", MOST, 1.3, 1.5},
		{"two", MOVED, 2.2, 3.8},
		{"two", ERRORS, 0, 0},
		{"two/after", MOST, 0.96, 1.1},
		{"two/after", MOVED, 0, 0},
		{"two/after", ERRORS, 0, 0},
		{"four-off", MOST, 3.3, 3.7},
		{"four-off", MOVED, 0, 0},
		{"four-off", ERRORS, 33, 51},
		{"four-off/after", MOST, 3.3, 3.7},
		{"four-off/after", MOVED, 0, 0},
		{"four-off/after", ERRORS, 33, 51},
		{"four", MOST, 1.9, 2.1},
		{"four", MOVED, 6, 10},
		{"four", ERRORS, 1.8, 2.9},
		{"four/after", MOST, 0.96, 1.1},
		{"four/after", MOVED, 0, 0},
		{"four/after", ERRORS, 0, 0},
		{"eight-off", MOST, 5.6, 6.2},
		{"eight-off", MOVED, 0, 0},
		{"eight-off", ERRORS, 52, 80},
		{"eight-off/after", MOST, 5.6, 6.2},
		{"eight-off/after", MOVED, 0, 0},
		{"eight-off/after", ERRORS, 52, 80},
		{"eight", MOST, 3.6, 4},
		{"eight", MOVED, 9.3, 16},
		{"eight", ERRORS, 4.9, 7.4},
		{"eight/after", MOST, 0.97, 1.1},
		{"eight/after", MOVED, 0, 0},
		{"eight/after", ERRORS, 0, 0},
		{"two-control", MOST, 1.3, 1.5},
		{"two-control", MOVED, 2.2, 3.8},
		{"two-control", ERRORS, 0, 0},
		{"two-control/after", MOST, 0.96, 1.1},
		{"two-control/after", MOVED, 0, 0},
		{"two-control/after", ERRORS, 0, 0},
		{"four-control", MOST, 1.8, 2},
		{"four-control", MOVED, 3.3, 5.7},
		{"four-control", ERRORS, 1.8, 2.9},
		{"four-control/after", MOST, 0.96, 1.1},
		{"four-control/after", MOVED, 0, 0},
		{"four-control/after", ERRORS, 0, 0},
		{"eight-control", MOST, 3.2, 3.6},
		{"eight-control", MOVED, 23, 40},
		{"eight-control", ERRORS, 4.1, 6.3},
		{"eight-control/after", MOST, 0.99, 1.1},
		{"eight-control/after", MOVED, 0, 0},
		{"eight-control/after", ERRORS, 0, 0},
		{"four-asked-at-once", MOST, 3, 3.3},
		{"four-asked-at-once", MOVED, 3.3, 5.7},
		{"four-asked-at-once", ERRORS, 5.6, 8.6},
		{"four-asked-at-once/after", MOST, 0.96, 1.1},
		{"four-asked-at-once/after", MOVED, 0, 0},
		{"four-asked-at-once/after", ERRORS, 0, 0},
		{"four-slow-handover", MOST, 2.2, 2.5},
		{"four-slow-handover", MOVED, 27, 46},
		{"four-slow-handover", ERRORS, 11, 18},
		{"four-slow-handover/after", MOST, 1.3, 1.5},
		{"four-slow-handover/after", MOVED, 13, 23},
		{"four-slow-handover/after", ERRORS, 3.3, 5.1},
		{"four-half-late", MOST, 2.5, 3.2},
		{"four-half-late", MOVED, 6, 15},
		{"four-half-late", ERRORS, 2.4, 7.4},
		{"four-half-late/after", MOST, 0.96, 1.1},
		{"four-half-late/after", MOVED, 0, 0},
		{"four-half-late/after", ERRORS, 0, 0},
	};

	CHECK("hot_buckets", bands);
}

// There are at most 80 moves per second: ten plans, with at most 8 moves each.
TEST(workers_follow_a_moving_hot_spot) {
	static const struct lab_band bands[] = {
		{"every-5s-off", BUSIEST, 3.2, 3.7},
		{"every-5s-off", MOVED, 0, 0},
		{"every-5s", BUSIEST, 1, 1.2},
		{"every-5s", MOVED, 3.4, 5.9},
		{"every-1s-off", BUSIEST, 3.2, 3.7},
		{"every-1s-off", MOVED, 0, 0},
		{"every-1s", BUSIEST, 1.2, 1.5},
		{"every-1s", MOVED, 16, 29},
		{"every-1s-control", BUSIEST, 1.1, 1.4},
		{"every-1s-control", MOVED, 50, 95},
		{"every-200ms-control", BUSIEST, 1.3, 1.6},
		{"every-200ms-control", MOVED, 64, 120},
		{"every-200ms-off", BUSIEST, 2.5, 2.9},
		{"every-200ms-off", MOVED, 0, 0},
		{"every-200ms", BUSIEST, 1.4, 1.8},
		{"every-200ms", MOVED, 36, 65},
		{"any-every-1s-off", BUSIEST, 1.3, 1.7},
		{"any-every-1s-off", MOVED, 0, 0},
		{"any-every-1s", BUSIEST, 1.1, 1.3},
		{"any-every-1s", MOVED, 12, 21},
		{"any-every-200ms-off", BUSIEST, 1.3, 1.6},
		{"any-every-200ms-off", MOVED, 0, 0},
		{"any-every-200ms", BUSIEST, 1.2, 1.5},
		{"any-every-200ms", MOVED, 30, 55},
	};

	CHECK("hot_spot_moves", bands);
}

// One bucket has a large share of all packets. If this share is 20 %, the four workers can have
// equal loads. If it is 40 %, the busiest worker has at least 1.6 times the mean load. With 60 %,
// one worker is at its limit.
TEST(workers_leave_an_elephant_and_move_the_rest) {
	static const struct lab_band bands[] = {
		{"20-percent-off", BUSIEST, 1.5, 1.7},
		{"20-percent-off", MOVED, 0, 0},
		{"20-percent-off/after", BUSIEST, 1.5, 1.7},
		{"20-percent-off/after", MOVED, 0, 0},
		{"20-percent", BUSIEST, 1.3, 1.5},
		{"20-percent", MOVED, 55, 92},
		{"20-percent/after", BUSIEST, 1, 1.2},
		{"20-percent/after", MOVED, 0, 0.07},
		{"40-percent-off", BUSIEST, 2, 2.2},
		{"40-percent-off", MOVED, 0, 0},
		{"40-percent-off/after", BUSIEST, 2, 2.2},
		{"40-percent-off/after", MOVED, 0, 0},
		{"40-percent", BUSIEST, 1.9, 2.1},
		{"40-percent", MOVED, 57, 96},
		{"40-percent/after", BUSIEST, 1.5, 1.7},
		{"40-percent/after", MOVED, 4.2, 7.1},
		{"60-percent-off", BUSIEST, 2.3, 2.6},
		{"60-percent-off", MOVED, 0, 0},
		{"60-percent-off/after", BUSIEST, 2.3, 2.6},
		{"60-percent-off/after", MOVED, 0, 0},
		{"60-percent", BUSIEST, 2.3, 2.5},
		{"60-percent", MOVED, 57, 96},
		{"60-percent/after", BUSIEST, 2.1, 2.4},
		{"60-percent/after", MOVED, 4.2, 7.1},
		{"20-percent-control", BUSIEST, 1.1, 1.3},
		{"20-percent-control", MOVED, 66, 110},
		{"20-percent-control/after", BUSIEST, 1, 1.1},
		{"20-percent-control/after", MOVED, 0, 0},
		{"40-percent-control", BUSIEST, 1.7, 2},
		{"40-percent-control", MOVED, 95, 160},
		{"40-percent-control/after", BUSIEST, 1.5, 1.7},
		{"40-percent-control/after", MOVED, 0, 0},
		{"60-percent-control", BUSIEST, 2.2, 2.5},
		{"60-percent-control", MOVED, 95, 160},
		{"60-percent-control/after", BUSIEST, 2.1, 2.4},
		{"60-percent-control/after", MOVED, 0, 0},
	};

	CHECK("elephant", bands);
}
