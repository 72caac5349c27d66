// SPDX-License-Identifier: BSD-3-Clause
//
// The input of the steal planner, for stealing between backends: running and waiting requests, the
// costs of requests and moves, and the backends that may get a request.
#include "steal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TASKS 65536u // maximum number of tasks in the plan; further requests do not move
#define WORD 64u

static struct weir_steal_params params_of(const struct weir_sim_steal_settings *settings) {
	// latency is 0, because the move cost of each task already includes the latency.
	return (struct weir_steal_params){.latency = 0,
		.victim_floor = weir_sim_steal_seconds(settings->victim_floor_ns),
		.pending_floor = weir_sim_steal_seconds(settings->pending_floor_ns),
		.pending_ratio = settings->pending_ratio,
		.idle_ratio = settings->idle_ratio,
		.steal_share = settings->share,
		.backoff = weir_sim_steal_seconds(settings->backoff_ns),
		.backoff_max = weir_sim_steal_seconds(settings->backoff_max_ns),
		.rest = weir_sim_steal_seconds(settings->rest_ns),
		.answer_limit = weir_sim_steal_seconds(settings->answer_limit_ns)};
}

static int init_allowed(struct weir_sim *sim, struct weir_sim_steal *steal) {
	if (sim->scenario->subset.algorithm == WEIR_SUBSET_NONE) {
		return 0;
	}
	steal->words = (sim->scenario->backends.count + WORD - 1) / WORD;
	steal->allowed = calloc(
		(size_t)sim->scenario->clients.count * steal->words, sizeof(*steal->allowed));
	return steal->allowed == NULL ? -ENOMEM : 0;
}

int weir_sim_steal_init(struct weir_sim *sim) {
	const struct weir_sim_steal_settings *settings = &sim->scenario->steal;
	struct weir_steal_params params = params_of(settings);
	struct weir_sim_steal *steal;

	if (!settings->on) {
		return 0;
	}
	steal = calloc(1, sizeof(*steal));
	sim->steal = steal;
	if (steal == NULL) {
		return -ENOMEM;
	}
	steal->task_free = steal->message_free = WEIR_SIM_NONE;
	steal->prng = weir_sim_stream(sim->seed, WEIR_SIM_STREAM_STEAL, 0);
	steal->task = calloc(TASKS, sizeof(*steal->task));
	steal->requests = calloc(settings->requests, sizeof(*steal->requests));
	steal->duration = calloc(sim->scenario->backends.count, sizeof(*steal->duration));
	for (uint32_t i = 0; steal->duration != NULL && i < sim->scenario->backends.count; i++) {
		weir_steal_duration_init(&steal->duration[i]);
	}
	if (steal->task == NULL || steal->requests == NULL || steal->duration == NULL ||
		init_allowed(sim, steal) < 0 ||
		weir_steal_plan_create(
			&params, sim->scenario->backends.count, TASKS, &steal->plan) < 0) {
		return -ENOMEM;
	}
	weir_sim_schedule(sim, settings->interval_ns, WEIR_SIM_EVENT_STEAL_PLAN, 0);
	return sim->error;
}

void weir_sim_steal_fini(struct weir_sim *sim) {
	struct weir_sim_steal *steal = sim->steal;

	if (steal == NULL) {
		return;
	}
	weir_steal_plan_free(steal->plan);
	free(steal->allowed);
	free(steal->duration);
	free(steal->requests);
	free(steal->message);
	free(steal->task);
	free(steal);
}

// --- input of the plan ----------------------------------------------------------------

uint64_t weir_sim_steal_retransmission_ns(const struct weir_sim *sim, uint64_t start_ns) {
	uint64_t step_ns = sim->scenario->steal.retransmit_ns;
	uint64_t at_ns = start_ns + step_ns;

	while (at_ns <= sim->now_ns) {
		step_ns *= 2;
		at_ns += step_ns;
	}
	return at_ns;
}

static struct weir_steal_duration *duration_of(const struct weir_sim *sim, uint32_t backend) {
	return &sim->steal->duration[sim->scenario->steal.by_backend ? backend : 0];
}

// Returns a bit set of the backends that may get the request; NULL = all backends.
static const uint64_t *allowed_of(
	const struct weir_sim_steal *steal, const struct weir_sim_request *request) {
	return steal->allowed != NULL ? &steal->allowed[(size_t)request->client * steal->words]
				      : NULL;
}

// Describes a request as a task for the steal planner. The cost of a move is the time of the round
// trip to the victim. If the request moves with the client's next retransmission, the wait for the
// retransmission is added. If the planner ignores costs, all tasks have the same duration and moves
// cost nothing.
static struct weir_steal_task describe(
	const struct weir_sim *sim, const struct weir_sim_request *request) {
	const struct weir_sim_steal *steal = sim->steal;
	const struct weir_sim_steal_settings *settings = &sim->scenario->steal;
	double transfer = 2 * weir_sim_steal_seconds(settings->latency_ns);

	if (settings->delivery == WEIR_SIM_DELIVERY_RETRANSMISSION) {
		transfer += weir_sim_steal_seconds(
			weir_sim_steal_retransmission_ns(sim, request->start_ns) - sim->now_ns);
	}
	if (!settings->costs) {
		return (struct weir_steal_task){
			.duration = 1, .transfer = -1, .allowed = allowed_of(steal, request)};
	}
	return (struct weir_steal_task){
		.duration = weir_steal_duration_estimate(duration_of(sim, request->backend),
			weir_sim_steal_seconds(settings->unknown_ns)),
		.transfer = transfer > 0 ? transfer : -1,
		.allowed = allowed_of(steal, request)};
}

static uint32_t take_task(struct weir_sim_steal *steal) {
	uint32_t task = steal->task_free;

	if (task != WEIR_SIM_NONE) {
		steal->task_free = steal->task[task].next_free;
		return task;
	}
	return steal->task_count < TASKS ? steal->task_count++ : WEIR_SIM_NONE;
}

static void put(struct weir_sim *sim, uint32_t index, bool begun) {
	struct weir_sim_request *request = &sim->request[index];
	struct weir_sim_steal *steal = sim->steal;
	struct weir_steal_task what = describe(sim, request);

	if (request->task == WEIR_SIM_NONE) {
		request->task = take_task(steal);
		if (request->task == WEIR_SIM_NONE) {
			return;
		}
		steal->task[request->task] = (struct weir_sim_steal_task){.request = index};
		weir_steal_plan_put(steal->plan, request->task, request->backend, &what);
	} else if (!begun && sim->scenario->steal.delivery == WEIR_SIM_DELIVERY_RETRANSMISSION) {
		weir_steal_plan_update(steal->plan, request->task, &what);
	}
	if (begun && sim->scenario->steal.excludes_running && !steal->task[request->task].begun) {
		steal->task[request->task].begun = true;
		weir_steal_plan_begin(steal->plan, request->task);
	}
}

// Adds the current requests of each backend to the plan. If requests move with a retransmission,
// also updates the waiting requests that are in the plan already, because their costs change.
static void look_at_backends(struct weir_sim *sim) {
	for (uint32_t i = 0; i < sim->scenario->backends.count; i++) {
		const struct weir_sim_backend *backend = &sim->backend[i];

		weir_steal_plan_worker(sim->steal->plan, i, backend->cpu.cores, sim->usable[i], 0);
		for (uint32_t k = 0; k < backend->cpu.running_count; k++) {
			put(sim, weir_sim_cpu_running(&backend->cpu, k), true);
		}
		for (uint32_t k = 0; k < backend->cpu.waiting_count; k++) {
			put(sim, weir_sim_cpu_waiting(&backend->cpu, k), false);
		}
	}
}

static void look_at_subsets(struct weir_sim *sim) {
	struct weir_sim_steal *steal = sim->steal;

	if (steal->allowed == NULL) {
		return;
	}
	memset(steal->allowed, 0,
		(size_t)sim->scenario->clients.count * steal->words * sizeof(*steal->allowed));
	for (uint32_t i = 0; i < sim->scenario->clients.count; i++) {
		const struct weir_sim_client *client = &sim->client[i];
		uint64_t *bits = &steal->allowed[(size_t)i * steal->words];

		for (uint32_t k = 0; k < client->slot_count; k++) {
			uint32_t backend = client->slot[k].backend;

			if (client->slot[k].member) {
				bits[backend / WORD] |= UINT64_C(1) << (backend % WORD);
			}
		}
	}
}

void weir_sim_steal_look(struct weir_sim *sim) {
	look_at_subsets(sim);
	look_at_backends(sim);
}

void weir_sim_steal_worked(struct weir_sim *sim, const struct weir_sim_request *request) {
	double busy_ns = request->cost_ns / sim->backend[request->backend].cpu.speed;

	if (sim->steal != NULL) {
		weir_steal_duration_ended(duration_of(sim, request->backend), busy_ns / 1e9);
	}
}

void weir_sim_steal_gone(struct weir_sim *sim, struct weir_sim_request *request) {
	struct weir_sim_steal *steal = sim->steal;

	if (steal == NULL || request->task == WEIR_SIM_NONE) {
		return;
	}
	weir_steal_plan_remove(steal->plan, request->task);
	steal->task[request->task].requested = 0;
	steal->task[request->task].next_free = steal->task_free;
	steal->task_free = request->task;
	request->task = WEIR_SIM_NONE;
}
