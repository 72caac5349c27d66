// SPDX-License-Identifier: BSD-3-Clause
//
// Replays work stealing of dask.distributed: levels of tasks, idle and overloaded workers,
// requests, the effects of answers, estimates of durations, and a complete run of 40 tasks.
//
// Not replayed: `cost_multiplier` and `log2` in the computation of a level, and `messages` of the
// recorded scheduler. Kinds of tasks that are never moved are `fixed` here.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "steal_duration.h"
#include "steal_plan.h"

#define TOLERANCE 1e-9
#define BANDWIDTH 100e6 // bytes per second
#define LATENCY 0.1
#define UNKNOWN 0.5
#define TASKS 64
#define WORKERS 8
#define DEPENDENCIES 4

struct dependency {
	double bytes;
	bool held[WORKERS];
};

struct dask {
	struct replay *replay;
	struct weir_steal_plan *plan;
	uint32_t workers, tasks;
	struct {
		struct dependency needs[DEPENDENCIES];
		uint64_t allowed;
		uint32_t count;
	} task[TASKS];
};

bool replay_dask_recognise(const json_t *root) {
	return replay_has(root, "cost_multipliers_per_level");
}

// Returns 3 for "w3" or "t003", and UINT32_MAX for an invalid name.
static uint32_t number_of(const char *name) {
	char again[16];
	uint32_t n;

	if (name == NULL || (name[0] != 'w' && name[0] != 't')) {
		return UINT32_MAX;
	}
	n = (uint32_t)strtoul(name + 1, NULL, 10);
	snprintf(again, sizeof(again), name[0] == 'w' ? "w%u" : "t%03u", n);
	return strcmp(again, name) == 0 ? n : UINT32_MAX;
}

static uint32_t number_in(struct replay *replay, const json_t *object, const char *key) {
	return number_of(replay_text(replay, object, key, ""));
}

// --- levels and durations -----------------------------------------------------------------

static void replay_level(struct replay *replay, const json_t *vector) {
	double duration = replay_real(replay, vector, "duration", 0);
	const json_t *level = json_object_get(vector, "level");
	bool none = json_is_null(json_object_get(vector, "dep_bytes"));
	double bytes = none ? 0 : replay_real(replay, vector, "dep_bytes", NAN);

	replay_known_keys(
		replay, vector, "duration dep_bytes transfer_time cost_multiplier log2 level");
	replay_check(replay, "level", -1,
		json_is_null(level) ? WEIR_STEAL_NO_LEVEL : json_integer_value(level),
		weir_steal_level(duration, none ? -1 : bytes / BANDWIDTH, LATENCY));
}

static void replay_durations(struct replay *replay, const json_t *list) {
	struct weir_steal_duration duration;
	const json_t *step;
	size_t i;

	weir_steal_duration_init(&duration);
	json_array_foreach (list, i, step) {
		const char *op = replay_text(replay, step, "op", "");
		double value = replay_real(replay, step, "value", 0);

		replay_known_keys(replay, step, "op value average max_exec_time estimate");
		if (strcmp(op, "running task seen for s") == 0) {
			weir_steal_duration_seen(&duration, value);
		} else if (strcmp(op, "task finished after s") == 0) {
			weir_steal_duration_ended(&duration, value);
		} else if (strcmp(op, "initial") != 0) {
			replay_fail(replay, "what is %s", op);
		}
		replay_check_real(replay, "average", (long)i,
			replay_real(replay, step, "average", NAN), duration.average, TOLERANCE);
		replay_check_real(replay, "estimate", (long)i,
			replay_real(replay, step, "estimate", NAN),
			weir_steal_duration_estimate(&duration, UNKNOWN), TOLERANCE);
		replay_check_real(replay, "longest", (long)i,
			replay_real(replay, step, "max_exec_time", 0), duration.longest, TOLERANCE);
	}
}

// --- plans --------------------------------------------------------------------------------

static double fetch(void *context, uint32_t task, uint32_t worker) {
	const struct dask *dask = context;
	double bytes = 0;

	for (uint32_t i = 0; i < dask->task[task].count; i++) {
		bytes += dask->task[task].needs[i].held[worker] ? 0
								: dask->task[task].needs[i].bytes;
	}
	return bytes / BANDWIDTH;
}

static bool begin_plan(struct replay *replay, struct dask *dask, const json_t *threads) {
	struct weir_steal_params params = weir_steal_params_dask();
	const json_t *value;
	size_t i;

	*dask = (struct dask){.replay = replay, .workers = (uint32_t)json_array_size(threads)};
	if (dask->workers == 0 || dask->workers > WORKERS ||
		weir_steal_plan_create(&params, dask->workers, TASKS, &dask->plan) < 0) {
		replay_fail(replay, "%u workers", dask->workers);
		return false;
	}
	weir_steal_plan_set_transfer(dask->plan, fetch, dask);
	json_array_foreach (threads, i, value) {
		weir_steal_plan_worker(
			dask->plan, (uint32_t)i, (uint32_t)json_integer_value(value), true, 0);
	}
	return true;
}

static void end_plan(struct dask *dask) {
	weir_steal_plan_free(dask->plan);
}

static void check_names(struct dask *dask, const char *what, const json_t *names,
	bool (*is)(const struct weir_steal_plan *plan, uint32_t worker)) {
	for (uint32_t i = 0; i < dask->workers; i++) {
		bool expected = false;
		const json_t *name;
		size_t n;

		json_array_foreach (names, n, name) {
			expected |= number_of(json_string_value(name)) == i;
		}
		replay_check(dask->replay, what, i, expected, is(dask->plan, i));
	}
}

static void check_list(struct dask *dask, const char *what, const json_t *list,
	double (*of)(const struct weir_steal_plan *plan, uint32_t worker)) {
	for (uint32_t i = 0; i < dask->workers; i++) {
		replay_check_real(dask->replay, what, i, json_number_value(json_array_get(list, i)),
			of(dask->plan, i), TOLERANCE);
	}
}

static void check_by_name(struct dask *dask, const char *what, const json_t *object) {
	for (uint32_t i = 0; i < dask->workers; i++) {
		char name[16];

		snprintf(name, sizeof(name), "w%u", i);
		replay_check_real(dask->replay, what, i,
			json_number_value(json_object_get(object, name)),
			weir_steal_plan_correction(dask->plan, i), TOLERANCE);
	}
}

// Adds tasks that cost nothing to move; per_worker: for each worker, the number of its tasks and
// their duration.
static void put_equal_tasks(struct dask *dask, const json_t *per_worker) {
	const json_t *pair;
	size_t worker;

	json_array_foreach (per_worker, worker, pair) {
		struct weir_steal_task what = {
			.duration = json_number_value(json_array_get(pair, 1)), .transfer = -1};
		uint32_t count = (uint32_t)json_integer_value(json_array_get(pair, 0));

		for (uint32_t i = 0; i < count && dask->tasks < TASKS; i++) {
			weir_steal_plan_put(dask->plan, dask->tasks++, (uint32_t)worker, &what);
		}
	}
}

static void replay_classification(struct replay *replay, const json_t *vector) {
	const json_t *threads = replay_list(replay, vector, "nthreads"), *name;
	struct weir_steal_request request;
	struct dask dask;
	size_t i;

	if (!replay_known_keys(replay, vector,
		    "desc nthreads tasks_per_worker_count_duration worker_saturation paused "
		    "occupancy "
		    "total_occupancy idle saturated has_free_slot") ||
		!begin_plan(replay, &dask, threads)) {
		return;
	}
	put_equal_tasks(&dask, replay_list(replay, vector, "tasks_per_worker_count_duration"));
	json_array_foreach (replay_list(replay, vector, "paused"), i, name) {
		uint32_t worker = number_of(json_string_value(name));

		weir_steal_plan_worker(dask.plan, worker,
			(uint32_t)json_integer_value(json_array_get(threads, worker)), false, 0);
	}
	// Evaluates the workers, but makes no request
	weir_steal_plan_balance(dask.plan, 0, &request, 0);
	check_list(&dask, "occupancy", replay_list(replay, vector, "occupancy"),
		weir_steal_plan_occupancy);
	check_names(&dask, "idle", json_object_get(vector, "idle"), weir_steal_plan_is_idle);
	check_names(&dask, "saturated", json_object_get(vector, "saturated"),
		weir_steal_plan_is_saturated);
	end_plan(&dask);
}

static void put_task(struct dask *dask, const json_t *value) {
	uint32_t task = number_in(dask->replay, value, "key");
	struct weir_steal_task what = {
		.duration = replay_real(dask->replay, value, "duration", 0), .transfer = -1};
	const json_t *names = json_object_get(value, "restricted_to");
	const json_t *needed, *name;
	double bytes = 0;
	size_t i, n;

	if (task >= TASKS || !replay_known_keys(dask->replay, value,
				     "key on duration deps level restricted_to loose")) {
		replay_fail(dask->replay, "task %u", task);
		return;
	}
	json_array_foreach (replay_list(dask->replay, value, "deps"), i, needed) {
		struct dependency *need = &dask->task[task].needs[dask->task[task].count++];

		need->bytes = replay_real(dask->replay, needed, "bytes", 0);
		bytes += need->bytes;
		json_array_foreach (replay_list(dask->replay, needed, "held_by"), n, name) {
			need->held[number_of(json_string_value(name)) % WORKERS] = true;
		}
		what.transfer = bytes / BANDWIDTH;
	}
	json_array_foreach (names, i, name) {
		dask->task[task].allowed |= 1ull << number_of(json_string_value(name)) % WORKERS;
		what.allowed = &dask->task[task].allowed;
	}
	what.loose = json_is_true(json_object_get(value, "loose"));
	// Tasks without a level are of a kind that never moves.
	what.fixed = json_is_null(json_object_get(value, "level"));
	if (!what.fixed) {
		replay_check(dask->replay, "level of task", task,
			replay_uint(dask->replay, value, "level", 99),
			weir_steal_level(what.duration, what.transfer, LATENCY));
	}
	weir_steal_plan_put(dask->plan, task, number_in(dask->replay, value, "on"), &what);
	dask->tasks++;
}

static void check_request(
	struct dask *dask, long i, const json_t *expected, const struct weir_steal_request *got) {
	struct replay *replay = dask->replay;

	replay_known_keys(
		replay, expected, "level key cost victim occ_victim_before thief occ_thief_before");
	replay_check(replay, "task", i, number_in(replay, expected, "key"), got->task);
	replay_check(replay, "level", i, replay_uint(replay, expected, "level", 99), got->level);
	replay_check(replay, "victim", i, number_in(replay, expected, "victim"), got->victim);
	replay_check(replay, "thief", i, number_in(replay, expected, "thief"), got->thief);
	replay_check_real(replay, "occupancy of victim", i,
		replay_real(replay, expected, "occ_victim_before", NAN), got->victim_occupancy,
		TOLERANCE);
	replay_check_real(replay, "occupancy of thief", i,
		replay_real(replay, expected, "occ_thief_before", NAN), got->thief_occupancy,
		TOLERANCE);
}

static bool need_data(const json_t *tasks) {
	const json_t *task;
	size_t i;

	json_array_foreach (tasks, i, task) {
		if (json_array_size(json_object_get(task, "deps")) > 0) {
			return true;
		}
	}
	return false;
}

static void replay_balance(struct replay *replay, const json_t *vector) {
	const json_t *before = json_object_get(vector, "before");
	const json_t *after = json_object_get(vector, "after");
	const json_t *task, *call, *expected;
	struct weir_steal_request requests[TASKS];
	struct dask dask;
	size_t i, n;

	if (!replay_known_keys(
		    replay, vector, "desc nthreads tasks before requests_per_call after") ||
		!begin_plan(replay, &dask, replay_list(replay, vector, "nthreads"))) {
		return;
	}
	if (!need_data(json_object_get(vector, "tasks"))) {
		// Makes the planner keep the thieves in a heap
		weir_steal_plan_set_transfer(dask.plan, NULL, NULL);
	}
	json_array_foreach (replay_list(replay, vector, "tasks"), i, task) {
		put_task(&dask, task);
	}
	weir_steal_plan_balance(dask.plan, 0, requests, 0);
	check_list(&dask, "occupancy", replay_list(replay, before, "occupancy"),
		weir_steal_plan_occupancy);
	check_names(&dask, "idle", json_object_get(before, "idle"), weir_steal_plan_is_idle);
	check_names(&dask, "saturated", json_object_get(before, "saturated"),
		weir_steal_plan_is_saturated);
	json_array_foreach (replay_list(replay, vector, "requests_per_call"), i, call) {
		uint32_t got = weir_steal_plan_balance(dask.plan, (double)i, requests, TASKS);

		replay_check(replay, "requests", (long)i, (long long)json_array_size(call), got);
		json_array_foreach (call, n, expected) {
			if (n < got) {
				check_request(&dask, (long)n, expected, &requests[n]);
			}
		}
	}
	check_by_name(&dask, "in flight", json_object_get(after, "in_flight_occupancy"));
	check_names(&dask, "saturated after", json_object_get(after, "saturated"),
		weir_steal_plan_is_saturated);
	end_plan(&dask);
}

// --- answers ------------------------------------------------------------------------------

static enum weir_steal_answer answer_of(const char *state) {
	if (strcmp(state, "ready") == 0 || strcmp(state, "constrained") == 0 ||
		strcmp(state, "waiting") == 0) {
		return WEIR_STEAL_GIVEN_UP;
	}
	return strcmp(state, "released") == 0 || strcmp(state, "") == 0 ? WEIR_STEAL_UNKNOWN
									: WEIR_STEAL_RUNNING;
}

static const char *name_of(enum weir_steal_outcome outcome) {
	static const char *const names[] = {[WEIR_STEAL_MOVED] = "confirm",
		[WEIR_STEAL_STAYED] = "already-computing",
		[WEIR_STEAL_HOMELESS] = "reschedule",
		[WEIR_STEAL_STALE] = "stale-response",
		[WEIR_STEAL_LATE] = "already-aborted"};

	return names[outcome];
}

// Creates three workers; worker 0 has six tasks of one second, of which two are requested.
static uint32_t begin_protocol(
	struct replay *replay, struct dask *dask, struct weir_steal_request *requests) {
	json_t *threads = json_pack("[i,i,i]", 1, 1, 1);
	json_t *tasks = json_pack("[[i,f]]", 6, 1.0);
	uint32_t n = 0;

	if (begin_plan(replay, dask, threads)) {
		put_equal_tasks(dask, tasks);
		n = weir_steal_plan_balance(dask->plan, 0, requests, TASKS);
		replay_check(replay, "requests", -1, 2, n);
	}
	json_decref(threads);
	json_decref(tasks);
	return n;
}

static void replay_answer(struct replay *replay, const json_t *vector) {
	struct weir_steal_request requests[TASKS];
	enum weir_steal_outcome outcome;
	uint32_t owner;
	struct dask dask;

	if (!replay_known_keys(replay, vector,
		    "worker_state thief_alive log messages processing_on_after still_in_flight") ||
		begin_protocol(replay, &dask, requests) == 0) {
		return;
	}
	outcome = weir_steal_plan_answer(dask.plan, requests[0].task, requests[0].id,
		answer_of(json_is_null(json_object_get(vector, "worker_state"))
				  ? ""
				  : replay_text(replay, vector, "worker_state", "?")),
		json_is_true(json_object_get(vector, "thief_alive")), 0);
	replay_check_text(
		replay, "log", -1, replay_text(replay, vector, "log", ""), name_of(outcome));
	replay_check(replay, "in flight", -1, 1, weir_steal_plan_in_flight(dask.plan));
	// A task that must be rescheduled has no worker in Weir. In dask it is still assigned to
	// the victim.
	owner = weir_steal_plan_owner(dask.plan, requests[0].task);
	replay_check(replay, "owner", -1, number_in(replay, vector, "processing_on_after"),
		owner == WEIR_STEAL_NO_WORKER ? 0 : owner);
	end_plan(&dask);
}

static void replay_event(struct replay *replay, const json_t *vector) {
	const char *name = replay_text(replay, vector, "case", "");
	struct weir_steal_request requests[TASKS];
	enum weir_steal_outcome outcome = WEIR_STEAL_LATE;
	struct dask dask;

	if (!replay_known_keys(replay, vector,
		    "case log still_in_flight events_added in_flight_occupancy_before "
		    "in_flight_after "
		    "in_flight_occupancy_after") ||
		begin_protocol(replay, &dask, requests) == 0) {
		return;
	}
	if (strstr(name, "wrong") != NULL) {
		outcome = weir_steal_plan_answer(dask.plan, requests[0].task, requests[0].id + 100,
			WEIR_STEAL_GIVEN_UP, true, 0);
		replay_check(replay, "in flight", -1, 2, weir_steal_plan_in_flight(dask.plan));
	} else if (strstr(name, "victim dies") != NULL) {
		check_by_name(&dask, "in flight before",
			json_object_get(vector, "in_flight_occupancy_before"));
		for (uint32_t i = 0; i < dask.tasks; i++) {
			weir_steal_plan_remove(dask.plan, i);
		}
		replay_check(replay, "in flight", -1,
			replay_uint(replay, vector, "in_flight_after", 99),
			weir_steal_plan_in_flight(dask.plan));
		check_by_name(&dask, "in flight after",
			json_object_get(vector, "in_flight_occupancy_after"));
	} else { // aborted or removed: in Weir, an answer about a removed task counts as late
		weir_steal_plan_remove(dask.plan, requests[0].task);
		outcome = weir_steal_plan_answer(
			dask.plan, requests[0].task, requests[0].id, WEIR_STEAL_GIVEN_UP, true, 0);
		replay_check(replay, "nothing changed", -1, WEIR_STEAL_LATE, outcome);
	}
	if (replay_has(vector, "log")) {
		replay_check_text(replay, "log", -1, replay_text(replay, vector, "log", ""),
			name_of(outcome));
	}
	end_plan(&dask);
}

// --- run of 40 tasks until all are done --------------------------------------------------

struct queues {
	uint32_t task[WORKERS][TASKS];
	uint32_t count[WORKERS];
};

static void take_out(struct queues *queues, uint32_t worker, uint32_t task) {
	uint32_t n = 0;

	for (uint32_t i = 0; i < queues->count[worker]; i++) {
		if (queues->task[worker][i] != task) {
			queues->task[worker][n++] = queues->task[worker][i];
		}
	}
	queues->count[worker] = n;
}

static void answer_all(struct dask *dask, struct queues *queues, const json_t *responses,
	const struct weir_steal_request *requests, uint32_t n, double now) {
	replay_check(
		dask->replay, "responses", (long)now, (long long)json_array_size(responses), n);
	for (uint32_t i = 0; i < n; i++) {
		const struct weir_steal_request *r = &requests[i];
		bool running =
			queues->count[r->victim] > 0 && queues->task[r->victim][0] == r->task;
		const json_t *expected = json_array_get(responses, i);

		replay_check(dask->replay, "task", i,
			number_of(json_string_value(json_array_get(expected, 0))), r->task);
		replay_check(dask->replay, "victim", i,
			number_of(json_string_value(json_array_get(expected, 1))), r->victim);
		replay_check(dask->replay, "thief", i,
			number_of(json_string_value(json_array_get(expected, 2))), r->thief);
		replay_check_text(dask->replay, "answer", i,
			json_string_value(json_array_get(expected, 3)),
			running ? "executing" : "ready");
		if (weir_steal_plan_answer(dask->plan, r->task, r->id,
			    running ? WEIR_STEAL_RUNNING : WEIR_STEAL_GIVEN_UP, true,
			    now) == WEIR_STEAL_MOVED) {
			take_out(queues, r->victim, r->task);
			queues->task[r->thief][queues->count[r->thief]++] = r->task;
		}
	}
}

static void finish_heads(struct dask *dask, struct queues *queues, const json_t *step) {
	const json_t *finished = json_object_get(step, "finished");
	const json_t *after = json_object_get(step, "queue_after");
	size_t n = 0;

	for (uint32_t w = 0; w < dask->workers; w++) {
		if (queues->count[w] > 0) {
			uint32_t task = queues->task[w][0];
			const json_t *expected = json_array_get(finished, n++);

			replay_check(dask->replay, "finished", w,
				number_of(json_string_value(json_array_get(expected, 0))), task);
			replay_check(dask->replay, "by worker", w,
				number_of(json_string_value(json_array_get(expected, 1))), w);
			weir_steal_plan_remove(dask->plan, task);
			take_out(queues, w, task);
		}
		replay_check(dask->replay, "queue", w, json_integer_value(json_array_get(after, w)),
			queues->count[w]);
	}
}

static void replay_drain(struct replay *replay, const json_t *drain) {
	json_t *threads = json_pack("[i,i,i,i]", 1, 1, 1, 1);
	json_t *tasks = json_pack("[[i,f]]", 40, 1.0);
	struct weir_steal_request requests[TASKS];
	struct queues queues = {0};
	const json_t *step;
	struct dask dask;
	size_t second;

	replay_known_keys(replay, drain, "desc makespan_seconds trace");
	if (begin_plan(replay, &dask, threads)) {
		put_equal_tasks(&dask, tasks);
		for (uint32_t i = 0; i < dask.tasks; i++) {
			queues.task[0][queues.count[0]++] = i;
		}
		json_array_foreach (json_object_get(drain, "trace"), second, step) {
			uint32_t n =
				weir_steal_plan_balance(dask.plan, (double)second, requests, TASKS);

			replay_known_keys(replay, step, "second responses finished queue_after");
			answer_all(&dask, &queues, json_object_get(step, "responses"), requests, n,
				(double)second);
			finish_heads(&dask, &queues, step);
		}
		replay_check(replay, "makespan", -1,
			replay_uint(replay, drain, "makespan_seconds", 0), (long long)second);
		end_plan(&dask);
	}
	json_decref(threads);
	json_decref(tasks);
}

static void replay_protocol(struct replay *replay, const json_t *vector) {
	if (replay_has(vector, "case")) {
		replay_event(replay, vector);
	} else {
		replay_answer(replay, vector);
	}
}

void replay_dask(struct replay *replay, const json_t *root) {
	replay_root(replay, root,
		"source how units cost_multipliers_per_level levels level_edges fast_tasks "
		"classification balance protocol duration_estimator drain");
	replay_each(replay, root, "levels", replay_level);
	replay_each(replay, root, "level_edges", replay_level);
	replay_each(replay, root, "classification", replay_classification);
	replay_each(replay, root, "balance", replay_balance);
	replay_each(replay, root, "protocol", replay_protocol);
	replay_begin(replay, "durations");
	replay_durations(replay, json_object_get(root, "duration_estimator"));
	replay_end(replay);
	replay_begin(replay, "drain");
	replay_drain(replay, json_object_get(root, "drain"));
	replay_end(replay);
}
