// SPDX-License-Identifier: BSD-3-Clause
//
// The steal planner, in cases that the recorded traces of dask do not have: restrictions, limits,
// requests without an answer, and long runs, which are compared with a simple model.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "prng.h"
#include "steal_plan.h"
#include "test.h"

#define WORKERS 9u
#define TASKS 200u
#define MANY_WORKERS 51200u

static const struct weir_steal_task one_second = {.duration = 1, .transfer = -1};

static struct weir_steal_plan *begin(const struct weir_steal_params *params, uint32_t workers) {
	struct weir_steal_plan *plan;

	assert_int_equal(weir_steal_plan_create(params, workers, TASKS, &plan), 0);
	for (uint32_t i = 0; i < workers; i++) {
		weir_steal_plan_worker(plan, i, 1, true, 0);
	}
	return plan;
}

static void put(struct weir_steal_plan *plan, uint32_t first, uint32_t count, uint32_t worker,
	const struct weir_steal_task *what) {
	for (uint32_t i = 0; i < count; i++) {
		weir_steal_plan_put(plan, first + i, worker, what);
	}
}

TEST(restricted_task_never_leaves_its_set) {
	const struct weir_steal_params params = weir_steal_params_dask();
	struct weir_steal_plan *plan = begin(&params, 4);
	struct weir_steal_request requests[TASKS];
	const uint64_t only_two = 1u << 0 | 1u << 2;
	struct weir_steal_task what = one_second;
	uint32_t n;

	what.allowed = &only_two;
	put(plan, 0, 20, 0, &what);
	n = weir_steal_plan_balance(plan, 0, requests, TASKS);
	assert_true(n > 0);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(requests[i].thief, 2);
	}
	what.loose = true; // other workers steal only if worker 2 does not
	put(plan, 20, 20, 1, &what);
	weir_steal_plan_worker(plan, 2, 1, false, 0);
	n = weir_steal_plan_balance(plan, 0, requests, TASKS);
	assert_true(n > 0);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(requests[i].thief, 3);
		assert_in_range(requests[i].task, 20, 39);
	}
	weir_steal_plan_free(plan);
}

// The load of a worker that does not run is not included in the mean of the other workers.
TEST(stopped_worker_is_not_included_in_the_mean) {
	struct weir_steal_params params = weir_steal_params_dask();

	params.idle_ratio = 1;
	params.all_in_mean = false;
	for (uint32_t left = 0; left <= 18; left += 18) {
		struct weir_steal_plan *plan = begin(&params, 12);
		struct weir_steal_request requests[TASKS];

		put(plan, 0, 10, 0, &one_second);
		put(plan, 10, 5, 1, &one_second);
		for (uint32_t i = 2; i < 12; i++) { // ten workers: a plan tries ten victims
			put(plan, 15 + (i - 2) * left, left, i, &one_second);
			weir_steal_plan_worker(plan, i, 1, false, 0);
		}
		assert_true(weir_steal_plan_balance(plan, 0, requests, TASKS) > 0);
		assert_int_equal(requests[0].victim, 0);
		assert_int_equal(requests[0].thief, 1);
		weir_steal_plan_free(plan);
	}
}

TEST(fixed_running_and_expensive_tasks_stay) {
	const struct weir_steal_params params = weir_steal_params_dask();
	struct weir_steal_plan *plan = begin(&params, 2);
	struct weir_steal_task fixed = one_second, dear = one_second;
	struct weir_steal_request requests[TASKS];

	fixed.fixed = true;
	dear.transfer = 1000;
	put(plan, 0, 20, 0, &fixed);
	put(plan, 20, 20, 0, &dear);
	put(plan, 40, 20, 0, &one_second);
	for (uint32_t i = 40; i < 60; i++) {
		weir_steal_plan_begin(plan, i);
	}
	assert_int_equal(weir_steal_plan_balance(plan, 0, requests, TASKS), 0);
	fixed.fixed = false;
	weir_steal_plan_update(plan, 7, &fixed);
	assert_int_equal(weir_steal_plan_balance(plan, 0, requests, TASKS), 1);
	assert_int_equal(requests[0].task, 7);
	weir_steal_plan_free(plan);
}

TEST(levels_of_invalid_numbers) {
	assert_int_equal(weir_steal_level(1, -1, 0.1), 0);
	assert_int_equal(weir_steal_level(NAN, 1, 0.1), WEIR_STEAL_NO_LEVEL);
	assert_int_equal(weir_steal_level(1, NAN, 0.1), WEIR_STEAL_NO_LEVEL);
	assert_int_equal(weir_steal_level(0, 1, 0.1), WEIR_STEAL_NO_LEVEL);
	assert_int_equal(weir_steal_level(1e300, 1, 0.1), 1);
	assert_int_equal(weir_steal_level(1e-300, 1e300, 0.1), WEIR_STEAL_NO_LEVEL);
}

// The tests below follow dask's documentation of work stealing where dask's code agrees with the
// documentation. The bin of a task depends on its ratio of computation time to communication time.
// From each bin to the next bin, this ratio halves. The first bin of the documentation (ratio 8) is
// the third bin of the code.
#define FIRST_OF_PAGE 3u

static uint8_t bin_of(double ratio) {
	return weir_steal_level(ratio, 0.9, 0.1); // transfer and latency add up to 1
}

static struct weir_steal_task of_ratio(double ratio) {
	return (struct weir_steal_task){.duration = 10, .transfer = 10 / ratio - 0.1};
}

TEST(bins_are_those_of_the_documentation) {
	uint8_t bin = FIRST_OF_PAGE;

	for (double ratio = 8; ratio >= 1.0 / 256; ratio /= 2) {
		assert_int_equal(bin_of(ratio), bin++);
	}
	assert_int_equal(bin, WEIR_STEAL_LEVELS);
	assert_int_equal(bin_of(1.0 / 512), WEIR_STEAL_NO_LEVEL);
	for (double ratio = 8; ratio < 1e6; ratio *= 2) {
		assert_true(bin_of(ratio) <= FIRST_OF_PAGE && bin_of(ratio) > 0);
	}
}

// Tasks of the best bins move first, in whatever order they arrived, until no worker is idle.
TEST(tasks_of_the_first_documented_bin_go_first) {
	static const double ratios[] = {1, 2, 4, 8, 16, 40};
	const struct weir_steal_params params = weir_steal_params_dask();
	struct weir_steal_plan *plan = begin(&params, WORKERS);
	struct weir_steal_request requests[TASKS];
	uint32_t n, of_first = 0;

	for (uint32_t i = 0; i < 6; i++) {
		const struct weir_steal_task what = of_ratio(ratios[i]);

		put(plan, 2 * i, 2, 0, &what);
	}
	n = weir_steal_plan_balance(plan, 0, requests, TASKS);
	assert_int_equal(n, WORKERS - 1);
	for (uint32_t i = 0; i < n; i++) {
		bool is_first = requests[i].level <= FIRST_OF_PAGE;

		assert_true(is_first == (requests[i].task >= 6));
		assert_true(i == 0 || requests[i].level >= requests[i - 1].level);
		of_first += is_first;
	}
	assert_int_equal(of_first, 6); // all tasks of the first bin
	weir_steal_plan_free(plan);
}

// In this case, dask's code and Weir differ from the documentation: they also move tasks of the
// last bin. Such a task moves if the backlog takes longer than the task's communication.
TEST(last_bin_moves_if_the_backlog_is_long_enough) {
	const struct weir_steal_task last = {.duration = 1, .transfer = 255.9};
	const struct weir_steal_task backlog = {.duration = 100, .transfer = -1, .fixed = true};

	for (uint32_t queued = 2; queued <= 3; queued++) {
		const struct weir_steal_params params = weir_steal_params_dask();
		struct weir_steal_plan *plan = begin(&params, 2);
		struct weir_steal_request requests[TASKS];

		put(plan, 0, queued, 0, &backlog);
		put(plan, queued, 1, 0, &last);
		assert_int_equal(weir_steal_plan_balance(plan, 0, requests, TASKS), queued == 3);
		assert_true(queued < 3 || requests[0].level == WEIR_STEAL_LEVELS - 1);
		weir_steal_plan_free(plan);
	}
}

// Three of ten workers may steal at the same time. A fourth worker may start when one of the three
// has received the answer to its request.
TEST(share_of_workers_steals_at_once) {
	struct weir_steal_params params = weir_steal_params_dask();
	struct weir_steal_request requests[TASKS];
	struct weir_steal_plan *plan;
	uint32_t thieves = 0, n;

	params.steal_share = 0.25;
	plan = begin(&params, 10);
	put(plan, 0, 100, 0, &one_second);
	n = weir_steal_plan_balance(plan, 0, requests, TASKS);
	for (uint32_t i = 0; i < n; i++) {
		thieves |= 1u << requests[i].thief;
	}
	assert_int_equal(__builtin_popcount(thieves), 3);
	assert_int_equal(weir_steal_plan_in_flight(plan), n);
	weir_steal_plan_free(plan);
}

TEST(refused_thief_waits_twice_as_long_each_time) {
	struct weir_steal_params params = weir_steal_params_dask();
	struct weir_steal_request requests[TASKS];
	struct weir_steal_plan *plan;
	double now = 0, pause = 1;

	params.backoff = 1;
	params.backoff_max = 5;
	plan = begin(&params, 2);
	put(plan, 0, 100, 0, &one_second);
	for (int i = 0; i < 6; i++) {
		uint32_t n = weir_steal_plan_balance(plan, now, requests, 1);

		assert_int_equal(n, 1);
		assert_int_equal(weir_steal_plan_answer(plan, requests[0].task, requests[0].id,
					 WEIR_STEAL_RUNNING, true, now),
			WEIR_STEAL_STAYED);
		assert_int_equal(weir_steal_plan_owner(plan, requests[0].task), 0);
		assert_int_equal(
			weir_steal_plan_balance(plan, now + pause * 0.999, requests, 1), 0);
		now += pause;
		pause = fmin(pause * 2, params.backoff_max);
	}
	// A request that has timed out is removed.
	assert_int_equal(weir_steal_plan_balance(plan, now, requests, 1), 1);
	assert_int_equal(weir_steal_plan_answer(plan, requests[0].task, requests[0].id,
				 WEIR_STEAL_GIVEN_UP, true, now),
		WEIR_STEAL_MOVED);
	assert_int_equal(weir_steal_plan_balance(plan, now, requests, 1), 1);
	weir_steal_plan_answer(
		plan, requests[0].task, requests[0].id, WEIR_STEAL_RUNNING, true, now);
	assert_int_equal(weir_steal_plan_balance(plan, now + 0.999, requests, 1), 0);
	assert_int_equal(weir_steal_plan_balance(plan, now + 1, requests, 1), 1);
	weir_steal_plan_free(plan);
}

TEST(missing_answer_is_a_refusal) {
	struct weir_steal_params params = weir_steal_params_dask();
	struct weir_steal_request requests[TASKS], again[TASKS];
	struct weir_steal_plan *plan;
	uint32_t n;

	params.answer_limit = 10;
	plan = begin(&params, 3);
	put(plan, 0, 12, 0, &one_second);
	n = weir_steal_plan_balance(plan, 0, requests, TASKS);
	assert_int_equal(n, 4);
	assert_int_equal(weir_steal_plan_expire(plan, 9.9), UINT32_MAX);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(weir_steal_plan_expire(plan, 10), requests[i].task);
		assert_int_equal(weir_steal_plan_owner(plan, requests[i].task), 0);
	}
	assert_int_equal(weir_steal_plan_expire(plan, 10), UINT32_MAX);
	assert_int_equal(weir_steal_plan_in_flight(plan), 0);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(weir_steal_plan_correction(plan, i) == 0);
	}
	// An answer to an earlier request is late.
	assert_int_equal(weir_steal_plan_answer(plan, requests[0].task, requests[0].id,
				 WEIR_STEAL_GIVEN_UP, true, 10),
		WEIR_STEAL_LATE);
	weir_steal_plan_update(plan, requests[0].task, &one_second);
	for (uint32_t i = 0; i < 12; i++) {
		if (i != requests[0].task) {
			weir_steal_plan_begin(plan, i);
		}
	}
	assert_int_equal(weir_steal_plan_balance(plan, 11, again, 1), 1);
	assert_int_equal(again[0].task, requests[0].task);
	assert_int_equal(weir_steal_plan_answer(plan, requests[0].task, requests[0].id,
				 WEIR_STEAL_GIVEN_UP, true, 11),
		WEIR_STEAL_STALE);
	assert_int_equal(
		weir_steal_plan_answer(plan, TASKS + 5, again[0].id, WEIR_STEAL_GIVEN_UP, true, 11),
		WEIR_STEAL_LATE);
	assert_int_equal(weir_steal_plan_answer(
				 plan, again[0].task, again[0].id, WEIR_STEAL_UNKNOWN, true, 11),
		WEIR_STEAL_HOMELESS);
	assert_int_equal(weir_steal_plan_owner(plan, again[0].task), WEIR_STEAL_NO_WORKER);
	weir_steal_plan_free(plan);
}

TEST(moved_task_stays_for_a_while) {
	struct weir_steal_params params = weir_steal_params_dask();
	struct weir_steal_request requests[TASKS];
	struct weir_steal_plan *plan;
	uint32_t n;

	params.rest = 3;
	plan = begin(&params, 2);
	put(plan, 0, 8, 0, &one_second);
	n = weir_steal_plan_balance(plan, 0, requests, TASKS);
	for (uint32_t i = 0; i < n; i++) {
		weir_steal_plan_answer(
			plan, requests[i].task, requests[i].id, WEIR_STEAL_GIVEN_UP, true, 0);
	}
	for (uint32_t i = 0; i < 8; i++) { // now all remaining tasks are at worker 1
		if (weir_steal_plan_owner(plan, i) == 0) {
			weir_steal_plan_remove(plan, i);
		}
	}
	assert_int_equal(weir_steal_plan_balance(plan, 2.9, requests, TASKS), 0);
	assert_true(weir_steal_plan_balance(plan, 3, requests, TASKS) > 0);
	weir_steal_plan_free(plan);
}

// --- long runs ----------------------------------------------------------------------------

struct model {
	struct weir_steal_plan *plan;
	struct weir_steal_task what[TASKS];
	uint32_t owner[TASKS]; // WEIR_STEAL_NO_WORKER = not inserted
	struct weir_steal_request requests[TASKS]; // pending requests; id 0 = none
	bool begun[TASKS], refused[TASKS], by_function;
};

static double same_everywhere(void *context, uint32_t task, uint32_t worker) {
	const struct model *model = context;

	return worker == weir_steal_plan_owner(model->plan, task) || model->what[task].transfer < 0
		       ? 0
		       : model->what[task].transfer;
}

static const uint64_t sets[] = {0x0f, 0x1aa, 0x100};

static struct weir_steal_task some_task(struct weir_prng *random) {
	uint32_t set = weir_prng_below(random, 12);

	return (struct weir_steal_task){.duration = 0.01 + weir_prng_below(random, 300) / 100.0,
		.transfer =
			weir_prng_below(random, 3) == 0 ? -1 : weir_prng_below(random, 100) / 50.0,
		.allowed = set < 3 ? &sets[set] : NULL,
		.loose = weir_prng_below(random, 2) == 0,
		.fixed = weir_prng_below(random, 20) == 0};
}

static void change_a_task(struct model *model, struct weir_prng *random) {
	uint32_t task = weir_prng_below(random, TASKS);

	if (model->owner[task] == WEIR_STEAL_NO_WORKER) {
		model->owner[task] = weir_prng_below(random, 2) == 0
					     ? weir_prng_below(random, WORKERS)
					     : weir_prng_below(random, 2);
		model->what[task] = some_task(random);
		model->begun[task] = model->refused[task] = false;
		weir_steal_plan_put(model->plan, task, model->owner[task], &model->what[task]);
		return;
	}
	switch (weir_prng_below(random, 3)) {
	case 0:
		weir_steal_plan_begin(model->plan, task);
		model->begun[task] = true;
		break;
	case 1:
		model->what[task] = some_task(random);
		model->refused[task] = false;
		weir_steal_plan_update(model->plan, task, &model->what[task]);
		break;
	default:
		weir_steal_plan_remove(model->plan, task);
		model->owner[task] = WEIR_STEAL_NO_WORKER;
		model->requests[task].id = 0;
	}
}

static void answer_a_request(struct model *model, struct weir_prng *random, double now) {
	uint32_t task = weir_prng_below(random, TASKS);
	enum weir_steal_answer answer = weir_prng_below(random, 3);
	bool alive = weir_prng_below(random, 4) != 0;
	struct weir_steal_request *request = &model->requests[task];
	enum weir_steal_outcome outcome =
		weir_steal_plan_answer(model->plan, task, request->id, answer, alive, now);

	if (request->id == 0) {
		assert_int_equal(outcome, WEIR_STEAL_LATE);
		return;
	}
	request->id = 0;
	if (answer == WEIR_STEAL_RUNNING) {
		assert_int_equal(outcome, WEIR_STEAL_STAYED);
		model->refused[task] = true;
	} else if (answer == WEIR_STEAL_UNKNOWN || !alive) {
		assert_int_equal(outcome, WEIR_STEAL_HOMELESS);
		model->owner[task] = WEIR_STEAL_NO_WORKER;
	} else {
		assert_int_equal(outcome, WEIR_STEAL_MOVED);
		model->owner[task] = request->thief;
	}
}

static void note_request(struct model *model, const struct weir_steal_request *r) {
	const struct weir_steal_task *what = &model->what[r->task];

	assert_int_equal(model->requests[r->task].id, 0);
	assert_int_equal(model->owner[r->task], r->victim);
	assert_int_not_equal(r->victim, r->thief);
	assert_false(what->fixed || model->begun[r->task] || model->refused[r->task]);
	assert_true(what->allowed == NULL || what->loose || (*what->allowed >> r->thief & 1) != 0);
	assert_true(weir_steal_plan_is_idle(model->plan, r->thief));
	assert_true(r->thief_occupancy + what->duration < r->victim_occupancy);
	model->requests[r->task] = *r;
}

static void check_sums(const struct model *model) {
	double occupancy[WORKERS] = {0}, correction[WORKERS] = {0};
	uint32_t in_flight = 0;

	for (uint32_t i = 0; i < TASKS; i++) {
		assert_int_equal(weir_steal_plan_owner(model->plan, i), model->owner[i]);
		if (model->owner[i] != WEIR_STEAL_NO_WORKER) {
			occupancy[model->owner[i]] += model->what[i].duration;
		}
		in_flight += model->requests[i].id != 0;
	}
	assert_int_equal(weir_steal_plan_in_flight(model->plan), in_flight);
	for (uint32_t i = 0; i < WORKERS; i++) {
		double off = weir_steal_plan_occupancy(model->plan, i) - occupancy[i];

		assert_true(fabs(off) < 1e-6);
		correction[i] = weir_steal_plan_correction(model->plan, i);
		assert_true(in_flight > 0 || correction[i] == 0);
	}
}

// Two plans get the same input. One plan finds thieves with its heap, and the other plan scans all
// workers.
TEST(long_run_equals_a_model) {
	const struct weir_steal_params params = weir_steal_params_dask();
	struct weir_prng random[2] = {{1}, {1}};
	struct weir_steal_request requests[2][TASKS];
	struct model *models = calloc(2, sizeof(*models));
	uint32_t n[2], total = 0;

	for (int m = 0; m < 2; m++) {
		models[m].plan = begin(&params, WORKERS);
		for (uint32_t i = 0; i < TASKS; i++) {
			models[m].owner[i] = WEIR_STEAL_NO_WORKER;
		}
	}
	weir_steal_plan_set_transfer(models[1].plan, same_everywhere, &models[1]);
	for (int step = 0; step < 20000; step++) {
		for (int m = 0; m < 2; m++) {
			change_a_task(&models[m], &random[m]);
			answer_a_request(&models[m], &random[m], step);
			n[m] = step % 3 == 0 ? weir_steal_plan_balance(
						       models[m].plan, step, requests[m], TASKS)
					     : 0;
			for (uint32_t i = 0; i < n[m]; i++) {
				note_request(&models[m], &requests[m][i]);
			}
		}
		assert_int_equal(n[0], n[1]);
		for (uint32_t i = 0; i < n[0]; i++) {
			assert_int_equal(requests[0][i].task, requests[1][i].task);
			assert_int_equal(requests[0][i].thief, requests[1][i].thief);
		}
		total += n[0];
		if (step % 50 == 0) {
			check_sums(&models[0]);
			check_sums(&models[1]);
		}
	}
	assert_true(total > 1000);
	weir_steal_plan_free(models[0].plan);
	weir_steal_plan_free(models[1].plan);
	free(models);
}

static double seconds(void) {
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Insertion and removal are O(1). With 100,000 tasks they cost as much as with 1,000 tasks, except
// for cache effects. A search in a list would cost a hundred times as much.
TEST(insert_and_remove_do_not_depend_on_the_number) {
	const uint32_t counts[] = {1000, 100000};
	const struct weir_steal_params params = weir_steal_params_dask();
	double each[2];

	for (int c = 0; c < 2; c++) {
		uint32_t rounds = 400000 / counts[c];
		struct weir_steal_plan *plan;
		double since;

		assert_int_equal(weir_steal_plan_create(&params, 4, counts[c], &plan), 0);
		since = seconds();
		for (uint32_t round = 0; round < rounds; round++) {
			for (uint32_t i = 0; i < counts[c]; i++) {
				weir_steal_plan_put(plan, i, 0, &one_second);
			}
			for (uint32_t i = 0; i < counts[c]; i++) {
				weir_steal_plan_remove(
					plan, (uint32_t)((uint64_t)i * 7919 % counts[c]));
			}
		}
		each[c] = (seconds() - since) / rounds / counts[c];
		weir_steal_plan_free(plan);
	}
	printf("insert and remove: %.0f ns of %u tasks, %.0f ns of %u\n", each[0] * 1e9, counts[0],
		each[1] * 1e9, counts[1]);
	assert_true(each[1] < each[0] * 30);
}

// Returns the time that a plan with `requests` requests takes. Each task is restricted to half of
// the thieves.
static double time_of_plan(uint32_t requests) {
	const struct weir_steal_params params = weir_steal_params_dask();
	struct weir_steal_request planned[TASKS];
	struct weir_steal_task what = one_second;
	struct weir_steal_plan *plan;
	uint64_t *allowed = malloc(MANY_WORKERS / 8);
	double since;

	assert_non_null(allowed);
	memset(allowed, 0x55, MANY_WORKERS / 8);
	what.allowed = allowed;
	assert_int_equal(weir_steal_plan_create(&params, MANY_WORKERS, TASKS, &plan), 0);
	for (uint32_t i = 0; i < MANY_WORKERS; i++) {
		weir_steal_plan_worker(plan, i, 1, true, 0);
	}
	put(plan, 0, TASKS, 0, &what);
	since = seconds();
	assert_int_equal(weir_steal_plan_balance(plan, 0, planned, requests), requests);
	since = seconds() - since;
	weir_steal_plan_free(plan);
	free(allowed);
	return since;
}

// A plan evaluates all workers only once, and not once for each request, because control cannot
// process reports while it plans.
TEST(plan_evaluates_all_workers_once) {
	double one, many;

	(void)time_of_plan(1); // warm up, because the memory is new
	one = time_of_plan(1);
	many = time_of_plan(100);
	printf("plan with %u workers: %.1f ms for 1 request, %.1f ms for 100\n", MANY_WORKERS,
		one * 1e3, many * 1e3);
	assert_true(many < one * 10);
}
