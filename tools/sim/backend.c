// SPDX-License-Identifier: BSD-3-Clause
//
// Backends: the load of their processors, and their load reports.
#include <errno.h>
#include <stdlib.h>

#include "simulation_private.h"
#include "table.h"

#define FIRST_ROOM 64u
#define SECOND_NS 1e9

static void init_backend(struct weir_sim *sim, uint32_t index) {
	const struct weir_sim_scenario *scenario = sim->scenario;
	struct weir_sim_backend *backend = &sim->backend[index];
	uint64_t interval_ns = scenario->reports.interval_ns;
	const struct weir_sim_numbers *speeds = &scenario->backends.speeds;

	backend->base_speed = speeds->value[index % speeds->count];
	backend->slow = backend->antagonist = backend->warm = 1.0;
	backend->cpu_event_ns = WEIR_SIM_NEVER;
	backend->prng = weir_sim_stream(sim->seed, WEIR_SIM_STREAM_BACKEND, index);
	weir_sim_cpu_init(&backend->cpu, scenario->backends.cores,
		scenario->backends.scheduling == WEIR_SIM_SCHEDULING_SHARING, backend->base_speed,
		scenario->backends.queue);
	// Backends report at different times.
	weir_sim_schedule(sim, interval_ns * (index + 1) / scenario->backends.count,
		WEIR_SIM_EVENT_REPORT, index);
}

int weir_sim_backends_init(struct weir_sim *sim) {
	const struct weir_sim_scenario *scenario = sim->scenario;
	uint32_t count = scenario->backends.count;

	sim->backend = calloc(count, sizeof(*sim->backend));
	if (sim->backend == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		init_backend(sim, i);
	}
	sim->antagonists = weir_sim_stream(sim->seed, WEIR_SIM_STREAM_ANTAGONISTS, 0);
	if (scenario->antagonists.interval_ns > 0) {
		weir_sim_backends_antagonise(sim);
	}
	return sim->error;
}

void weir_sim_backends_fini(struct weir_sim *sim) {
	for (uint32_t i = 0; sim->backend != NULL && i < sim->scenario->backends.count; i++) {
		weir_sim_cpu_fini(&sim->backend[i].cpu);
		weir_moving_free(sim->backend[i].moving);
	}
	free(sim->backend);
}

void weir_sim_backend_plan(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_backend *backend = &sim->backend[index];
	uint64_t next_ns = weir_sim_cpu_next(&backend->cpu);

	// Schedule a new event only if the scheduled event is too late. If the scheduled event is
	// too early, its handler schedules the next event.
	if (next_ns < backend->cpu_event_ns) {
		backend->cpu_event_ns = next_ns;
		weir_sim_schedule(sim, next_ns, WEIR_SIM_EVENT_CPU, index);
	}
}

bool weir_sim_backend_is_due(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_backend *backend = &sim->backend[index];

	if (backend->cpu_event_ns != sim->now_ns) {
		return false;
	}
	backend->cpu_event_ns = WEIR_SIM_NEVER;
	return true;
}

bool weir_sim_backend_work(struct weir_sim *sim, uint32_t index, uint32_t request, double cost_ns) {
	int r = weir_sim_cpu_add(&sim->backend[index].cpu, sim->now_ns, request, cost_ns);

	if (r == -ENOMEM) {
		weir_sim_fail(sim, r);
	} else if (r < 0) {
		return false;
	} else {
		weir_sim_backend_plan(sim, index);
	}
	return true;
}

void weir_sim_backend_set_speed(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_backend *backend = &sim->backend[index];

	weir_sim_cpu_set_speed(&backend->cpu, sim->now_ns,
		backend->base_speed * backend->slow * backend->antagonist * backend->warm);
	weir_sim_backend_plan(sim, index);
}

void weir_sim_backends_antagonise(struct weir_sim *sim) {
	const struct weir_sim_scenario *scenario = sim->scenario;

	for (uint32_t i = 0; i < scenario->backends.count; i++) {
		bool has = weir_sim_uniform(&sim->antagonists) < scenario->antagonists.probability;

		sim->backend[i].antagonist = has ? 1.0 - scenario->antagonists.slowdown : 1.0;
		weir_sim_backend_set_speed(sim, i);
	}
	weir_sim_schedule(sim, sim->now_ns + scenario->antagonists.interval_ns,
		WEIR_SIM_EVENT_ANTAGONISTS, 0);
}

static uint32_t take_delivery(struct weir_sim *sim) {
	uint32_t index = sim->delivery_free;

	if (index != WEIR_SIM_NONE) {
		sim->delivery_free = sim->delivery[index].next_free;
		return index;
	}
	if (sim->delivery_count == sim->delivery_room) {
		uint32_t room = sim->delivery_room > 0 ? sim->delivery_room * 2 : FIRST_ROOM;
		void *grown = realloc(sim->delivery, room * sizeof(*sim->delivery));

		if (grown == NULL) {
			weir_sim_fail(sim, -ENOMEM);
			return WEIR_SIM_NONE;
		}
		sim->delivery = grown;
		sim->delivery_room = room;
	}
	return sim->delivery_count++;
}

static void send(struct weir_sim *sim, uint32_t index, double interval_ns, double busy_ns) {
	struct weir_sim_backend *backend = &sim->backend[index];
	uint32_t delivery = take_delivery(sim);
	double seconds = interval_ns / SECOND_NS;
	uint64_t good = backend->good - backend->reported_good;

	if (delivery == WEIR_SIM_NONE) {
		return;
	}
	sim->delivery[delivery] = (struct weir_sim_delivery){.backend = index,
		.lives = backend->lives,
		.sent_ns = sim->now_ns,
		.active = backend->active,
		.latency_ns =
			good > 0 ? (backend->latency_sum_ns - backend->reported_latency_sum_ns) /
					   (double)good
				 : 0,
		.report = {
			.requests_per_second =
				(double)(backend->finished - backend->reported_finished) / seconds,
			.errors_per_second =
				(double)(backend->failed - backend->reported_failed) / seconds,
			.utilization =
				busy_ns / (interval_ns * (double)sim->scenario->backends.cores)}};
	weir_sim_schedule(sim, sim->now_ns + sim->scenario->reports.delay_ns,
		WEIR_SIM_EVENT_DELIVERY, delivery);
}

void weir_sim_backend_report(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_backend *backend = &sim->backend[index];
	double busy_ns = weir_sim_cpu_busy(&backend->cpu, sim->now_ns);
	double interval_ns = (double)(sim->now_ns - backend->reported_ns);
	bool lost = weir_sim_uniform(&backend->prng) * 100.0 < sim->scenario->reports.loss_percent;

	if (backend->listed && !backend->down && !lost && interval_ns > 0) {
		send(sim, index, interval_ns, busy_ns - backend->reported_busy_ns);
	}
	backend->reported_busy_ns = busy_ns;
	backend->reported_finished = backend->finished;
	backend->reported_failed = backend->failed;
	backend->reported_good = backend->good;
	backend->reported_latency_sum_ns = backend->latency_sum_ns;
	backend->reported_ns = sim->now_ns;
	weir_sim_schedule(sim, sim->now_ns + sim->scenario->reports.interval_ns,
		WEIR_SIM_EVENT_REPORT, index);
}

void weir_sim_report_deliver(struct weir_sim *sim, uint32_t delivery) {
	struct weir_sim_delivery *report = &sim->delivery[delivery];
	struct weir_sim_backend *backend = &sim->backend[report->backend];
	const struct weir_balanced_settings balanced = weir_balanced_defaults();

	// Ignore a report that the backend sent before it restarted.
	if (report->lives == backend->lives) {
		weir_capability_add(&backend->capability, &sim->policy->capability, &report->report,
			sim->now_ns);
		if (sim->scenario->reports.active) {
			weir_sim_table_take_active(sim, report->backend, report->active);
		}
		backend->probe_ns = report->sent_ns;
		backend->probe_active = report->active;
		if (report->latency_ns > 0) {
			backend->probe_latency_ns = (uint64_t)report->latency_ns;
		}
		weir_balanced_report(&backend->load, &balanced, report->report.utilization,
			report->report.requests_per_second, report->report.errors_per_second,
			sim->now_ns);
		if (sim->scenario->reports.errors) {
			weir_reported_errors_add(&backend->errors,
				report->report.requests_per_second,
				report->report.errors_per_second, weir_sim_error_window_ns(sim),
				sim->now_ns);
		}
	}
	report->next_free = sim->delivery_free;
	sim->delivery_free = delivery;
}
