// SPDX-License-Identifier: BSD-3-Clause
//
// Tests how much work one iteration of the loop does when many samples wait. The work is counted,
// not timed.
#include "estimates_lab.h"

#define BACKENDS 8000u

static void open_many(struct estimates_lab *lab) {
	const struct lab_room room = {.max_services = 1, .max_backends = BACKENDS};

	estimates_lab_open_large(lab, &room, 1, BACKENDS);
	lab_policy(lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab_apply_follow(lab);
}

// Write one sample for each backend, all with the same duration.
static void sample_all(struct estimates_lab *lab, uint32_t worker) {
	for (uint32_t id = 0; id < BACKENDS; id++) {
		assert_true(lab_sample(lab, worker, (uint16_t)id, 3 * LAB_MS));
	}
}

struct turns {
	uint64_t samples; // samples in total
	uint64_t most; // maximum in one iteration
	uint32_t turns;
};

static struct turns collect_all(struct estimates_lab *lab) {
	struct turns turns = {0};
	bool more = true;

	while (more) {
		uint64_t before = weir_estimates_extent(lab->estimates).samples, n;

		more = weir_estimates_collect(lab->estimates, lab->now);
		n = weir_estimates_extent(lab->estimates).samples - before;
		turns.most = n > turns.most ? n : turns.most;
		turns.samples += n;
		turns.turns++;
	}
	return turns;
}

// The first sample of each backend is more work, because it allocates the statistics of the
// backend. So fewer samples are read in one iteration.
TEST(first_samples_are_read_in_turns) {
	const uint64_t most =
		(WEIR_ESTIMATES_TURN + WEIR_ESTIMATES_FIRST - 1) / WEIR_ESTIMATES_FIRST;
	struct estimates_lab lab;
	struct turns turns;

	open_many(&lab);
	sample_all(&lab, 0);
	turns = collect_all(&lab);
	print_message(
		"%u turns, %u samples in the largest\n", turns.turns, (unsigned int)turns.most);
	assert_in_range(turns.most, 1, most);
	assert_in_range(turns.turns, BACKENDS / most, BACKENDS / most + 1);
	assert_int_equal(turns.samples, BACKENDS);
	for (uint32_t id = 0; id < BACKENDS; id++) {
		assert_int_equal(
			weir_estimates_backend(lab.estimates, (uint16_t)id, lab.now).samples, 1);
		assert_int_equal(lab_cost(&lab, (uint16_t)id), 3 * LAB_MS);
	}
	sample_all(&lab, 0);
	turns = collect_all(&lab);
	assert_int_equal(turns.turns, 1); // no further allocations are needed
	assert_int_equal(turns.samples, BACKENDS);
	estimates_lab_close(&lab);
}

TEST(full_rings_are_read_in_turns) {
	struct estimates_lab lab;
	struct turns turns;

	open_many(&lab);
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		while (lab_sample(&lab, worker, 7, LAB_MS)) {
		}
	}
	turns = collect_all(&lab);
	assert_true(turns.most <= WEIR_ESTIMATES_TURN);
	assert_int_equal(turns.samples, LAB_WORKERS * WEIR_SAMPLES);
	assert_int_equal(weir_estimates_backend(lab.estimates, 7, lab.now).samples,
		LAB_WORKERS * WEIR_SAMPLES);
	estimates_lab_close(&lab);
}

// To find the median, each new sample shifts half of the sorted window.
TEST(large_medians_are_more_work) {
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 1);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab.config->services[0].policy.statistic = WEIR_STATISTIC_MEDIAN;
	lab.config->services[0].policy.window = 65535;
	lab_apply_follow(&lab);
	while (lab_sample(&lab, 0, 0, LAB_MS)) {
	}
	assert_in_range(collect_all(&lab).most, 1, WEIR_ESTIMATES_TURN / 100);
	estimates_lab_close(&lab);
}

// The ring of one worker is refilled all the time. The loop still reads the rings of the other
// workers.
TEST(each_worker_gets_its_turn) {
	struct estimates_lab lab;

	open_many(&lab);
	lab_sample(&lab, 1, 0, LAB_MS);
	for (int turn = 0; turn < 3; turn++) {
		for (uint32_t id = 0; id < 600; id++) {
			lab_sample(&lab, 0, (uint16_t)(1 + turn * 600 + id), LAB_MS);
		}
		assert_true(weir_estimates_collect(lab.estimates, lab.now));
		assert_true(lab_waiting(&lab, 0) > 0);
	}
	assert_int_equal(lab_waiting(&lab, 1), 0);
	estimates_lab_close(&lab);
}

static void expect_next(void *context, const struct weir_estimates_sample *sample) {
	uint64_t *next = context; // [LAB_WORKERS]

	assert_int_equal(sample->service_ns, next[sample->worker]++);
}

// No sample is lost, even if the worker continues writing between iterations.
TEST(no_sample_is_lost_or_overtaken) {
	uint64_t next[LAB_WORKERS] = {0}, written[LAB_WORKERS] = {0};
	struct estimates_lab lab;

	open_many(&lab);
	weir_estimates_listen(lab.estimates, expect_next, next);
	for (uint32_t id = 0; id < BACKENDS; id += 400) {
		for (uint32_t i = 0; i < 400; i++) {
			uint32_t worker = i % LAB_WORKERS;

			assert_true(
				lab_sample(&lab, worker, (uint16_t)(id + i), written[worker]++));
		}
		weir_estimates_collect(lab.estimates, lab.now);
	}
	lab_collect(&lab);
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		assert_int_equal(next[worker], written[worker]);
		assert_int_equal(lab.lab.segment->worker_boxes[worker].samples.lost, 0);
	}
	estimates_lab_close(&lab);
}

// The tables change. Waiting samples belong to the backends that had the ids before, so all waiting
// samples are read first.
TEST(change_of_the_tables_reads_all_samples_first) {
	struct estimates_lab lab;

	open_many(&lab);
	sample_all(&lab, 0);
	sample_all(&lab, 1);
	lab_follow(&lab);
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		assert_int_equal(lab_waiting(&lab, worker), 0);
	}
	assert_int_equal(weir_estimates_extent(lab.estimates).samples, LAB_WORKERS * BACKENDS);
	estimates_lab_close(&lab);
}

TEST(drain_reads_all_waiting_samples) {
	struct estimates_lab lab;

	open_many(&lab);
	sample_all(&lab, 0);
	sample_all(&lab, 1);
	weir_estimates_drain(lab.estimates, lab.now);
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		assert_int_equal(lab_waiting(&lab, worker), 0);
	}
	assert_int_equal(lab_cost(&lab, BACKENDS - 1), 3 * LAB_MS);
	estimates_lab_close(&lab);
}
