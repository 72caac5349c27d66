// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "steal_plan_private.h"

#define LEVEL_OF_EVEN 6 // level of ratio 1

struct weir_steal_params weir_steal_params_dask(void) {
	return (struct weir_steal_params){.latency = 0.1,
		.victim_floor = 0.2,
		.pending_floor = 0.4,
		.pending_ratio = 1.9,
		.idle_ratio = 0.5,
		.all_in_mean = true,
		.steal_share = 1,
		.answer_limit = INFINITY};
}

int weir_steal_plan_create(const struct weir_steal_params *params, uint32_t workers, uint32_t tasks,
	struct weir_steal_plan **ret) {
	struct weir_steal_plan *plan = calloc(1, sizeof(*plan));

	if (plan == NULL) {
		return -ENOMEM;
	}
	plan->params = *params;
	plan->worker_count = workers;
	plan->task_count = tasks;
	plan->flight = (struct weir_steal_list){WEIR_STEAL_NONE, WEIR_STEAL_NONE};
	plan->next_id = 1;
	plan->workers = calloc(workers, sizeof(plan->workers[0]));
	plan->tasks = calloc(tasks > 0 ? tasks : 1, sizeof(plan->tasks[0]));
	plan->thieves = calloc(workers, sizeof(plan->thieves[0]));
	plan->victims = calloc(workers, sizeof(plan->victims[0]));
	if (plan->workers == NULL || plan->tasks == NULL || plan->thieves == NULL ||
		plan->victims == NULL) {
		weir_steal_plan_free(plan);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < workers; i++) {
		plan->workers[i].threads = 1;
		plan->workers[i].place = WEIR_STEAL_NONE;
		for (unsigned int level = 0; level < WEIR_STEAL_LEVELS; level++) {
			plan->workers[i].bins[level] =
				(struct weir_steal_list){WEIR_STEAL_NONE, WEIR_STEAL_NONE};
		}
	}
	for (uint32_t i = 0; i < tasks; i++) {
		plan->tasks[i].worker = WEIR_STEAL_NONE;
		plan->tasks[i].level = WEIR_STEAL_NO_LEVEL;
	}
	*ret = plan;
	return 0;
}

void weir_steal_plan_free(struct weir_steal_plan *plan) {
	if (plan == NULL) {
		return;
	}
	free(plan->workers);
	free(plan->tasks);
	free(plan->thieves);
	free(plan->victims);
	free(plan);
}

void weir_steal_plan_worker(struct weir_steal_plan *plan, uint32_t worker, uint32_t threads,
	bool running, double stored) {
	struct weir_steal_worker *w = &plan->workers[worker];

	w->threads = threads;
	w->running = running;
	w->stored = stored;
}

void weir_steal_plan_set_transfer(
	struct weir_steal_plan *plan, weir_steal_transfer transfer, void *context) {
	plan->transfer = transfer;
	plan->context = context;
}

// --- lists of tasks -----------------------------------------------------------------------

static struct weir_steal_link *bin_link(struct weir_steal_plan *plan, uint32_t task) {
	return &plan->tasks[task].bin;
}

static struct weir_steal_link *flight_link(struct weir_steal_plan *plan, uint32_t task) {
	return &plan->tasks[task].flight;
}

typedef struct weir_steal_link *(*link_of)(struct weir_steal_plan *plan, uint32_t task);

static void append(
	struct weir_steal_plan *plan, struct weir_steal_list *list, link_of of, uint32_t task) {
	*of(plan, task) = (struct weir_steal_link){list->last, WEIR_STEAL_NONE};
	if (list->last != WEIR_STEAL_NONE) {
		of(plan, list->last)->after = task;
	} else {
		list->first = task;
	}
	list->last = task;
}

static void unlink_from(
	struct weir_steal_plan *plan, struct weir_steal_list *list, link_of of, uint32_t task) {
	struct weir_steal_link at = *of(plan, task);

	*(at.before != WEIR_STEAL_NONE ? &of(plan, at.before)->after : &list->first) = at.after;
	*(at.after != WEIR_STEAL_NONE ? &of(plan, at.after)->before : &list->last) = at.before;
}

// --- tasks --------------------------------------------------------------------------------

uint8_t weir_steal_level(double duration, double transfer, double latency) {
	double level;

	if (transfer < 0) {
		return 0;
	}
	level = nearbyint(log2((transfer + latency) / duration) + LEVEL_OF_EVEN);
	if (!(level < WEIR_STEAL_LEVELS)) { // also true for NaN
		return WEIR_STEAL_NO_LEVEL;
	}
	return level < 1 ? 1 : (uint8_t)level;
}

static void leave_bin(struct weir_steal_plan *plan, uint32_t task) {
	struct weir_steal_slot *t = &plan->tasks[task];

	if (t->level != WEIR_STEAL_NO_LEVEL) {
		unlink_from(plan, &plan->workers[t->worker].bins[t->level], bin_link, task);
		t->level = WEIR_STEAL_NO_LEVEL;
	}
}

// Moves the task to the bin of its level. A task without a level is in no bin.
static void sort_in(struct weir_steal_plan *plan, uint32_t task) {
	struct weir_steal_slot *t = &plan->tasks[task];
	uint8_t level = WEIR_STEAL_NO_LEVEL;

	if (!t->fixed && !t->begun && !t->refused && t->id == 0) {
		level = weir_steal_level(t->duration, t->transfer, plan->params.latency);
	}
	if (level == t->level) {
		return;
	}
	leave_bin(plan, task);
	t->level = level;
	if (level != WEIR_STEAL_NO_LEVEL) {
		append(plan, &plan->workers[t->worker].bins[level], bin_link, task);
	}
}

double weir_steal_cost_at(const struct weir_steal_plan *plan, uint32_t task, uint32_t worker) {
	const struct weir_steal_slot *t = &plan->tasks[task];

	if (plan->transfer != NULL) {
		return plan->transfer(plan->context, task, worker);
	}
	return worker == t->worker || t->transfer < 0 ? 0 : t->transfer;
}

// Returns the work that the task adds to a worker.
static double burden_at(const struct weir_steal_plan *plan, uint32_t task, uint32_t worker) {
	return plan->tasks[task].duration +
	       (plan->params.parallel ? 0 : weir_steal_cost_at(plan, task, worker));
}

// Changes the work and the number of tasks of a worker. Without tasks, the work is set to 0, to
// remove rounding errors.
static void burden(struct weir_steal_worker *worker, double change, int32_t tasks) {
	worker->tasks += (uint32_t)tasks;
	worker->occupancy = worker->tasks == 0 ? 0 : worker->occupancy + change;
}

static void take_in(struct weir_steal_plan *plan, uint32_t task, uint32_t worker) {
	struct weir_steal_slot *t = &plan->tasks[task];

	t->worker = worker;
	t->burden = burden_at(plan, task, worker);
	burden(&plan->workers[worker], t->burden, 1);
	sort_in(plan, task);
}

static void give_away(struct weir_steal_plan *plan, uint32_t task) {
	struct weir_steal_slot *t = &plan->tasks[task];

	leave_bin(plan, task);
	burden(&plan->workers[t->worker], -t->burden, -1);
	t->worker = WEIR_STEAL_NONE;
}

static void learn(struct weir_steal_slot *t, const struct weir_steal_task *what) {
	t->duration = what->duration;
	t->transfer = what->transfer;
	t->allowed = what->allowed;
	t->loose = what->loose;
	t->fixed = what->fixed;
}

void weir_steal_plan_put(struct weir_steal_plan *plan, uint32_t task, uint32_t worker,
	const struct weir_steal_task *what) {
	struct weir_steal_slot *t = &plan->tasks[task];

	*t = (struct weir_steal_slot){.worker = WEIR_STEAL_NONE, .level = WEIR_STEAL_NO_LEVEL};
	learn(t, what);
	take_in(plan, task, worker);
}

void weir_steal_plan_update(
	struct weir_steal_plan *plan, uint32_t task, const struct weir_steal_task *what) {
	struct weir_steal_slot *t = &plan->tasks[task];
	double before = t->burden;

	learn(t, what);
	t->refused = false;
	t->burden = burden_at(plan, task, t->worker);
	burden(&plan->workers[t->worker], t->burden - before, 0);
	sort_in(plan, task);
}

void weir_steal_plan_begin(struct weir_steal_plan *plan, uint32_t task) {
	plan->tasks[task].begun = true;
	leave_bin(plan, task);
}

// --- requests -----------------------------------------------------------------------------

static void correct(struct weir_steal_worker *worker, double occupancy, int32_t tasks) {
	worker->tasks_correction += tasks;
	worker->correction = worker->tasks_correction == 0 ? 0 : worker->correction + occupancy;
}

static void end_request(struct weir_steal_plan *plan, uint32_t task) {
	struct weir_steal_slot *t = &plan->tasks[task];
	struct weir_steal_worker *thief = &plan->workers[t->thief];

	correct(&plan->workers[t->worker], t->victim_burden, 1);
	correct(thief, -t->thief_burden, -1);
	plan->stealing -= --thief->stealing == 0;
	plan->in_flight--;
	unlink_from(plan, &plan->flight, flight_link, task);
	t->id = 0;
}

uint32_t weir_steal_begin_request(
	struct weir_steal_plan *plan, uint32_t task, uint32_t thief, double now) {
	struct weir_steal_slot *t = &plan->tasks[task];

	leave_bin(plan, task);
	t->thief = thief;
	t->requested_at = now;
	t->victim_burden = burden_at(plan, task, t->worker);
	t->thief_burden = burden_at(plan, task, thief);
	t->id = plan->next_id;
	plan->next_id += plan->next_id == UINT32_MAX ? 2 : 1; // never 0
	correct(&plan->workers[t->worker], -t->victim_burden, -1);
	correct(&plan->workers[thief], t->thief_burden, 1);
	plan->stealing += plan->workers[thief].stealing++ == 0;
	plan->in_flight++;
	append(plan, &plan->flight, flight_link, task);
	return t->id;
}

void weir_steal_plan_remove(struct weir_steal_plan *plan, uint32_t task) {
	if (plan->tasks[task].worker == WEIR_STEAL_NONE) {
		return;
	}
	if (plan->tasks[task].id != 0) {
		end_request(plan, task);
	}
	give_away(plan, task);
}

static void back_off(struct weir_steal_plan *plan, struct weir_steal_worker *thief, double now) {
	double pause =
		ldexp(plan->params.backoff, (int)(thief->refusals < 60 ? thief->refusals : 60));

	thief->refusals++;
	thief->not_before = now + fmin(pause, plan->params.backoff_max);
}

enum weir_steal_outcome weir_steal_plan_answer(struct weir_steal_plan *plan, uint32_t task,
	uint32_t id, enum weir_steal_answer answer, bool thief_alive, double now) {
	struct weir_steal_slot *t = &plan->tasks[task < plan->task_count ? task : 0];
	uint32_t thief = t->thief;

	if (task >= plan->task_count || t->worker == WEIR_STEAL_NONE || t->id == 0) {
		return WEIR_STEAL_LATE;
	}
	if (t->id != id) {
		return WEIR_STEAL_STALE;
	}
	end_request(plan, task);
	if (answer == WEIR_STEAL_RUNNING) {
		t->refused = true;
		back_off(plan, &plan->workers[thief], now);
		return WEIR_STEAL_STAYED;
	}
	give_away(plan, task);
	if (answer != WEIR_STEAL_GIVEN_UP || !thief_alive) {
		return WEIR_STEAL_HOMELESS;
	}
	plan->workers[thief].refusals = 0;
	t->moved = true;
	t->moved_at = now;
	take_in(plan, task, thief);
	return WEIR_STEAL_MOVED;
}

uint32_t weir_steal_plan_expire(struct weir_steal_plan *plan, double now) {
	uint32_t task = plan->flight.first;

	if (task == WEIR_STEAL_NONE ||
		now - plan->tasks[task].requested_at < plan->params.answer_limit) {
		return WEIR_STEAL_NONE;
	}
	end_request(plan, task);
	plan->tasks[task].refused = true;
	back_off(plan, &plan->workers[plan->tasks[task].thief], now);
	return task;
}

// --- introspection ------------------------------------------------------------------------

bool weir_steal_plan_is_idle(const struct weir_steal_plan *plan, uint32_t worker) {
	return plan->workers[worker].idle;
}

bool weir_steal_plan_is_saturated(const struct weir_steal_plan *plan, uint32_t worker) {
	return plan->workers[worker].saturated;
}

uint32_t weir_steal_plan_owner(const struct weir_steal_plan *plan, uint32_t task) {
	return plan->tasks[task].worker;
}

uint32_t weir_steal_plan_in_flight(const struct weir_steal_plan *plan) {
	return plan->in_flight;
}

double weir_steal_plan_occupancy(const struct weir_steal_plan *plan, uint32_t worker) {
	return plan->workers[worker].occupancy;
}

double weir_steal_plan_correction(const struct weir_steal_plan *plan, uint32_t worker) {
	return plan->workers[worker].correction;
}
