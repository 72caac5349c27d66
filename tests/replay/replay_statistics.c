// SPDX-License-Identifier: BSD-3-Clause
//
// Statistics of one worker: poolifier's, sample by sample, in float32 as recorded; and the
// product's moving statistics of the same samples, in whole nanoseconds.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "moving.h"
#include "replay_poolifier.h"

#define NS_PER_MS 1e6
#define EXACT 1e-12 // of poolifier: the same operations
#define CLOSE 1e-6 // of ours against float32, and a nanosecond

struct observed {
	struct replay *replay;
	struct weir_poolifier *pool;
	struct weir_moving *moving;
	double now_ms;
	bool waiting; // what is looked at, not the run time
};

static void check_or_null(struct observed *observed, const char *what, long index,
	const json_t *object, const char *key, double got) {
	const json_t *value = json_object_get(object, key);

	if (value == NULL) {
		return;
	}
	if (json_is_null(value)) {
		replay_check(observed->replay, what, index, 1, isnan(got) != 0);
	} else if (json_is_number(value)) {
		replay_check_real(
			observed->replay, what, index, json_number_value(value), got, EXACT);
	} else {
		replay_fail(observed->replay, "\"%s\" is no number", key);
	}
}

// Values that the product does not keep are null there, too: it has them anyway.
static void check_ours(struct observed *observed, const char *what, long index,
	const json_t *object, const char *key, double got_ns) {
	const json_t *value = json_object_get(object, key);

	if (json_is_number(value)) {
		replay_check_real(observed->replay, what, index, json_number_value(value),
			got_ns / NS_PER_MS, CLOSE);
	}
}

static void check_measure(struct observed *observed, const json_t *expected, long index) {
	const struct weir_poolifier_usage *usage = weir_poolifier_usage(observed->pool, 0);
	const struct weir_poolifier_measure *of = observed->waiting ? &usage->wait : &usage->run;
	struct weir_moving_stats ours;

	if (!replay_known_keys(
		    observed->replay, expected, "aggregate average median minimum maximum n")) {
		return;
	}
	check_or_null(
		observed, "aggregate after sample", index, expected, "aggregate", of->aggregate);
	check_or_null(observed, "average after sample", index, expected, "average", of->average);
	check_or_null(observed, "median after sample", index, expected, "median", of->median);
	check_or_null(observed, "minimum after sample", index, expected, "minimum", of->minimum);
	check_or_null(observed, "maximum after sample", index, expected, "maximum", of->maximum);
	check_or_null(observed, "samples after sample", index, expected, "n", of->samples);

	weir_moving_read(observed->moving, &ours);
	check_ours(observed, "our sum after sample", index, expected, "aggregate",
		(double)ours.sum_ns);
	check_ours(observed, "our mean after sample", index, expected, "average",
		(double)ours.mean_ns);
	check_ours(observed, "our median after sample", index, expected, "median",
		(double)ours.median_ns);
	check_ours(observed, "our least after sample", index, expected, "minimum",
		(double)ours.least_ns);
	check_ours(observed, "our most after sample", index, expected, "maximum",
		(double)ours.most_ns);
	if (replay_has(expected, "n")) {
		replay_check(observed->replay, "our samples after sample", index,
			json_integer_value(json_object_get(expected, "n")), ours.window_count);
	}
}

// A task of this run time. A failed one adds nothing.
static void observe(struct observed *observed, double run_ms, bool failed) {
	const struct weir_poolifier_task task = {
		.run_ms = run_ms, .utilization = NAN, .failed = failed};

	if (!isfinite(run_ms) || run_ms < 0) {
		replay_fail(observed->replay, "a sample is no number >= 0");
		return;
	}
	weir_poolifier_started(observed->pool, 0, observed->now_ms, observed->now_ms, false);
	weir_poolifier_finished(observed->pool, 0, &task, observed->now_ms);
	if (!failed) {
		weir_moving_add(observed->moving, replay_ns(run_ms, NS_PER_MS),
			replay_ns(observed->now_ms, NS_PER_MS));
	}
}

static void replay_inputs(struct observed *observed, const json_t *vector) {
	const json_t *after = replay_list(observed->replay, vector, "after_each");
	const json_t *value;
	size_t i;

	json_array_foreach (replay_list(observed->replay, vector, "inputs_ms"), i, value) {
		observe(observed, json_is_number(value) ? json_number_value(value) : NAN, false);
		if (i < json_array_size(after)) {
			check_measure(observed, json_array_get(after, i), (long)i);
		}
	}
	if (after != NULL && json_array_size(after) != i) {
		replay_fail(observed->replay, "after_each and inputs_ms differ in length");
	}
}

// "ok 10", "fail 999".
static void replay_operations(struct observed *observed, const json_t *vector) {
	const json_t *value;
	size_t i;

	json_array_foreach (replay_list(observed->replay, vector, "ops"), i, value) {
		const char *text = json_is_string(value) ? json_string_value(value) : "";
		const char *space = strchr(text, ' ');
		char *end = NULL;
		double run_ms = space != NULL ? strtod(space + 1, &end) : 0;
		bool failed = strncmp(text, "fail ", 5) == 0;

		if (end == NULL || *end != '\0' || (!failed && strncmp(text, "ok ", 3) != 0)) {
			replay_fail(observed->replay, "unknown op \"%s\"", text);
			return;
		}
		observe(observed, run_ms, failed);
	}
}

static void check_tasks(struct observed *observed, const json_t *expected) {
	const struct weir_poolifier_usage *usage = weir_poolifier_usage(observed->pool, 0);

	if (expected == NULL || !replay_known_keys(observed->replay, expected,
					"executed failed executing queued")) {
		return;
	}
	check_or_null(observed, "executed", -1, expected, "executed", (double)usage->executed);
	check_or_null(observed, "failed", -1, expected, "failed", (double)usage->failed);
	check_or_null(observed, "executing", -1, expected, "executing", usage->executing);
	check_or_null(observed, "queued", -1, expected, "queued", usage->queued);
}

static void replay_measure(struct replay *replay, const json_t *vector) {
	bool median = json_is_true(json_object_get(vector, "median"));
	uint32_t window = replay_uint(replay, vector, "window", WEIR_MOVING_WINDOW);
	const struct weir_poolifier_options options = {
		.strategy = WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN,
		.workers = 1,
		.window = window,
		.run_median = median,
		.float32 = true,
	};
	struct observed observed = {
		.replay = replay,
		.pool = weir_poolifier_create(&options),
		.moving = weir_moving_create(window, median),
	};

	if (observed.pool == NULL || observed.moving == NULL) {
		replay_fail(replay, "a window of %u samples cannot be made", window);
	} else {
		replay_inputs(&observed, vector);
		replay_operations(&observed, vector);
		if (replay_has(vector, "after_last")) {
			check_measure(&observed, json_object_get(vector, "after_last"), -1);
		}
		check_tasks(&observed, json_object_get(vector, "tasks"));
	}
	weir_moving_free(observed.moving);
	weir_poolifier_free(observed.pool);
}

// --- busy time ----------------------------------------------------------------------------------

static void check_elu(struct observed *observed, const json_t *expected, long index) {
	const struct weir_poolifier_usage *usage = weir_poolifier_usage(observed->pool, 0);
	struct weir_moving_stats ours;

	if (!replay_known_keys(observed->replay, expected,
		    "active_aggregate idle_aggregate count utilization active_average "
		    "active_median")) {
		return;
	}
	check_or_null(observed, "active_aggregate", index, expected, "active_aggregate",
		usage->elu_active.aggregate);
	check_or_null(observed, "idle_aggregate", index, expected, "idle_aggregate",
		usage->elu_idle.aggregate);
	check_or_null(
		observed, "count", index, expected, "count", (double)usage->utilization_count);
	check_or_null(observed, "utilization", index, expected, "utilization", usage->utilization);
	check_or_null(observed, "active_average", index, expected, "active_average",
		usage->elu_active.average);
	check_or_null(observed, "active_median", index, expected, "active_median",
		usage->elu_active.median);
	weir_moving_read(observed->moving, &ours);
	check_ours(observed, "our sum of busy time", index, expected, "active_aggregate",
		(double)ours.sum_ns);
	check_ours(observed, "our mean busy time", index, expected, "active_average",
		(double)ours.mean_ns);
}

static void observe_elu(struct observed *observed, const json_t *input) {
	struct weir_poolifier_task task = {
		.elu_active_ms = replay_real(observed->replay, input, "active", 0),
		.elu_idle_ms = replay_real(observed->replay, input, "idle", 0),
	};
	double whole = task.elu_active_ms + task.elu_idle_ms;

	if (!replay_known_keys(observed->replay, input, "active idle utilization")) {
		return;
	}
	task.utilization = replay_real(
		observed->replay, input, "utilization", whole > 0 ? task.elu_active_ms / whole : 0);
	if (task.elu_active_ms < 0) {
		replay_fail(observed->replay, "a sample is below 0");
		return;
	}
	weir_poolifier_started(observed->pool, 0, observed->now_ms, observed->now_ms, false);
	weir_poolifier_finished(observed->pool, 0, &task, observed->now_ms);
	weir_moving_add(observed->moving, replay_ns(task.elu_active_ms, NS_PER_MS), 0);
}

static void replay_elu(struct replay *replay, const json_t *vector) {
	bool median = json_is_true(json_object_get(vector, "median"));
	const json_t *after = replay_list(replay, vector, "after_each");
	const struct weir_poolifier_options options = {
		.strategy = WEIR_POOLIFIER_FAIR_SHARE,
		.workers = 1,
		.elu_median = median,
		.float32 = true,
	};
	struct observed observed = {
		.replay = replay,
		.pool = weir_poolifier_create(&options),
		.moving = weir_moving_create(WEIR_MOVING_WINDOW, median),
	};
	const json_t *input;
	size_t i;

	if (observed.pool != NULL && observed.moving != NULL) {
		json_array_foreach (replay_list(replay, vector, "inputs"), i, input) {
			observe_elu(&observed, input);
			if (i < json_array_size(after)) {
				check_elu(&observed, json_array_get(after, i), (long)i);
			}
		}
		if (after != NULL && json_array_size(after) != i) {
			replay_fail(replay, "after_each and inputs differ in length");
		}
		if (replay_has(vector, "after_last")) {
			check_elu(&observed, json_object_get(vector, "after_last"), -1);
		}
	}
	weir_moving_free(observed.moving);
	weir_poolifier_free(observed.pool);
}

// --- waiting ------------------------------------------------------------------------------------

// A time by one of the names that a recorder may give it.
static double time_of(struct replay *replay, const json_t *input, const char *key) {
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)input, name, value) {
		if (strncmp(name, key, strlen(key)) == 0) {
			return replay_real(replay, input, name, 0);
		}
	}
	replay_fail(replay, "an input has no \"%s\"", key);
	return 0;
}

// Waiting is from submission to start, and known at the start.
static void replay_waiting(struct replay *replay, const json_t *vector) {
	bool median = json_is_true(json_object_get(vector, "median"));
	const json_t *after = replay_list(replay, vector, "after_each");
	const struct weir_poolifier_options options = {
		.strategy = WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN,
		.workers = 1,
		.wait_median = median,
		.float32 = true,
	};
	struct observed observed = {
		.replay = replay,
		.pool = weir_poolifier_create(&options),
		.moving = weir_moving_create(WEIR_MOVING_WINDOW, median),
		.waiting = true,
	};
	const json_t *input;
	size_t i;

	json_array_foreach (replay_list(replay, vector, "inputs"), i, input) {
		double submit = time_of(replay, input, "submit");
		double start = time_of(replay, input, "start");

		weir_poolifier_started(observed.pool, 0, submit, start, false);
		weir_moving_add(observed.moving, replay_ns(start - submit, NS_PER_MS), 0);
		if (i < json_array_size(after)) {
			check_measure(&observed, json_array_get(after, i), (long)i);
		}
	}
	if (after != NULL && json_array_size(after) != i) {
		replay_fail(replay, "after_each and inputs differ in length");
	}
	if (replay_has(vector, "after_last")) {
		check_measure(&observed, json_object_get(vector, "after_last"), -1);
	}
	weir_moving_free(observed.moving);
	weir_poolifier_free(observed.pool);
}

static bool is_waiting(const json_t *vector) {
	const json_t *first = json_array_get(json_object_get(vector, "inputs"), 0);
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)first, name, value) {
		if (strncmp(name, "submit", 6) == 0) {
			return true;
		}
	}
	return false;
}

void replay_poolifier_statistics(struct replay *replay, const json_t *vector) {
	if (replay_has(vector, "inputs")) {
		if (!replay_known_keys(replay, vector, "inputs after_each after_last median")) {
			return;
		}
		if (is_waiting(vector)) {
			replay_waiting(replay, vector);
		} else {
			replay_elu(replay, vector);
		}
		return;
	}
	if (replay_known_keys(
		    replay, vector, "inputs_ms ops after_each after_last median tasks window")) {
		replay_measure(replay, vector);
	}
}

void replay_poolifier_default_weight(struct replay *replay, const json_t *vector) {
	const json_t *expected = replay_list(replay, vector, "default_weight_ms");
	const json_t *value;
	double *speeds;
	uint32_t n = 0;
	uint32_t *mhz;
	size_t i;

	if (!replay_known_keys(replay, vector, "cpu_speeds_mhz default_weight_ms")) {
		return;
	}
	speeds = replay_reals(replay, vector, "cpu_speeds_mhz", &n);
	mhz = replay_alloc(n * sizeof(mhz[0]));
	for (i = 0; i < n; i++) {
		mhz[i] = (uint32_t)fmin(speeds[i], UINT32_MAX);
	}
	json_array_foreach (expected, i, value) {
		replay_check_real(replay, "default_weight_ms", (long)i, json_number_value(value),
			weir_poolifier_weight(mhz, n), EXACT);
	}
	free(mhz);
	free(speeds);
}
