// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <math.h>
#include <stddef.h>

#include "poolifier_private.h"

// --- what the strategies share --------------------------------------------------------------

static bool is_ready(const struct weir_poolifier *pool, int key) {
	return key >= 0 && (uint32_t)key < pool->count && pool->workers[key]->ready;
}

static bool has(const struct weir_poolifier_affinity *set, int key) {
	for (uint32_t i = 0; i < set->count; i++) {
		if ((int)set->keys[i] == key) {
			return true;
		}
	}
	return false;
}

static bool is_eligible(
	const struct weir_poolifier *pool, const struct weir_poolifier_affinity *set, int key) {
	return is_ready(pool, key) && (set->keys == NULL || has(set, key));
}

static int only_one(const struct weir_poolifier *pool, const struct weir_poolifier_affinity *set) {
	return is_ready(pool, (int)set->keys[0]) ? (int)set->keys[0] : WEIR_POOLIFIER_NO_KEY;
}

static int cursor(const struct weir_poolifier *pool) {
	return pool->next != WEIR_POOLIFIER_NO_KEY ? pool->next : pool->previous;
}

static int next_in_turn(const struct weir_poolifier *pool) {
	return pool->next == (int)pool->count - 1 ? 0 : cursor(pool) + 1;
}

static int next_of_set(struct weir_poolifier *pool, const struct weir_poolifier_affinity *set) {
	for (uint32_t i = 0; i < pool->count; i++) {
		pool->next = next_in_turn(pool);
		if (has(set, pool->next)) {
			return pool->next;
		}
	}
	return WEIR_POOLIFIER_NO_KEY;
}

static void keep_previous(struct weir_poolifier *pool) {
	if (pool->next >= 0 && pool->next < (int)pool->count) {
		pool->previous = pool->next;
	}
}

static double estimate(const struct weir_poolifier_measure *measure, bool median) {
	double value = median ? measure->median : measure->average;

	return isnan(value) ? 0 : value;
}

static double run_and_wait(const struct weir_poolifier *pool, int key) {
	const struct weir_poolifier_usage *usage = &pool->workers[key]->usage;

	return estimate(&usage->wait, pool->options.wait_median) +
	       estimate(&usage->run, pool->options.run_median);
}

// --- strategies: each returns a key or WEIR_POOLIFIER_NO_KEY, which costs a retry
// -----------------------------

static int choose_round_robin(
	struct weir_poolifier *pool, const struct weir_poolifier_affinity *set) {
	int key;

	keep_previous(pool);
	if (set->keys == NULL) {
		pool->next = next_in_turn(pool);
		key = pool->next;
	} else if (set->count == 1) {
		key = only_one(pool, set);
		pool->next = key != WEIR_POOLIFIER_NO_KEY ? key : pool->next;
	} else {
		key = next_of_set(pool, set);
	}
	return is_eligible(pool, set, key) ? key : WEIR_POOLIFIER_NO_KEY;
}

static double weight_of(const struct weir_poolifier *pool, int key) {
	return key >= 0 && (uint32_t)key < pool->weight_count ? pool->weights[key] : NAN;
}

static double cost_of(const struct weir_poolifier *pool, int key) {
	return key >= 0 && (uint32_t)key < pool->count ? run_and_wait(pool, key) : 0;
}

static int choose_weighted(struct weir_poolifier *pool, const struct weir_poolifier_affinity *set) {
	int key = cursor(pool);

	keep_previous(pool);
	if (set->keys != NULL && set->count == 1) {
		key = only_one(pool, set);
		if (key != WEIR_POOLIFIER_NO_KEY) {
			pool->next = key;
			pool->spent = 0;
		}
		return key;
	}
	if ((set->keys == NULL || has(set, key)) && pool->spent < weight_of(pool, key)) {
		pool->next = key;
		pool->spent += cost_of(pool, key);
	} else {
		pool->next = set->keys == NULL ? next_in_turn(pool) : next_of_set(pool, set);
		pool->spent = 0;
	}
	return is_eligible(pool, set, pool->next) ? pool->next : WEIR_POOLIFIER_NO_KEY;
}

static void advance_interleaved(struct weir_poolifier *pool) {
	if (pool->at < (int)pool->count - 1) {
		pool->at++;
		return;
	}
	pool->at = 0;
	pool->round = pool->round + 1 < pool->round_count ? pool->round + 1 : 0;
}

static int choose_interleaved(
	struct weir_poolifier *pool, const struct weir_poolifier_affinity *set) {
	if (set->keys != NULL && set->count == 1) {
		return only_one(pool, set);
	}
	for (; pool->round < pool->round_count; pool->round++) {
		for (int key = pool->at; key < (int)pool->count; key++) {
			double weight = weight_of(pool, key);

			pool->at = key;
			if (key != pool->next) {
				pool->spent = 0;
			}
			if (is_eligible(pool, set, key) && weight >= pool->rounds[pool->round] &&
				pool->spent < weight) {
				pool->spent += run_and_wait(pool, key);
				keep_previous(pool);
				pool->next = key;
				return key;
			}
		}
	}
	pool->round = pool->round_count - 1;
	advance_interleaved(pool);
	return WEIR_POOLIFIER_NO_KEY;
}

static double used(const struct weir_poolifier *pool, int key) {
	return (double)pool->workers[key]->usage.executing + pool->workers[key]->usage.queued;
}

static double busy(const struct weir_poolifier *pool, int key) {
	return pool->workers[key]->usage.wait.aggregate + pool->workers[key]->usage.run.aggregate;
}

static double elu(const struct weir_poolifier *pool, int key) {
	return pool->workers[key]->usage.wait.aggregate +
	       pool->workers[key]->usage.elu_active.aggregate;
}

void weir_poolifier_charge(struct weir_poolifier *pool, int key, double now_ms) {
	struct weir_poolifier_worker *worker = pool->workers[key];
	const struct weir_poolifier_options *options = &pool->options;
	double start = worker->virtual_end > now_ms ? worker->virtual_end : now_ms;

	worker->virtual_end =
		start +
		(estimate(&worker->usage.wait, options->wait_median) +
			(options->measure_elu
					? estimate(&worker->usage.elu_active, options->elu_median)
					: estimate(&worker->usage.run, options->run_median)));
}

static int choose_least(struct weir_poolifier *pool, const struct weir_poolifier_affinity *set,
	double (*load)(const struct weir_poolifier *pool, int key)) {
	int least = WEIR_POOLIFIER_NO_KEY;

	keep_previous(pool);
	if (set->keys != NULL && set->count == 1) {
		pool->next = only_one(pool, set);
		return pool->next;
	}
	for (int key = 0; key < (int)pool->count; key++) {
		if (is_eligible(pool, set, key) &&
			(least == WEIR_POOLIFIER_NO_KEY || load(pool, key) < load(pool, least))) {
			least = key;
		}
	}
	pool->next = least;
	return least;
}

static double virtual_end(const struct weir_poolifier *pool, int key) {
	return pool->workers[key]->virtual_end;
}

static int choose_fair_share(
	struct weir_poolifier *pool, const struct weir_poolifier_affinity *set, double now_ms) {
	bool scans = set->keys == NULL || set->count > 1;

	for (int key = 0; scans && key < (int)pool->count; key++) {
		if (is_eligible(pool, set, key) && isnan(pool->workers[key]->virtual_end)) {
			weir_poolifier_charge(pool, key, now_ms);
		}
	}
	return choose_least(pool, set, virtual_end);
}

static int choose_once(
	struct weir_poolifier *pool, const struct weir_poolifier_affinity *set, double now_ms) {
	if (set->keys != NULL && set->count == 0) {
		return WEIR_POOLIFIER_NO_KEY;
	}
	switch (pool->options.strategy) {
	case WEIR_POOLIFIER_ROUND_ROBIN:
		return choose_round_robin(pool, set);
	case WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN:
		return choose_weighted(pool, set);
	case WEIR_POOLIFIER_INTERLEAVED_WEIGHTED_ROUND_ROBIN:
		return choose_interleaved(pool, set);
	case WEIR_POOLIFIER_LEAST_USED:
		return choose_least(pool, set, used);
	case WEIR_POOLIFIER_LEAST_BUSY:
		return choose_least(pool, set, busy);
	case WEIR_POOLIFIER_LEAST_ELU:
		return choose_least(pool, set, elu);
	case WEIR_POOLIFIER_FAIR_SHARE:
		return choose_fair_share(pool, set, now_ms);
	case WEIR_POOLIFIER_STRATEGY_COUNT:
		break;
	}
	return WEIR_POOLIFIER_NO_KEY;
}

int weir_poolifier_choose(struct weir_poolifier *pool, const uint32_t *set, uint32_t set_count,
	double now_ms, uint32_t *ret_retries) {
	const struct weir_poolifier_affinity affinity = {.keys = set, .count = set_count};
	uint32_t budget = weir_poolifier_retry_budget(pool);
	uint32_t retries = 0;
	int key = choose_once(pool, &affinity, now_ms);

	while (key == WEIR_POOLIFIER_NO_KEY && retries < budget) {
		retries++;
		key = choose_once(pool, &affinity, now_ms);
	}
	*ret_retries = retries;
	if (key == WEIR_POOLIFIER_NO_KEY) {
		return -EAGAIN;
	}
	if (pool->options.strategy == WEIR_POOLIFIER_FAIR_SHARE && pool->options.charge_at_choice) {
		weir_poolifier_charge(pool, key, now_ms);
	}
	return key;
}
