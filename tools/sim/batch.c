// SPDX-License-Identifier: BSD-3-Clause
#include "batch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "simulation.h"

#define RUN_STEPS 1000u // weir_sim_run raises the progress by this number in total
#define LOOK_MS 200u
#define PATIENCE_S 1.0 // progress is shown only after this time
#define BAR 30u
#define JOBS_MAX 256u

struct pool {
	const struct weir_sim_batch *batch;
	struct weir_sim_results *results;
	atomic_uint next; // index of the next run, which no thread has started yet
	atomic_ullong progress;
	atomic_int error;
	pthread_mutex_t lock; // protects `running`
	pthread_cond_t ended;
	uint32_t running;
};

void weir_sim_results_free(struct weir_sim_results *results) {
	if (results == NULL) {
		return;
	}
	for (uint32_t i = 0; results->result != NULL && i < results->count; i++) {
		weir_sim_result_free(results->result[i]);
	}
	free(results->result);
	free(results);
}

static void *work(void *context) {
	struct pool *pool = context;
	const struct weir_sim_batch *batch = pool->batch;

	while (atomic_load(&pool->error) == 0) {
		uint32_t run = atomic_fetch_add(&pool->next, 1);
		int r;

		if (run >= pool->results->count) {
			break;
		}
		r = weir_sim_run(&batch->file->variant[run / batch->seeds],
			batch->first_seed + run % batch->seeds, &pool->progress,
			&pool->results->result[run]);
		if (r < 0) {
			atomic_store(&pool->error, r);
		}
	}
	pthread_mutex_lock(&pool->lock);
	pool->running--;
	pthread_cond_signal(&pool->ended);
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

static double seconds_since(const struct timespec *then) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) * 1e-9;
}

static void show_progress(const struct pool *pool, double seconds) {
	double all = (double)pool->results->count * RUN_STEPS;
	double done = (double)atomic_load(&pool->progress) / all;
	char bar[BAR + 1];

	for (uint32_t i = 0; i < BAR; i++) {
		bar[i] = i < done * BAR ? '#' : '.';
	}
	bar[BAR] = '\0';
	fprintf(stderr, "\r[%s] %3.0f %%, %.0f s", bar, done * 100.0, seconds);
	if (done > 0.01) {
		fprintf(stderr, ", %.0f s left  ", seconds / done - seconds);
	}
	fflush(stderr);
}

static void wait_for_all(struct pool *pool) {
	struct timespec begin, until;
	bool shown = false;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	pthread_mutex_lock(&pool->lock);
	while (pool->running > 0) {
		double seconds = seconds_since(&begin);

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += LOOK_MS * 1000000l;
		until.tv_sec += until.tv_nsec / 1000000000l;
		until.tv_nsec %= 1000000000l;
		pthread_cond_timedwait(&pool->ended, &pool->lock, &until);
		if (pool->batch->show_progress && seconds > PATIENCE_S) {
			show_progress(pool, seconds);
			shown = true;
		}
	}
	pthread_mutex_unlock(&pool->lock);
	if (shown) {
		fprintf(stderr, "\r%*s\r", (int)BAR + 40, "");
	}
}

static int run_pool(struct pool *pool) {
	uint32_t jobs = pool->batch->jobs < JOBS_MAX ? pool->batch->jobs : JOBS_MAX;
	pthread_t thread[JOBS_MAX];
	pthread_condattr_t clock;
	uint32_t started = 0;

	jobs = jobs < pool->results->count ? jobs : pool->results->count;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&pool->ended, &clock);
	pthread_condattr_destroy(&clock);
	pool->running = jobs;
	while (started < jobs && pthread_create(&thread[started], NULL, work, pool) == 0) {
		started++;
	}
	pthread_mutex_lock(&pool->lock);
	pool->running -= jobs - started;
	pthread_mutex_unlock(&pool->lock);
	wait_for_all(pool);
	for (uint32_t i = 0; i < started; i++) {
		pthread_join(thread[i], NULL);
	}
	pthread_cond_destroy(&pool->ended);
	pthread_mutex_destroy(&pool->lock);
	return started == 0 ? -EAGAIN : atomic_load(&pool->error);
}

int weir_sim_batch_run(const struct weir_sim_batch *batch, struct weir_sim_results **ret) {
	struct weir_sim_results *results = calloc(1, sizeof(*results));
	struct pool pool = {.batch = batch, .results = results};
	int r;

	if (results == NULL) {
		return -ENOMEM;
	}
	results->first_seed = batch->first_seed;
	results->seeds = batch->seeds;
	results->count = batch->seeds * batch->file->variant_count;
	results->result = calloc(results->count, sizeof(struct weir_sim_result *));
	r = results->result == NULL ? -ENOMEM : run_pool(&pool);
	if (r == 0) {
		*ret = results;
	} else {
		weir_sim_results_free(results);
	}
	return r;
}
