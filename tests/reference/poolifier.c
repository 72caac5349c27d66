// SPDX-License-Identifier: BSD-3-Clause
#include "poolifier.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "poolifier_private.h"

#define UNKNOWN_MHZ 2000

static const char *const names[] = {
#define X(name, key) [WEIR_POOLIFIER_##name] = (key),
	WEIR_POOLIFIER_STRATEGIES(X)
#undef X
};

const char *weir_poolifier_name(enum weir_poolifier_strategy strategy) {
	return (unsigned int)strategy < WEIR_POOLIFIER_STRATEGY_COUNT ? names[strategy] : NULL;
}

int weir_poolifier_parse(const char *name) {
	for (int strategy = 0; strategy < WEIR_POOLIFIER_STRATEGY_COUNT; strategy++) {
		if (strcmp(name, names[strategy]) == 0) {
			return strategy;
		}
	}
	return -EINVAL;
}

// 1 / (speed in units of its leading digit) in those units, averaged. The order of the operations
// is the original's: another one rounds differently.
double weir_poolifier_weight(const uint32_t *speeds_mhz, uint32_t n) {
	uint32_t known = 0;
	double sum = 0;

	for (uint32_t i = 0; i < n && known == 0; i++) {
		known = speeds_mhz[i];
	}
	known = known > 0 ? known : UNKNOWN_MHZ;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t speed = speeds_mhz[i] > 0 ? speeds_mhz[i] : known;
		double unit = 1;

		for (uint32_t rest = speed; rest >= 10; rest /= 10) {
			unit *= 10;
		}
		sum += 1 / (speed / unit) * unit;
	}
	return n > 0 ? floor(sum / n + 0.5) : 0;
}

// --- pool -----------------------------------------------------------------------------------

static void free_worker(struct weir_poolifier_worker *worker) {
	if (worker == NULL) {
		return;
	}
	weir_poolifier_history_fini(&worker->run);
	weir_poolifier_history_fini(&worker->wait);
	weir_poolifier_history_fini(&worker->elu_active);
	weir_poolifier_history_fini(&worker->elu_idle);
	free(worker);
}

static struct weir_poolifier_worker *create_worker(const struct weir_poolifier_options *options) {
	struct weir_poolifier_worker *worker = calloc(1, sizeof(*worker));

	if (worker == NULL) {
		return NULL;
	}
	if (weir_poolifier_history_init(&worker->run, options) < 0 ||
		weir_poolifier_history_init(&worker->wait, options) < 0 ||
		weir_poolifier_history_init(&worker->elu_active, options) < 0 ||
		weir_poolifier_history_init(&worker->elu_idle, options) < 0) {
		free_worker(worker);
		return NULL;
	}
	weir_poolifier_measure_init(&worker->usage.run);
	weir_poolifier_measure_init(&worker->usage.wait);
	weir_poolifier_measure_init(&worker->usage.elu_active);
	weir_poolifier_measure_init(&worker->usage.elu_idle);
	worker->virtual_end = NAN;
	worker->ready = true;
	return worker;
}

static int compare_doubles(const void *left, const void *right) {
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void make_rounds(struct weir_poolifier *pool) {
	memcpy(pool->rounds, pool->weights, pool->weight_count * sizeof(pool->rounds[0]));
	qsort(pool->rounds, pool->weight_count, sizeof(pool->rounds[0]), compare_doubles);
	for (uint32_t i = 0; i < pool->weight_count; i++) {
		if (i == 0 || pool->rounds[i] != pool->rounds[pool->round_count - 1]) {
			pool->rounds[pool->round_count++] = pool->rounds[i];
		}
	}
}

static void make_weights(struct weir_poolifier *pool, const double *weights_ms) {
	const uint32_t speed = UNKNOWN_MHZ;

	for (uint32_t i = 0; i < pool->weight_count; i++) {
		pool->weights[i] =
			weights_ms != NULL ? weights_ms[i] : weir_poolifier_weight(&speed, 1);
	}
	make_rounds(pool);
}

struct weir_poolifier *weir_poolifier_create(const struct weir_poolifier_options *options) {
	struct weir_poolifier *pool;

	if ((unsigned int)options->strategy >= WEIR_POOLIFIER_STRATEGY_COUNT ||
		options->workers == 0) {
		return NULL;
	}
	pool = calloc(1, sizeof(*pool));
	if (pool == NULL) {
		return NULL;
	}
	pool->options = *options;
	pool->options.weights_ms = NULL;
	pool->options.window = options->window > 0 ? options->window : WEIR_POOLIFIER_WINDOW;
	pool->needs = weir_poolifier_requirements_of(&pool->options);
	pool->weight_count = options->workers;
	pool->workers = calloc(options->workers, sizeof(struct weir_poolifier_worker *));
	pool->weights = calloc(options->workers, sizeof(pool->weights[0]));
	pool->rounds = calloc(options->workers, sizeof(pool->rounds[0]));
	if (pool->workers == NULL || pool->weights == NULL || pool->rounds == NULL) {
		goto free_pool;
	}
	make_weights(pool, options->weights_ms);
	for (; pool->count < options->workers; pool->count++) {
		pool->workers[pool->count] = create_worker(&pool->options);
		if (pool->workers[pool->count] == NULL) {
			goto free_pool;
		}
	}
	return pool;

free_pool:
	weir_poolifier_free(pool);
	return NULL;
}

void weir_poolifier_free(struct weir_poolifier *pool) {
	if (pool == NULL) {
		return;
	}
	for (uint32_t i = 0; pool->workers != NULL && i < pool->count; i++) {
		free_worker(pool->workers[i]);
	}
	free(pool->rounds);
	free(pool->weights);
	free(pool->workers);
	free(pool);
}

uint32_t weir_poolifier_workers(const struct weir_poolifier *pool) {
	return pool->count;
}

// The pool's largest size and the number of weights: with all healthy it is never reached, with one
// worker not ready it may be.
uint32_t weir_poolifier_retry_budget(const struct weir_poolifier *pool) {
	return pool->options.workers + pool->weight_count;
}

const struct weir_poolifier_usage *weir_poolifier_usage(
	const struct weir_poolifier *pool, uint32_t key) {
	return &pool->workers[key]->usage;
}

double weir_poolifier_virtual_end(const struct weir_poolifier *pool, uint32_t key) {
	return pool->workers[key]->virtual_end;
}

void weir_poolifier_set_ready(struct weir_poolifier *pool, uint32_t key, bool ready) {
	pool->workers[key]->ready = ready;
}

void weir_poolifier_set_executing(struct weir_poolifier *pool, uint32_t key, uint32_t executing) {
	pool->workers[key]->usage.executing = executing;
}

// --- tasks ------------------------------------------------------------------------------------

void weir_poolifier_queued(struct weir_poolifier *pool, uint32_t key) {
	pool->workers[key]->usage.queued++;
}

void weir_poolifier_started(struct weir_poolifier *pool, uint32_t key, double submit_ms,
	double now_ms, bool was_queued) {
	struct weir_poolifier_worker *worker = pool->workers[key];

	worker->usage.queued -= was_queued && worker->usage.queued > 0;
	worker->usage.executing++;
	weir_poolifier_measure_add(
		&worker->usage.wait, &worker->wait, &pool->needs.wait, now_ms - submit_ms);
}

static void add_utilization(struct weir_poolifier_usage *usage, double utilization) {
	uint64_t before = usage->utilization_count++;

	usage->utilization = (usage->utilization * (double)before + utilization) /
			     (double)usage->utilization_count;
}

void weir_poolifier_finished(struct weir_poolifier *pool, uint32_t key,
	const struct weir_poolifier_task *task, double now_ms) {
	struct weir_poolifier_worker *worker = pool->workers[key];
	struct weir_poolifier_usage *usage = &worker->usage;

	usage->executing -= usage->executing > 0;
	if (task->failed) {
		usage->failed++;
	} else {
		usage->executed++;
		weir_poolifier_measure_add(
			&usage->run, &worker->run, &pool->needs.run, task->run_ms);
		weir_poolifier_measure_add(&usage->elu_active, &worker->elu_active,
			&pool->needs.elu, task->elu_active_ms);
		weir_poolifier_measure_add(
			&usage->elu_idle, &worker->elu_idle, &pool->needs.elu, task->elu_idle_ms);
		if (pool->needs.elu.aggregate && !isnan(task->utilization)) {
			add_utilization(usage, task->utilization);
		}
	}
	if (pool->options.strategy == WEIR_POOLIFIER_FAIR_SHARE &&
		!pool->options.charge_at_choice) {
		weir_poolifier_charge(pool, (int)key, now_ms);
	}
}

void weir_poolifier_sample(struct weir_poolifier *pool, uint32_t key, double run_ms, double wait_ms,
	double elu_active_ms) {
	struct weir_poolifier_worker *worker = pool->workers[key];

	weir_poolifier_measure_add(&worker->usage.run, &worker->run, &pool->needs.run, run_ms);
	weir_poolifier_measure_add(&worker->usage.wait, &worker->wait, &pool->needs.wait, wait_ms);
	weir_poolifier_measure_add(
		&worker->usage.elu_active, &worker->elu_active, &pool->needs.elu, elu_active_ms);
}

// --- members ------------------------------------------------------------------------------------

static int shifted(const struct weir_poolifier *pool, int value, uint32_t removed) {
	int count = (int)pool->count;

	return value >= (int)removed ? (value - 1 + count) % count : value;
}

static void shift_cursors(struct weir_poolifier *pool, uint32_t removed) {
	bool turns = pool->options.strategy == WEIR_POOLIFIER_ROUND_ROBIN ||
		     pool->options.strategy == WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN;
	bool interleaved =
		pool->options.strategy == WEIR_POOLIFIER_INTERLEAVED_WEIGHTED_ROUND_ROBIN;

	if (!turns && !interleaved) {
		return;
	}
	if (pool->options.strategy == WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN &&
		pool->next == (int)removed) {
		pool->spent = 0;
	}
	if (pool->next != WEIR_POOLIFIER_NO_KEY && pool->next >= (int)removed) {
		pool->next = shifted(pool, pool->next, removed);
		pool->previous =
			turns && pool->previous >= (int)removed ? pool->next : pool->previous;
	}
	if (interleaved) {
		pool->at = shifted(pool, pool->at, removed);
	}
}

void weir_poolifier_remove(struct weir_poolifier *pool, uint32_t key) {
	free_worker(pool->workers[key]);
	pool->count--;
	memmove(pool->workers + key, pool->workers + key + 1,
		(pool->count - key) * sizeof(struct weir_poolifier_worker *));
	if (pool->count == 0) {
		pool->next = 0;
		pool->previous = 0;
		pool->at = 0;
		pool->spent = 0;
		return;
	}
	shift_cursors(pool, key);
	// The original tells the strategy after the array has moved, so that the worker that took
	// the place loses its virtual end.
	if (pool->options.strategy == WEIR_POOLIFIER_FAIR_SHARE && key < pool->count) {
		pool->workers[key]->virtual_end = NAN;
	}
}

// A worker without a sum counts as endless.
static void inherit(struct weir_poolifier *pool, struct weir_poolifier_worker *worker,
	const struct weir_poolifier_requirement *need,
	struct weir_poolifier_measure *(*measure)(struct weir_poolifier_worker *worker)) {
	double least = INFINITY;

	if (!need->aggregate) {
		return;
	}
	for (uint32_t i = 0; i < pool->count; i++) {
		const struct weir_poolifier_measure *other = measure(pool->workers[i]);

		least = other->has_aggregate && other->aggregate < least ? other->aggregate : least;
	}
	measure(worker)->aggregate = least;
	measure(worker)->has_aggregate = true;
}

static struct weir_poolifier_measure *run_of(struct weir_poolifier_worker *worker) {
	return &worker->usage.run;
}

static struct weir_poolifier_measure *wait_of(struct weir_poolifier_worker *worker) {
	return &worker->usage.wait;
}

static struct weir_poolifier_measure *elu_of(struct weir_poolifier_worker *worker) {
	return &worker->usage.elu_active;
}

int weir_poolifier_add(struct weir_poolifier *pool) {
	struct weir_poolifier_worker **workers =
		realloc(pool->workers, (pool->count + 1) * sizeof(struct weir_poolifier_worker *));
	struct weir_poolifier_worker *worker;

	if (workers == NULL) {
		return -ENOMEM;
	}
	pool->workers = workers;
	worker = create_worker(&pool->options);
	if (worker == NULL) {
		return -ENOMEM;
	}
	inherit(pool, worker, &pool->needs.run, run_of);
	inherit(pool, worker, &pool->needs.wait, wait_of);
	inherit(pool, worker, &pool->needs.elu, elu_of);
	pool->workers[pool->count] = worker;
	return (int)pool->count++;
}
