// SPDX-License-Identifier: BSD-3-Clause
#include "simulation.h"

#include <errno.h>
#include <stdlib.h>

#include "simulation_private.h"
#include "workers.h"

static void dispatch(struct weir_sim *sim, const struct weir_sim_event *event) {
	switch ((enum weir_sim_event_kind)event->kind) {
	case WEIR_SIM_EVENT_ARRIVAL:
		weir_sim_client_arrival(sim, event->index);
		break;
	case WEIR_SIM_EVENT_REQUEST:
		weir_sim_request_event(sim, event->index);
		break;
	case WEIR_SIM_EVENT_CPU:
		weir_sim_request_cpu(sim, event->index);
		break;
	case WEIR_SIM_EVENT_TIMEOUT:
		weir_sim_requests_timeout(sim);
		break;
	case WEIR_SIM_EVENT_REPORT:
		weir_sim_backend_report(sim, event->index);
		break;
	case WEIR_SIM_EVENT_DELIVERY:
		weir_sim_report_deliver(sim, event->index);
		break;
	case WEIR_SIM_EVENT_UPDATE:
		weir_sim_client_update(sim, event->index);
		break;
	case WEIR_SIM_EVENT_ANTAGONISTS:
		weir_sim_backends_antagonise(sim);
		break;
	case WEIR_SIM_EVENT_ACTION:
		weir_sim_script_act(sim, event->index);
		break;
	case WEIR_SIM_EVENT_SAMPLE:
		weir_sim_metrics_sample(sim);
		break;
	case WEIR_SIM_EVENT_WINDOW_BEGIN:
		weir_sim_metrics_begin(sim, event->index);
		break;
	case WEIR_SIM_EVENT_WINDOW_END:
		weir_sim_metrics_end(sim, event->index);
		break;
	case WEIR_SIM_EVENT_STEAL_PLAN:
		weir_sim_steal_plan(sim);
		break;
	case WEIR_SIM_EVENT_STEAL_ASK:
		weir_sim_steal_request(sim, event->index);
		break;
	case WEIR_SIM_EVENT_STEAL_ANSWER:
		weir_sim_steal_answer(sim, event->index);
		break;
	}
}

// Prefetch the memory that the next event needs first.
static void prefetch_next(const struct weir_sim *sim) {
	const struct weir_sim_event *next = sim->queue.event;

	if (sim->queue.count == 0) {
		return;
	}
	if (next->kind == WEIR_SIM_EVENT_REQUEST) {
		__builtin_prefetch(&sim->request[next->index]);
	} else if (next->kind == WEIR_SIM_EVENT_CPU) {
		__builtin_prefetch(&sim->backend[next->index]);
	} else if (next->kind == WEIR_SIM_EVENT_ARRIVAL) {
		__builtin_prefetch(&sim->client[next->index].prng);
		__builtin_prefetch(&sim->client[next->index].worker);
	}
}

static void loop(struct weir_sim *sim, atomic_ullong *progress) {
	double step_ns = (double)sim->scenario->duration_ns / 1000.0;
	unsigned int reported = 0;
	struct weir_sim_event event;

	while (sim->error == 0 && weir_sim_queue_pop(&sim->queue, &event)) {
		sim->now_ns = event.time_ns;
		sim->events++;
		prefetch_next(sim);
		dispatch(sim, &event);
		if (progress != NULL && (sim->events & 0x3ff) == 0) {
			unsigned int done = (unsigned int)((double)sim->now_ns / step_ns);

			atomic_fetch_add_explicit(progress, done - reported, memory_order_relaxed);
			reported = done;
		}
	}
	if (progress != NULL) {
		atomic_fetch_add_explicit(progress, 1000 - reported, memory_order_relaxed);
	}
}

static int init(struct weir_sim *sim) {
	int r = weir_sim_metrics_init(sim);

	r = r < 0 ? r : weir_sim_backends_init(sim);
	r = r < 0 ? r : weir_sim_control_init(sim);
	r = r < 0 ? r : weir_sim_clients_init(sim);
	r = r < 0 ? r : weir_sim_steal_init(sim);
	r = r < 0 ? r : weir_sim_script_init(sim);
	return r < 0 ? r : sim->error;
}

static void fini(struct weir_sim *sim) {
	weir_sim_steal_fini(sim);
	weir_sim_clients_fini(sim);
	weir_sim_control_fini(sim);
	weir_sim_backends_fini(sim);
	weir_sim_metrics_fini(sim);
	weir_sim_queue_fini(&sim->queue);
	free(sim->request);
	free(sim->delivery);
	free(sim->action);
}

int weir_sim_run(const struct weir_sim_scenario *scenario, uint64_t seed, atomic_ullong *progress,
	struct weir_sim_result **ret) {
	struct weir_sim sim = {.scenario = scenario,
		.policy = &scenario->policy,
		.seed = seed,
		.request_free = WEIR_SIM_NONE,
		.delivery_free = WEIR_SIM_NONE,
		.oldest = WEIR_SIM_NONE,
		.newest = WEIR_SIM_NONE};
	int r;

	if (scenario->workers.count > 0) {
		return weir_sim_workers_run(scenario, seed, progress, ret);
	}
	r = init(&sim);
	if (r == 0) {
		loop(&sim, progress);
		r = sim.error;
	}
	if (r == 0) {
		sim.result->totals = sim.totals;
		sim.result->unfinished = sim.open_requests;
		sim.result->events = sim.events;
		*ret = sim.result;
		sim.result = NULL;
	}
	weir_sim_result_free(sim.result);
	fini(&sim);
	return r;
}
