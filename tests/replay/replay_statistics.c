// SPDX-License-Identifier: BSD-3-Clause
//
// Compares Weir's moving statistics, which are computed in whole nanoseconds, with the statistics
// of poolifier, which are computed in float32. Compares them after each sample.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "moving.h"
#include "replay.h"

#define NS_PER_MS 1e6
#define CLOSE 1e-6 // relative tolerance for float32 results; one more nanosecond is allowed

static bool has_samples(const json_t *vector) {
	return replay_has(vector, "inputs_ms") || replay_has(vector, "ops");
}

bool replay_statistics_recognise(const json_t *root) {
	return has_samples(json_array_get(json_object_get(root, "cases"), 0));
}

// poolifier keeps either the average or the median; Weir has both.
static void check_value(struct replay *replay, const char *what, long index, const json_t *expected,
	uint64_t got_ns) {
	const json_t *value = json_object_get(expected, what);

	if (json_is_number(value)) {
		replay_check_real(replay, what, index, json_number_value(value),
			(double)got_ns / NS_PER_MS, CLOSE);
	}
}

static void check_all(struct replay *replay, const struct weir_moving *moving,
	const json_t *expected, long index) {
	struct weir_moving_stats ours;

	if (!replay_known_keys(replay, expected, "aggregate average median minimum maximum n")) {
		return;
	}
	weir_moving_read(moving, &ours);
	check_value(replay, "aggregate", index, expected, ours.sum_ns);
	check_value(replay, "average", index, expected, ours.mean_ns);
	check_value(replay, "median", index, expected, ours.median_ns);
	check_value(replay, "minimum", index, expected, ours.least_ns);
	check_value(replay, "maximum", index, expected, ours.most_ns);
	if (replay_has(expected, "n")) {
		replay_check(replay, "n", index, json_integer_value(json_object_get(expected, "n")),
			ours.window_count);
	}
}

static void add(struct replay *replay, struct weir_moving *moving, double ms) {
	if (isfinite(ms) && ms >= 0) {
		weir_moving_add(moving, replay_ns(ms, NS_PER_MS), 0);
	} else {
		replay_fail(replay, "a sample is not a number >= 0");
	}
}

static void add_inputs(struct replay *replay, struct weir_moving *moving, const json_t *vector) {
	const json_t *after = replay_list(replay, vector, "after_each");
	const json_t *value;
	size_t i;

	json_array_foreach (replay_list(replay, vector, "inputs_ms"), i, value) {
		add(replay, moving, json_is_number(value) ? json_number_value(value) : NAN);
		if (i < json_array_size(after)) {
			check_all(replay, moving, json_array_get(after, i), (long)i);
		}
	}
	if (after != NULL && json_array_size(after) != i) {
		replay_fail(replay, "after_each and inputs_ms differ in length");
	}
}

// Adds the samples of operations such as "ok 10" and "fail 999". A failed task gives no sample.
static void add_operations(
	struct replay *replay, struct weir_moving *moving, const json_t *vector) {
	const json_t *value;
	size_t i;

	json_array_foreach (replay_list(replay, vector, "ops"), i, value) {
		const char *text = json_is_string(value) ? json_string_value(value) : "";

		if (strncmp(text, "ok ", 3) == 0) {
			add(replay, moving, strtod(text + 3, NULL));
		} else if (strncmp(text, "fail ", 5) != 0) {
			replay_fail(replay, "unknown op \"%s\"", text);
		}
	}
}

static void replay_samples(struct replay *replay, const json_t *vector) {
	struct weir_moving *moving;

	if (!has_samples(vector) ||
		!replay_known_keys(replay, vector, "median inputs_ms ops after_each after_last")) {
		replay_fail(replay, "no samples");
		return;
	}
	moving = weir_moving_create(
		WEIR_MOVING_WINDOW, json_is_true(json_object_get(vector, "median")));
	if (moving == NULL) {
		replay_fail(replay, "out of memory");
		return;
	}
	add_inputs(replay, moving, vector);
	add_operations(replay, moving, vector);
	if (replay_has(vector, "after_last")) {
		check_all(replay, moving, json_object_get(vector, "after_last"), -1);
	}
	weir_moving_free(moving);
}

void replay_statistics(struct replay *replay, const json_t *root) {
	const json_t *vector;
	size_t i;

	replay_root(replay, root, "cases");
	json_array_foreach (json_object_get(root, "cases"), i, vector) {
		replay_begin(replay, "%s", replay_text(replay, vector, "name", "a case"));
		replay_samples(replay, vector);
		replay_end(replay);
	}
}
