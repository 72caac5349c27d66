// SPDX-License-Identifier: BSD-3-Clause
//
// Measures the cost of a tick of work stealing in weir-control. For requests at backends, only the
// planner is measured (policy/steal_plan.h). For the buckets of workers, all code of
// control/daemon/load is measured. Prints medians of many ticks. In cases with even load, no task
// moves. In cases with uneven load, the first worker gets its tasks (or their load) back before
// every tick.
//
// usage: steal_cost [--once | CASE TICKS]
//
// --once: a short run of all cases, to check that they work.
//
// CASE TICKS: run only this case, for this number of ticks, to count instructions with
// valgrind --tool=callgrind --collect-atstart=no --toggle-collect=tick
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bucket_moves.h"
#include "steal_plan.h"

#define TICKS 301u
#define TICKS_MAX 100000u
#define REQUESTS 1000u
#define INTERVAL_S 0.1
#define CYCLES 100000000u // cycles of a worker in a tick

static const struct cost_case {
	const char *name;
	uint32_t workers, tasks; // tasks 0: the tasks are buckets of workers
	bool uneven;
} cases[] = {
	{"buckets-2-even", 2, 0, false},
	{"buckets-4-even", 4, 0, false},
	{"buckets-4-uneven", 4, 0, true},
	{"buckets-64-even", 64, 0, false},
	{"buckets-64-uneven", 64, 0, true},
	{"requests-100-even", 20, 100, false},
	{"requests-100-uneven", 20, 100, true},
	{"requests-1000-even", 100, 1000, false},
	{"requests-1000-uneven", 100, 1000, true},
	{"requests-10000-even", 1000, 10000, false},
	{"requests-10000-uneven", 1000, 10000, true},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

struct bench {
	const struct cost_case *what;
	double now;
	uint64_t requested;
	struct weir_steal_plan *plan;
	struct weir_steal_request requests[REQUESTS];
	uint32_t request_count;
	struct weir_bucket_moves *moves;
	struct weir_bucket_look look;
};

// --- measured functions ------------------------------------------------------------------

static void tick_requests(struct bench *bench) {
	const struct weir_steal_task what = {.duration = 0.015, .transfer = 0.002};

	for (uint32_t i = 0; i < bench->what->tasks; i++) {
		weir_steal_plan_update(bench->plan, i, &what);
	}
	bench->request_count =
		weir_steal_plan_balance(bench->plan, bench->now, bench->requests, REQUESTS);
}

static void tick_buckets(struct bench *bench) {
	struct weir_bucket_request request;

	weir_bucket_moves_tick(bench->moves, &bench->look, true, bench->now);
	while (weir_bucket_moves_next(bench->moves, &request)) {
		bench->requested++;
		weir_bucket_moves_answer(
			bench->moves, request.bucket, request.id, false, bench->now);
	}
}

__attribute__((noinline)) static void tick(struct bench *bench) {
	if (bench->what->tasks > 0) {
		tick_requests(bench);
	} else {
		tick_buckets(bench);
	}
}

// --- between ticks ----------------------------------------------------------------------------

// All victims refuse the requests, so that the next tick has the same input.
static void refuse_requests(struct bench *bench) {
	for (uint32_t i = 0; i < bench->request_count; i++) {
		weir_steal_plan_answer(bench->plan, bench->requests[i].task, bench->requests[i].id,
			WEIR_STEAL_RUNNING, true, bench->now);
	}
	bench->requested += bench->request_count;
	bench->request_count = 0;
}

static void pass_time(struct bench *bench) {
	uint32_t workers = bench->what->tasks > 0 ? 0 : bench->what->workers;

	bench->now += INTERVAL_S;
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		bench->look.packets[i] +=
			bench->what->uneven && bench->look.owner[i] == 0 ? 3000 : 1000;
	}
	for (uint32_t i = 0; i < workers; i++) {
		uint64_t busy = CYCLES / 4 * (bench->what->uneven && i == 0 ? 3 : 1);

		bench->look.worker[i].busy_cycles += busy;
		bench->look.worker[i].idle_cycles += CYCLES - busy;
	}
}

// --- life ---------------------------------------------------------------------------------

static int begin_requests(struct bench *bench) {
	const struct weir_steal_task what = {.duration = 0.015, .transfer = 0.002};
	struct weir_steal_params params = weir_steal_params_dask();
	uint32_t workers = bench->what->workers;
	int r = weir_steal_plan_create(&params, workers, bench->what->tasks, &bench->plan);

	for (uint32_t i = 0; r == 0 && i < workers; i++) {
		weir_steal_plan_worker(bench->plan, i, 4, true, 0);
	}
	for (uint32_t i = 0; r == 0 && workers > 0 && i < bench->what->tasks; i++) {
		weir_steal_plan_put(
			bench->plan, i, bench->what->uneven && i % 2 == 0 ? 0 : i % workers, &what);
	}
	return r;
}

static int begin_buckets(struct bench *bench) {
	uint32_t workers = bench->what->workers > 0 ? bench->what->workers : 1;

	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		bench->look.owner[i] = i % workers;
	}
	for (uint32_t i = 0; i < workers; i++) {
		bench->look.worker[i].alive = true;
	}
	return weir_bucket_moves_create(workers, &bench->look, &bench->moves);
}

static int compare(const void *left, const void *right) {
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static uint64_t now_ns(void) {
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Returns whether the case worked as intended: an uneven case must make requests, an even case must
// not.
static bool run(const struct cost_case *what, uint32_t ticks) {
	struct bench *bench = calloc(1, sizeof(*bench));
	uint64_t *took = calloc(ticks, sizeof(*took));
	bool good = bench != NULL && took != NULL;

	if (good) {
		bench->what = what;
		good = (what->tasks > 0 ? begin_requests(bench) : begin_buckets(bench)) == 0;
	}
	for (uint32_t i = 0; good && i < ticks; i++) {
		uint64_t begin;

		pass_time(bench);
		begin = now_ns();
		tick(bench);
		took[i] = now_ns() - begin;
		refuse_requests(bench);
	}
	if (good) {
		uint32_t middle = ticks / 2;

		qsort(took, ticks, sizeof(*took), compare);
		printf("%-22s %8" PRIu32 " %8" PRIu32 " %10.1f %10.1f\n", what->name, what->workers,
			what->tasks > 0 ? what->tasks : WEIR_BUCKETS, (double)took[middle] / 1000,
			(double)bench->requested / ticks);
		good = (bench->requested > 0) == what->uneven;
		weir_steal_plan_free(bench->plan);
		weir_bucket_moves_free(bench->moves);
	}
	free(took);
	free(bench);
	return good;
}

int main(int argc, char **argv) {
	bool once = argc == 2 && strcmp(argv[1], "--once") == 0;
	uint32_t ticks = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : once ? 5 : TICKS;
	const char *only = argc == 3 ? argv[1] : NULL;
	uint32_t ran = 0;

	if (argc > 3 || (argc == 2 && !once) || ticks == 0 || ticks > TICKS_MAX) {
		fprintf(stderr, "usage: steal_cost [--once | CASE TICKS]\n");
		return 2;
	}
	printf("%-22s %8s %8s %10s %10s\n", "case", "workers", "tasks", "us a tick", "asked");
	for (size_t i = 0; i < CASES; i++) {
		if (only != NULL && strcmp(only, cases[i].name) != 0) {
			continue;
		}
		ran++;
		if (!run(&cases[i], ticks)) {
			fprintf(stderr, "steal_cost: %s did not do what it is for\n",
				cases[i].name);
			return EXIT_FAILURE;
		}
	}
	if (ran == 0) {
		fprintf(stderr, "steal_cost: %s: there is no such case\n", only);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
