// SPDX-License-Identifier: BSD-3-Clause
//
// The plan of a service: its backends are the planner's workers, connections that wait are tasks.
// The unit of work is a connection. What a backend has in its accept queue counts as one task that
// has begun, of up to QUEUE connections: whoever has a full queue has more than anybody else, so
// all that wait there may leave, however long the queues are.
#include "flow_steals_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE 16.0 // connections that a full accept queue counts as
#define ROOM_MOST 0.25 // fill of a thief's accept queue
#define REPORT_MOST_MS 5000u // an older report tells nothing about a thief
#define PAUSE_MS 1000u // for an agent that cannot help: doubled each time
#define PAUSES_MOST 6u

// A task costs nothing to carry. A thief whose victim refused waits a little.
static const struct weir_steal_params params = {.latency = 0.01,
	.victim_floor = 0,
	.pending_floor = 0,
	.pending_ratio = 1.9,
	.idle_ratio = 0.5,
	.steal_share = 1,
	.backoff = 0.1,
	.backoff_max = 1,
	.answer_limit = 1e9}; // requests end by themselves

// --- life -----------------------------------------------------------------------------------

int weir_steal_service_init(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_config_service *config) {
	int id = weir_tables_service_find(tables, config->name);

	*service = (struct steal_service){.id = id >= 0 ? (uint16_t)id : WEIR_SERVICE_NONE,
		.enabled = config->steal.enabled && id >= 0,
		.after_ms = config->steal.after_ms,
		.per_second = config->steal.per_second,
		.tokens = config->steal.per_second};
	snprintf(service->name, sizeof(service->name), "%s", config->name);
	if (!service->enabled) {
		return 0;
	}
	service->members = calloc(config->backend_count + 1, sizeof(service->members[0]));
	service->thieves = calloc(config->backend_count / 64 + 1, sizeof(service->thieves[0]));
	if (service->members == NULL || service->thieves == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < config->backend_count; i++) {
		int backend =
			weir_tables_backend_find(tables, config->name, config->backends[i].name);

		if (backend >= 0) {
			service->members[service->count++].id = (uint16_t)backend;
		}
	}
	if (service->count == 0) {
		service->enabled = false;
		return 0;
	}
	return weir_steal_plan_create(
		&params, service->count, service->count + WEIR_STEAL_WAITING, &service->plan);
}

void weir_steal_service_fini(struct steal_service *service) {
	weir_steal_plan_free(service->plan);
	free(service->thieves);
	free(service->members);
	service->plan = NULL;
	service->thieves = NULL;
	service->members = NULL;
}

// --- who has too much, who has room ---------------------------------------------------------

static bool takes_new_flows(const struct weir_backend_state *state) {
	return state->in_selection && state->resolved && !state->leaving && !state->ejected &&
	       !state->at_limit && state->admin == WEIR_ADMIN_READY &&
	       state->health == WEIR_HEALTH_HEALTHY && (state->flags & WEIR_BACKEND_CLOSED) == 0;
}

static void look_at(struct steal_service *service, struct steal_member *member,
	const struct weir_tables *tables, const struct weir_reports *reports) {
	const uint32_t fields = WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT);
	struct weir_reports_status status;
	struct weir_backend_state state;
	double queue, limit;

	member->saturated = member->thief = false;
	member->fill = 0;
	member->room = member->asked = 0;
	member->heard = false;
	if (weir_tables_backend(tables, member->id, &state) < 0 ||
		state.service_id != service->id ||
		weir_reports_status(reports, member->id, &status) < 0 ||
		(status.report->given & fields) != fields ||
		status.report->accept_queue_limit < 1) {
		return;
	}
	queue = status.report->accept_queue;
	limit = status.report->accept_queue_limit;
	member->fill = queue < limit ? queue / limit : 1;
	member->room = queue < limit ? (uint32_t)(limit - queue) : 0;
	member->saturated = status.at_limit;
	member->thief = !status.at_limit && status.age_ms <= REPORT_MOST_MS &&
			member->fill <= ROOM_MOST && takes_new_flows(&state);
}

uint32_t weir_steal_service_look(struct steal_service *service, const struct weir_tables *tables,
	const struct weir_reports *reports, uint64_t now_ms,
	uint16_t victims[WEIR_WAITING_BACKENDS]) {
	uint32_t thieves = 0, found = 0, turn = service->turn;

	service->saturated = false;
	for (uint32_t i = 0; i < service->count; i++) {
		look_at(service, &service->members[i], tables, reports);
		thieves += service->members[i].thief;
		service->saturated |= service->members[i].saturated;
	}
	for (uint32_t i = 0; i < service->count && thieves > 0 && found < WEIR_WAITING_BACKENDS;
		i++) {
		uint32_t at = (turn + i) % service->count;
		const struct steal_member *member = &service->members[at];

		if (member->saturated && now_ms >= member->paused_ms) {
			victims[found++] = member->id;
			service->turn = (at + 1) % service->count;
		}
	}
	return found;
}

// --- the plan -------------------------------------------------------------------------------

static uint32_t member_of(const struct steal_service *service, uint16_t id) {
	uint32_t i = 0;

	while (i < service->count && service->members[i].id != id) {
		i++;
	}
	return i;
}

static void put_queues(struct steal_service *service) {
	memset(service->thieves, 0, (service->count / 64 + 1) * sizeof(service->thieves[0]));
	for (uint32_t i = 0; i < service->count; i++) {
		const struct steal_member *member = &service->members[i];
		struct weir_steal_task queue = {
			.duration = member->fill * QUEUE, .transfer = -1, .fixed = true};

		weir_steal_plan_worker(
			service->plan, i, 1, member->thief || member->saturated, member->fill);
		if (member->thief) {
			service->thieves[i / 64] |= 1ull << (i % 64);
		}
		if (member->fill > 0) {
			weir_steal_plan_put(service->plan, i, i, &queue);
			weir_steal_plan_begin(service->plan, i);
		}
	}
}

// Returns how many; flows[]: by task, from service->count on.
static uint32_t put_flows(struct steal_service *service, const struct weir_flow_scan *scan,
	uint32_t flows[WEIR_STEAL_WAITING]) {
	const struct weir_steal_task task = {
		.duration = 1, .transfer = -1, .allowed = service->thieves};
	uint32_t count = 0;

	for (uint32_t i = 0; i < scan->count && count < WEIR_STEAL_WAITING; i++) {
		uint32_t victim = member_of(service, scan->flow[i].backend);

		if (victim < service->count && service->members[victim].saturated) {
			weir_steal_plan_put(service->plan, service->count + count, victim, &task);
			flows[count++] = i;
		}
	}
	return count;
}

static uint32_t allowed_now(struct steal_service *service, uint64_t now_ms) {
	double most = service->per_second;

	if (service->filled_ms != 0) {
		service->tokens +=
			(double)(now_ms - service->filled_ms) * service->per_second / 1000;
	}
	service->tokens = service->tokens < most ? service->tokens : most;
	service->filled_ms = now_ms;
	return service->tokens < WEIR_FLOW_STEALS_AT_ONCE ? (uint32_t)service->tokens
							  : WEIR_FLOW_STEALS_AT_ONCE;
}

uint32_t weir_steal_service_plan(struct steal_service *service, const struct weir_flow_scan *scan,
	uint64_t now_ms, struct steal_planned *planned) {
	struct weir_steal_request requests[WEIR_FLOW_STEALS_AT_ONCE];
	uint32_t flows[WEIR_STEAL_WAITING], n, count = 0;

	for (uint32_t task = 0; task < service->count + WEIR_STEAL_WAITING; task++) {
		weir_steal_plan_remove(service->plan, task);
	}
	put_queues(service);
	if (put_flows(service, scan, flows) == 0) {
		return 0;
	}
	n = weir_steal_plan_balance(
		service->plan, (double)now_ms / 1000, requests, allowed_now(service, now_ms));
	for (uint32_t i = 0; i < n; i++) {
		struct steal_member *thief = &service->members[requests[i].thief];

		struct steal_member *victim = &service->members[requests[i].victim];

		if (thief->room == 0 || victim->asked == WEIR_FLOW_STEALS_OF_AGENT) {
			weir_steal_plan_remove(service->plan, requests[i].task);
			continue;
		}
		thief->room--;
		victim->asked++;
		planned[count++] =
			(struct steal_planned){.flow = flows[requests[i].task - service->count],
				.victim = requests[i].victim,
				.thief = requests[i].thief,
				.task = requests[i].task,
				.id = requests[i].id};
	}
	service->tokens -= count;
	service->asked += count;
	return count;
}

// --- ends -----------------------------------------------------------------------------------

// The agent of the victim will answer others alike.
static bool is_of_agent(enum weir_flow_steal_outcome outcome) {
	return outcome == WEIR_FLOW_STEAL_COOKIES || outcome == WEIR_FLOW_STEAL_NO_LISTENER ||
	       outcome == WEIR_FLOW_STEAL_CANNOT_TELL || outcome == WEIR_FLOW_STEAL_OFF ||
	       outcome == WEIR_FLOW_STEAL_SILENT;
}

void weir_steal_service_ended(struct steal_service *service, const struct steal_planned *planned,
	enum weir_flow_steal_outcome outcome, uint64_t now_ms) {
	struct steal_member *victim = &service->members[planned->victim];

	service->outcomes[outcome]++;
	(void)weir_steal_plan_answer(service->plan, planned->task, planned->id,
		outcome == WEIR_FLOW_STEAL_MOVED ? WEIR_STEAL_GIVEN_UP : WEIR_STEAL_RUNNING, true,
		(double)now_ms / 1000);
	victim->heard |= outcome != WEIR_FLOW_STEAL_SILENT;
	if (!is_of_agent(outcome) || (outcome == WEIR_FLOW_STEAL_SILENT && victim->heard)) {
		victim->pauses = 0;
	} else if (now_ms >= victim->paused_ms) { // else another request of the round has ended so
		victim->paused_ms = now_ms + ((uint64_t)PAUSE_MS << victim->pauses);
		victim->pauses += victim->pauses < PAUSES_MOST;
	}
}
