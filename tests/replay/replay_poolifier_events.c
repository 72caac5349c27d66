// SPDX-License-Identifier: BSD-3-Clause
//
// Traces of poolifier with the whole life of each task: chosen, started, finished.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay_poolifier.h"

struct log {
	struct replay *replay;
	struct weir_poolifier *pool;
	const json_t *chosen; // the choices alone, or NULL
	uint32_t *per_worker;
	uint32_t size;
	uint32_t choices;
};

// Words of "variant", which say how the recorder used the strategy.
static void read_variant(
	struct replay *replay, const json_t *vector, struct weir_poolifier_options *options) {
	static const char *const idle[] = {"default", "update", "at", "completion", "run", "time"};
	char *text = strdup(replay_text(replay, vector, "variant", ""));
	char *rest = NULL;

	for (char *word = text != NULL ? strtok_r(text, "_-/ ", &rest) : NULL; word != NULL;
		word = strtok_r(NULL, "_-/ ", &rest)) {
		bool known = false;

		for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
			known = known || strcmp(word, idle[i]) == 0;
		}
		if (strcmp(word, "submission") == 0) {
			options->charge_at_choice = true;
		} else if (strcmp(word, "median") == 0) {
			options->run_median = true;
			options->wait_median = true;
			options->elu_median = true;
		} else if (strcmp(word, "elu") == 0) {
			options->measure_elu = true;
		} else if (!known) {
			replay_fail(replay, "unknown variant \"%s\"", word);
		}
	}
	free(text);
}

static void check_ends(struct log *log, const json_t *event, long index) {
	const json_t *ends = replay_list(log->replay, event, "vt_end");
	const json_t *value;
	size_t i;

	json_array_foreach (ends, i, value) {
		double end = i < weir_poolifier_workers(log->pool)
				     ? weir_poolifier_virtual_end(log->pool, (uint32_t)i)
				     : NAN;

		if (json_is_number(value)) {
			replay_check_real(log->replay, "vt_end after event", index,
				json_number_value(value), end, 1e-9);
		} else {
			replay_check(log->replay, "vt_end after event", index, 1, isnan(end) != 0);
		}
	}
}

static void replay_choose(struct log *log, const json_t *event, long index, double t) {
	uint32_t retries = 0;
	int key = weir_poolifier_choose(log->pool, NULL, 0, t, &retries);
	long got = key < 0 ? REPLAY_NONE : key;

	if (!replay_known_keys(log->replay, event, "t op id key vt_end retries")) {
		return;
	}
	replay_check(log->replay, "choice of event", index,
		replay_key(log->replay, json_object_get(event, "key")), got);
	if (replay_has(event, "retries")) {
		replay_check(log->replay, "retries of event", index,
			json_integer_value(json_object_get(event, "retries")), retries);
	}
	if (log->chosen != NULL) {
		replay_check(log->replay, "chosen_keys", (long)log->choices,
			replay_key(log->replay, json_array_get(log->chosen, log->choices)), got);
	}
	log->choices++;
	// A task waits at its worker until the worker starts it.
	if (key >= 0) {
		weir_poolifier_queued(log->pool, (uint32_t)key);
		log->per_worker[key]++;
	}
}

static void replay_finish(struct log *log, const json_t *event, uint32_t worker, double t) {
	const json_t *failed = json_object_get(event, "failed");
	struct weir_poolifier_task task = {
		.run_ms = replay_real(log->replay, event, "run_ms", 0),
		.elu_active_ms = replay_real(log->replay, event, "elu_active_ms", 0),
		.elu_idle_ms = replay_real(log->replay, event, "elu_idle_ms", 0),
		.utilization = replay_real(log->replay, event, "utilization", NAN),
		.failed = json_is_true(failed),
	};

	if (replay_known_keys(log->replay, event,
		    "t op w id run_ms elu_active_ms elu_idle_ms utilization failed vt_end")) {
		weir_poolifier_finished(log->pool, worker, &task, t);
	}
}

static void replay_event(struct log *log, const json_t *event, long index) {
	const char *op = replay_text(log->replay, event, "op", "");
	double t = replay_real(log->replay, event, "t", 0);
	uint32_t worker = replay_uint(log->replay, event, "w", 0);

	if (strcmp(op, "choose") == 0) {
		replay_choose(log, event, index, t);
		return;
	}
	if (!replay_has(event, "w") || worker >= weir_poolifier_workers(log->pool)) {
		replay_fail(log->replay, "event %ld is of no worker", index);
	} else if (strcmp(op, "start") == 0) {
		replay_known_keys(log->replay, event, "t op w id submit_t vt_end");
		weir_poolifier_started(
			log->pool, worker, replay_real(log->replay, event, "submit_t", t), t, true);
	} else if (strcmp(op, "finish") == 0) {
		replay_finish(log, event, worker, t);
	} else if (strcmp(op, "ready") == 0 || strcmp(op, "not_ready") == 0) {
		weir_poolifier_set_ready(log->pool, worker, op[0] == 'r');
	} else if (strcmp(op, "remove") == 0) {
		weir_poolifier_remove(log->pool, worker);
	} else {
		replay_fail(log->replay, "event %ld: unknown op \"%s\"", index, op);
	}
}

static void replay_log(struct log *log, const json_t *vector) {
	const json_t *counts = replay_list(log->replay, vector, "per_worker");
	const json_t *event, *value;
	size_t i;

	json_array_foreach (replay_list(log->replay, vector, "events"), i, event) {
		replay_event(log, event, (long)i);
		check_ends(log, event, (long)i);
	}
	if (log->chosen != NULL) {
		replay_check(log->replay, "number of chosen_keys", -1,
			(long long)json_array_size(log->chosen), log->choices);
	}
	if (replay_has(vector, "arrivals")) {
		replay_check(log->replay, "arrivals", -1,
			replay_uint(log->replay, vector, "arrivals", 0), log->choices);
	}
	json_array_foreach (counts, i, value) {
		replay_check(log->replay, "per_worker", (long)i, json_integer_value(value),
			i < log->size ? log->per_worker[i] : 0);
	}
}

void replay_poolifier_events(
	struct replay *replay, const json_t *vector, enum weir_poolifier_strategy strategy) {
	struct weir_poolifier_options options = {
		.strategy = strategy,
		.workers = replay_poolifier_size(replay, vector),
		.window = replay_uint(replay, vector, "window", 0),
		.float32 = true,
	};
	uint32_t weight_count = options.workers;
	double *weights = replay_reals(replay, vector, "weights_ms", &weight_count);
	struct log log = {.replay = replay,
		.chosen = replay_list(replay, vector, "chosen_keys"),
		.size = options.workers};

	read_variant(replay, vector, &options);
	replay_poolifier_read_option(replay, vector, &options);
	if (!replay_known_keys(replay, vector,
		    "strategy variant option workers worker_speed_factor weights_ms window "
		    "arrivals "
		    "chosen_keys per_worker events not_ready")) {
		goto free_weights;
	}
	options.weights_ms = weight_count == options.workers ? weights : NULL;
	log.pool = options.workers > 0 ? weir_poolifier_create(&options) : NULL;
	if (log.pool == NULL) {
		replay_fail(replay, "no pool can be made of it");
		goto free_weights;
	}
	for (uint32_t i = 0; i < options.workers; i++) {
		weir_poolifier_set_ready(log.pool, i, replay_poolifier_is_ready(vector, i));
	}
	log.per_worker = replay_alloc(options.workers * sizeof(log.per_worker[0]));
	replay_log(&log, vector);
	free(log.per_worker);
	weir_poolifier_free(log.pool);
free_weights:
	free(weights);
}
