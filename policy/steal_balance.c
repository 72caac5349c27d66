// SPDX-License-Identifier: BSD-3-Clause
#include <math.h>
#include <stddef.h>

#include "steal_plan_private.h"

// If no worker is saturated, at most this many of the most loaded workers are victims.
#define FALLBACK_VICTIMS 10u
// With fewer saturated workers than this, victims are sorted by load and tried from the highest
// load to the lowest.
#define SORTED_VICTIMS 20u

// --- idle and saturated workers -----------------------------------------------------------

static double combined(const struct weir_steal_worker *worker) {
	return worker->occupancy + worker->correction;
}

static uint32_t combined_tasks(const struct weir_steal_worker *worker) {
	return worker->tasks + (uint32_t)worker->tasks_correction;
}

static double mean_per_thread(const struct weir_steal_plan *plan) {
	return plan->total_threads > 0 ? plan->total_occupancy / plan->total_threads : 0;
}

static bool has_too_little(const struct weir_steal_plan *plan, const struct weir_steal_worker *w,
	double occupancy, uint32_t tasks) {
	return w->running && (tasks < w->threads || occupancy < w->threads * mean_per_thread(plan) *
									plan->params.idle_ratio);
}

static void classify(
	const struct weir_steal_plan *plan, struct weir_steal_worker *w, double occupancy) {
	double tasks = w->tasks, threads = w->threads, pending;

	w->idle = has_too_little(plan, w, occupancy, w->tasks);
	w->saturated = false;
	if (!w->idle && w->running && tasks > threads) {
		pending = occupancy * (tasks - threads) / (tasks * threads);
		w->saturated = pending > plan->params.pending_floor &&
			       pending > plan->params.pending_ratio * mean_per_thread(plan);
	}
}

static void classify_all(struct weir_steal_plan *plan) {
	plan->total_occupancy = plan->total_threads = 0;
	for (uint32_t i = 0; i < plan->worker_count; i++) {
		const struct weir_steal_worker *w = &plan->workers[i];

		if (w->running || plan->params.all_in_mean) {
			plan->total_occupancy += w->occupancy;
			plan->total_threads += w->threads;
		}
	}
	for (uint32_t i = 0; i < plan->worker_count; i++) {
		classify(plan, &plan->workers[i], plan->workers[i].occupancy);
	}
}

// --- thieves ------------------------------------------------------------------------------

// Returns whether thief a would begin a task sooner than thief b. cost_a, cost_b: cost of the
// transfer to each thief.
static bool sooner(
	const struct weir_steal_plan *plan, uint32_t a, uint32_t b, double cost_a, double cost_b) {
	const struct weir_steal_worker *wa = &plan->workers[a], *wb = &plan->workers[b];
	double start_a = combined(wa) / wa->threads + cost_a;
	double start_b = combined(wb) / wb->threads + cost_b;

	if (start_a != start_b) {
		return start_a < start_b;
	}
	return wa->stored != wb->stored ? wa->stored < wb->stored : a < b;
}

static void place(struct weir_steal_plan *plan, uint32_t i, uint32_t worker) {
	plan->thieves[i] = worker;
	plan->workers[worker].place = i;
}

static void sift_down(struct weir_steal_plan *plan, uint32_t i) {
	uint32_t worker = plan->thieves[i];

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < plan->thief_count &&
			sooner(plan, plan->thieves[child + 1], plan->thieves[child], 0, 0)) {
			child++;
		}
		if (child >= plan->thief_count ||
			!sooner(plan, plan->thieves[child], worker, 0, 0)) {
			break;
		}
		place(plan, i, plan->thieves[child]);
		i = child;
	}
	place(plan, i, worker);
}

static void sift_up(struct weir_steal_plan *plan, uint32_t i) {
	uint32_t worker = plan->thieves[i];

	while (i > 0 && sooner(plan, worker, plan->thieves[(i - 1) / 2], 0, 0)) {
		place(plan, i, plan->thieves[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(plan, i, worker);
}

static void drop_thief(struct weir_steal_plan *plan, uint32_t worker) {
	uint32_t i = plan->workers[worker].place;
	uint32_t last = plan->thieves[--plan->thief_count];

	plan->workers[worker].place = WEIR_STEAL_NONE;
	if (last != worker) {
		place(plan, i, last);
		sift_down(plan, i);
		sift_up(plan, plan->workers[last].place);
	}
}

// Returns true if the maximum number of workers are already stealing. Then no other worker is
// allowed to begin.
static bool enough_steal(const struct weir_steal_plan *plan) {
	return plan->stealing >= (uint32_t)ceil(plan->params.steal_share * plan->worker_count);
}

static bool may_steal(const struct weir_steal_plan *plan, uint32_t worker) {
	return plan->workers[worker].stealing > 0 || !enough_steal(plan);
}

static void keep_those_who_may(struct weir_steal_plan *plan) {
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->thief_count; i++) {
		uint32_t worker = plan->thieves[i];

		plan->workers[worker].place = WEIR_STEAL_NONE;
		if (may_steal(plan, worker)) {
			place(plan, n++, worker);
		}
	}
	plan->thief_count = n;
	for (uint32_t i = n / 2; i-- > 0;) {
		sift_down(plan, i);
	}
}

// Writes the idle workers that are allowed to steal now to plan->thieves. Returns the number of
// all idle workers.
static uint32_t gather_thieves(struct weir_steal_plan *plan, double now) {
	uint32_t idle = 0;

	plan->thief_count = 0;
	for (uint32_t i = 0; i < plan->worker_count; i++) {
		struct weir_steal_worker *w = &plan->workers[i];

		w->place = WEIR_STEAL_NONE;
		idle += w->idle;
		if (w->idle && now >= w->not_before) {
			place(plan, plan->thief_count++, i);
		}
	}
	keep_those_who_may(plan);
	return idle;
}

static bool is_allowed(const struct weir_steal_slot *t, uint32_t worker) {
	return (t->allowed[worker / 64] >> (worker % 64) & 1) != 0;
}

// Finds the best thief for a task by a scan of all thieves.
static uint32_t search_thief(const struct weir_steal_plan *plan, uint32_t task,
	const struct weir_steal_slot *restricted) {
	uint32_t best = WEIR_STEAL_NONE;
	double best_cost = 0;

	for (uint32_t i = 0; i < plan->thief_count; i++) {
		uint32_t worker = plan->thieves[i];
		double cost = weir_steal_cost_at(plan, task, worker);

		if ((restricted == NULL || is_allowed(restricted, worker)) &&
			(best == WEIR_STEAL_NONE || sooner(plan, worker, best, cost, best_cost))) {
			best = worker;
			best_cost = cost;
		}
	}
	return best;
}

// Returns the best thief for a restricted task if moving the task costs the same for all thieves.
// This is the allowed thief that would begin the task first. No thief would begin sooner than its
// parent in the heap. Therefore the children of an allowed thief need not be visited.
static uint32_t first_allowed(
	const struct weir_steal_plan *plan, const struct weir_steal_slot *restricted) {
	// The heap has fewer than 32 levels, so `left` cannot overflow.
	uint32_t best = WEIR_STEAL_NONE, left[64] = {0}, count = 1;

	while (count > 0) {
		uint32_t i = left[--count];

		if (i >= plan->thief_count ||
			(best != WEIR_STEAL_NONE && !sooner(plan, plan->thieves[i], best, 0, 0))) {
			continue;
		}
		if (is_allowed(restricted, plan->thieves[i])) {
			best = plan->thieves[i];
		} else {
			left[count++] = 2 * i + 2;
			left[count++] = 2 * i + 1;
		}
	}
	return best;
}

static uint32_t find_thief(const struct weir_steal_plan *plan, uint32_t task) {
	const struct weir_steal_slot *t = &plan->tasks[task];
	uint32_t found;

	if (t->allowed != NULL) {
		found = plan->transfer == NULL ? first_allowed(plan, t)
					       : search_thief(plan, task, t);
		if (found != WEIR_STEAL_NONE || !t->loose) {
			return found;
		}
	}
	// Without a transfer function, the cost is the same for all thieves, so the thief at the
	// top of the heap begins first.
	return plan->transfer == NULL ? plan->thieves[0] : search_thief(plan, task, NULL);
}

// --- victims ------------------------------------------------------------------------------

// Inserts a worker into the list of victims, which is sorted from the highest load to the lowest.
// Keeps only the first `most` victims.
static void insert_victim(struct weir_steal_plan *plan, uint32_t worker, uint32_t most) {
	uint32_t i = plan->victim_count;
	double occupancy = combined(&plan->workers[worker]);

	while (i > 0 && combined(&plan->workers[plan->victims[i - 1]]) < occupancy) {
		if (i < most) {
			plan->victims[i] = plan->victims[i - 1];
		}
		i--;
	}
	if (i < most) {
		plan->victims[i] = worker;
		plan->victim_count += plan->victim_count < most;
	}
}

static void gather_burdened(struct weir_steal_plan *plan) {
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->worker_count; i++) {
		if (plan->workers[i].running) {
			insert_victim(plan, i, FALLBACK_VICTIMS);
		}
	}
	for (uint32_t i = 0; i < plan->victim_count; i++) {
		const struct weir_steal_worker *w = &plan->workers[plan->victims[i]];

		if (combined(w) > plan->params.victim_floor && !w->idle &&
			combined_tasks(w) > w->threads) {
			plan->victims[n++] = plan->victims[i];
		}
	}
	plan->victim_count = n;
}

static void gather_victims(struct weir_steal_plan *plan) {
	uint32_t saturated = 0;

	plan->victim_count = 0;
	for (uint32_t i = 0; i < plan->worker_count; i++) {
		saturated += plan->workers[i].saturated;
	}
	for (uint32_t i = 0; i < plan->worker_count && saturated > 0; i++) {
		if (plan->workers[i].saturated && saturated < SORTED_VICTIMS) {
			insert_victim(plan, i, SORTED_VICTIMS);
		} else if (plan->workers[i].saturated) {
			plan->victims[plan->victim_count++] = i;
		}
	}
	if (saturated == 0) {
		gather_burdened(plan);
	}
}

// --- the plan -----------------------------------------------------------------------------

// Requests a task if the thief's work, including the task, is at most the victim's work minus half
// of the work of the task at the victim. Returns whether the task was requested.
static bool try_task(struct weir_steal_plan *plan, uint32_t task, uint8_t level, double now,
	struct weir_steal_request *request) {
	const struct weir_steal_slot *t = &plan->tasks[task];
	struct weir_steal_worker *victim = &plan->workers[t->worker], *w;
	uint32_t thief = find_thief(plan, task);
	double at_victim = combined(victim), at_thief;

	if (thief == WEIR_STEAL_NONE || (t->moved && now - t->moved_at < plan->params.rest)) {
		return false;
	}
	w = &plan->workers[thief];
	at_thief = combined(w);
	if (at_thief + weir_steal_cost_at(plan, task, thief) + t->duration >
		at_victim - (weir_steal_cost_at(plan, task, t->worker) + t->duration) / 2) {
		return false;
	}
	*request = (struct weir_steal_request){.task = task,
		.victim = t->worker,
		.thief = thief,
		.id = weir_steal_begin_request(plan, task, thief, now),
		.level = level,
		.victim_occupancy = at_victim,
		.thief_occupancy = at_thief};
	if (!has_too_little(plan, w, combined(w), combined_tasks(w))) {
		drop_thief(plan, thief);
	} else {
		sift_down(plan, w->place);
	}
	classify(plan, victim, combined(victim));
	return true;
}

uint32_t weir_steal_plan_balance(struct weir_steal_plan *plan, double now,
	struct weir_steal_request *requests, uint32_t max) {
	uint32_t n = 0, idle, stealing = plan->stealing;

	classify_all(plan);
	idle = gather_thieves(plan, now);
	if (idle == plan->worker_count) {
		return 0;
	}
	gather_victims(plan);
	for (uint8_t level = 0; level < WEIR_STEAL_LEVELS; level++) {
		for (uint32_t v = 0; v < plan->victim_count; v++) {
			uint32_t task = plan->workers[plan->victims[v]].bins[level].first, next;

			for (; task != WEIR_STEAL_NONE && plan->thief_count > 0 && n < max;
				task = next) {
				next = plan->tasks[task].bin.after;
				n += try_task(plan, task, level, now, &requests[n]);
				if (plan->stealing != stealing && enough_steal(plan)) {
					keep_those_who_may(plan);
				}
				stealing = plan->stealing;
			}
		}
	}
	return n;
}
