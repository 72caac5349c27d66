// SPDX-License-Identifier: BSD-3-Clause
//
// Traces of poolifier that are lists of choices, with nothing finished in between.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay_poolifier.h"

#define START_MS 1000.0 // of the recorder's clock, unless told

struct trace {
	struct replay *replay;
	const json_t *vector;
	struct weir_poolifier *pool;
	enum weir_poolifier_strategy strategy;
	uint32_t *set;
	uint32_t set_count;
	double now_ms;
};

static const char keys[] =
	"strategy workers weights_ms estimated_cost_ms run_times_fed_each_worker wait_ms run_ms "
	"elu_active_ms option not_ready set initial_active now keys retries error result before "
	"removed after vt_end vt_end_after_each per_worker window";

// --- what the workers are known to cost
// -----------------------------------------------------------

static double element(const json_t *value, uint32_t worker) {
	return json_is_array(value) ? json_number_value(json_array_get(value, worker))
				    : json_number_value(value);
}

static bool is_numbers(const json_t *value, uint32_t count) {
	const json_t *number;
	size_t i;

	if (json_is_number(value)) {
		return true;
	}
	json_array_foreach (value, i, number) {
		if (!json_is_number(number)) {
			return false;
		}
	}
	return json_is_array(value) && json_array_size(value) == count;
}

// One number for all, or one for each.
static bool check_costs(struct trace *trace, const char *key) {
	const json_t *value = json_object_get(trace->vector, key);

	if (value != NULL && !is_numbers(value, weir_poolifier_workers(trace->pool))) {
		replay_fail(
			trace->replay, "\"%s\" is neither a number nor one for each worker", key);
		return false;
	}
	return value != NULL;
}

static void feed_run_times(struct trace *trace, uint32_t worker) {
	const json_t *list = json_object_get(trace->vector, "run_times_fed_each_worker");
	const json_t *value;
	size_t i;

	if (json_is_array(json_array_get(list, 0))) {
		list = json_array_get(list, worker);
	}
	json_array_foreach (list, i, value) {
		weir_poolifier_sample(trace->pool, worker, json_number_value(value), 0, 0);
	}
}

// The start of a fair share trace without costs: they are the first virtual ends, which nothing
// moves until something completes.
static void feed_virtual_ends(struct trace *trace) {
	const json_t *ends = json_object_get(trace->vector, "vt_end");

	for (uint32_t i = 0; i < weir_poolifier_workers(trace->pool); i++) {
		double end = json_number_value(json_array_get(ends, i));

		if (end > trace->now_ms) {
			weir_poolifier_sample(trace->pool, i, end - trace->now_ms, 0, 0);
		}
	}
}

static void feed(struct trace *trace) {
	const json_t *cost = json_object_get(trace->vector, "estimated_cost_ms");
	const json_t *run = json_object_get(trace->vector, "run_ms");
	const json_t *wait = json_object_get(trace->vector, "wait_ms");
	const json_t *elu = json_object_get(trace->vector, "elu_active_ms");
	bool any = check_costs(trace, "estimated_cost_ms");

	any = check_costs(trace, "run_ms") || any;
	any = check_costs(trace, "wait_ms") || any;
	any = check_costs(trace, "elu_active_ms") || any;
	for (uint32_t i = 0; any && i < weir_poolifier_workers(trace->pool); i++) {
		weir_poolifier_sample(trace->pool, i, element(cost != NULL ? cost : run, i),
			element(wait, i), element(elu != NULL ? elu : cost, i));
	}
	if (replay_has(trace->vector, "run_times_fed_each_worker")) {
		for (uint32_t i = 0; i < weir_poolifier_workers(trace->pool); i++) {
			feed_run_times(trace, i);
		}
	} else if (!any && replay_has(trace->vector, "vt_end")) {
		feed_virtual_ends(trace);
	}
}

// --- choices
// --------------------------------------------------------------------------------------

static void check_error(struct trace *trace, const char *expected, uint32_t retries) {
	char text[200];

	snprintf(text, sizeof(text),
		"Worker node key chosen by %s is null or undefined after %u retries (max: %u)",
		weir_poolifier_name(trace->strategy), retries,
		weir_poolifier_retry_budget(trace->pool));
	replay_check_text(trace->replay, "error", -1, expected, text);
}

static void check_ends(struct trace *trace, const char *what, const json_t *ends) {
	for (uint32_t i = 0; i < weir_poolifier_workers(trace->pool); i++) {
		const json_t *value = json_array_get(ends, i);
		double end = weir_poolifier_virtual_end(trace->pool, i);

		if (!json_is_number(value)) {
			replay_check(trace->replay, what, i, json_is_null(value), isnan(end) != 0);
		} else {
			replay_check_real(
				trace->replay, what, i, json_number_value(value), end, 1e-9);
		}
	}
}

static long choose(struct trace *trace, uint32_t *ret_retries) {
	int key = weir_poolifier_choose(
		trace->pool, trace->set, trace->set_count, trace->now_ms, ret_retries);

	if (key < 0) {
		return REPLAY_NONE;
	}
	// Counting strategies were recorded with the task started.
	if (trace->strategy == WEIR_POOLIFIER_LEAST_USED) {
		weir_poolifier_started(
			trace->pool, (uint32_t)key, trace->now_ms, trace->now_ms, false);
	}
	return key;
}

static void replay_list_of_choices(struct trace *trace, const char *what) {
	const json_t *list = replay_list(trace->replay, trace->vector, what);
	const json_t *retries = strcmp(what, "keys") == 0
					? replay_list(trace->replay, trace->vector, "retries")
					: NULL;
	const json_t *ends = strcmp(what, "keys") == 0 ? replay_list(trace->replay, trace->vector,
								 "vt_end_after_each")
						       : NULL;
	const char *error = replay_text(trace->replay, trace->vector, "error", NULL);
	const json_t *value;
	size_t i;

	json_array_foreach (list, i, value) {
		uint32_t took = 0;
		long got = choose(trace, &took);

		replay_check(trace->replay, what, (long)i, replay_key(trace->replay, value), got);
		if (i < json_array_size(retries)) {
			replay_check(trace->replay, "retries", (long)i,
				json_integer_value(json_array_get(retries, i)), took);
		}
		if (i < json_array_size(ends)) {
			check_ends(trace, "vt_end_after_each", json_array_get(ends, i));
		}
		if (error != NULL && got == REPLAY_NONE) {
			check_error(trace, error, took);
		}
	}
	if (retries != NULL && json_array_size(retries) != json_array_size(list)) {
		replay_fail(trace->replay, "retries and keys differ in length");
	}
	if (ends != NULL && json_array_size(ends) != json_array_size(list)) {
		replay_fail(trace->replay, "vt_end_after_each and keys differ in length");
	}
}

static void replay_result(struct trace *trace) {
	const json_t *result = json_object_get(trace->vector, "result");
	uint32_t retries = 0;
	const char *error;
	long got;

	if (result == NULL || !replay_known_keys(trace->replay, result, "key retries error")) {
		return;
	}
	got = choose(trace, &retries);
	if (replay_has(result, "key")) {
		replay_check(trace->replay, "result", -1,
			replay_key(trace->replay, json_object_get(result, "key")), got);
	}
	if (replay_has(result, "retries")) {
		replay_check(trace->replay, "retries", -1,
			json_integer_value(json_object_get(result, "retries")), retries);
	}
	error = replay_text(trace->replay, result, "error", NULL);
	if (error != NULL) {
		check_error(trace, error, retries);
	}
}

static void remove_workers(struct trace *trace) {
	const json_t *removed = json_object_get(trace->vector, "removed");
	size_t n = json_is_array(removed) ? json_array_size(removed) : removed != NULL;

	for (size_t i = 0; i < n; i++) {
		const json_t *value = json_is_array(removed) ? json_array_get(removed, i) : removed;
		long key = replay_key(trace->replay, value);

		if (key < 0 || key >= (long)weir_poolifier_workers(trace->pool)) {
			replay_fail(trace->replay, "\"removed\" is no worker");
			return;
		}
		weir_poolifier_remove(trace->pool, (uint32_t)key);
	}
}

// --- pool
// -----------------------------------------------------------------------------------------

static void read_set(struct trace *trace) {
	const json_t *list = replay_list(trace->replay, trace->vector, "set");
	const json_t *value;
	size_t i;

	if (list == NULL) {
		return;
	}
	trace->set_count = (uint32_t)json_array_size(list);
	trace->set = replay_alloc(trace->set_count * sizeof(trace->set[0]));
	json_array_foreach (list, i, value) {
		long key = replay_key(trace->replay, value);

		if (key < 0) {
			replay_fail(trace->replay, "\"set\" holds what is no key");
		}
		trace->set[i] = key < 0 ? 0 : (uint32_t)key;
	}
}

static void make_ready(struct trace *trace) {
	const json_t *active = replay_list(trace->replay, trace->vector, "initial_active");

	for (uint32_t i = 0; i < weir_poolifier_workers(trace->pool); i++) {
		weir_poolifier_set_ready(
			trace->pool, i, replay_poolifier_is_ready(trace->vector, i));
		if (i < json_array_size(active)) {
			weir_poolifier_set_executing(trace->pool, i,
				(uint32_t)json_integer_value(json_array_get(active, i)));
		}
	}
}

static struct weir_poolifier *create_pool(
	struct replay *replay, const json_t *vector, enum weir_poolifier_strategy strategy) {
	struct weir_poolifier_options options = {
		.strategy = strategy,
		.workers = replay_poolifier_size(replay, vector),
		.window = replay_uint(replay, vector, "window", 0),
		.charge_at_choice = replay_has(vector, "vt_end_after_each"),
		.float32 = true,
	};
	uint32_t weight_count = options.workers;
	double *weights = replay_reals(replay, vector, "weights_ms", &weight_count);
	struct weir_poolifier *pool = NULL;

	replay_poolifier_read_option(replay, vector, &options);
	if (weight_count != options.workers) {
		replay_fail(replay, "%u weights of %u workers", weight_count, options.workers);
	} else if (options.workers > 0) {
		options.weights_ms = weights;
		pool = weir_poolifier_create(&options);
	}
	free(weights);
	return pool;
}

void replay_poolifier_choices(
	struct replay *replay, const json_t *vector, enum weir_poolifier_strategy strategy) {
	struct trace trace = {
		.replay = replay,
		.vector = vector,
		.strategy = strategy,
		.now_ms = replay_real(replay, vector, "now", START_MS),
	};

	if (!replay_known_keys(replay, vector, keys)) {
		return;
	}
	trace.pool = create_pool(replay, vector, strategy);
	if (trace.pool == NULL) {
		replay_fail(replay, "no pool can be made of it");
		return;
	}
	read_set(&trace);
	make_ready(&trace);
	feed(&trace);
	replay_list_of_choices(&trace, "before");
	remove_workers(&trace);
	replay_list_of_choices(&trace, "after");
	replay_list_of_choices(&trace, "keys");
	replay_result(&trace);
	if (replay_has(vector, "vt_end")) {
		check_ends(&trace, "vt_end", json_object_get(vector, "vt_end"));
	}
	free(trace.set);
	weir_poolifier_free(trace.pool);
}
