// SPDX-License-Identifier: BSD-3-Clause
//
// Makes the plan of a steal service.
#include <string.h>

#include "steal_service.h"

// --- the plan -------------------------------------------------------------------------------
//
// For the planner, backends are workers, waiting connections are tasks, and an accept queue is one
// running task. The duration of a task is the time that the backend needs for the connection or the
// queue. The cost of a move is the time until the client's next SYN (steal_costs.h). Therefore
// connections are moved away from a backend that will not have finished its queue when the next SYN
// is sent.

static uint32_t member_of(const struct steal_service *service, uint16_t id) {
	uint32_t i = 0;

	while (i < service->count && service->members[i].id != id) {
		i++;
	}
	return i;
}

struct waiting { // the waiting flows in the plan; flow i is the task service->count + i
	uint32_t count;
	uint32_t flow[WEIR_STEAL_WAITING]; // index in the scan
	uint32_t victims; // number of backends at which flows wait
	struct {
		uint32_t member;
		uint16_t id;
		uint32_t flows;
	} victim[WEIR_WAITING_BACKENDS];
};

// Returns the index of a flow's backend in waiting->victim. Returns waiting->victims if the backend
// is not a victim, or if the plan already has the maximum number of its flows.
static uint32_t victim_of(
	const struct steal_service *service, struct waiting *waiting, uint16_t backend) {
	const uint32_t most = WEIR_STEAL_WAITING / WEIR_WAITING_BACKENDS;
	uint32_t v = 0, member;

	while (v < waiting->victims && waiting->victim[v].id != backend) {
		v++;
	}
	if (v == WEIR_WAITING_BACKENDS ||
		(v < waiting->victims && waiting->victim[v].flows == most)) {
		return waiting->victims;
	}
	if (v == waiting->victims) {
		member = member_of(service, backend);
		if (member == service->count ||
			!weir_steal_member_saturated(&service->members[member])) {
			return v;
		}
		waiting->victim[v].member = member;
		waiting->victim[v].id = backend;
		waiting->victim[v].flows = 0;
		waiting->victims++;
	}
	return v;
}

// Returns whether the agent of a member has recently refused steals at the port of this flow, or at
// its address and port.
static bool is_refused(const struct steal_service *service, uint32_t member,
	const struct weir_flow_waiting_at *flow, uint64_t now_ms) {
	struct weir_refused_place place = {
		.member = (uint16_t)member, .port = flow->vip_port, .family = flow->family};

	memcpy(place.address, flow->vip, sizeof(place.address));
	return weir_refused_places_contain(&service->refused, &place, now_ms);
}

// Finds the victims, and sets for each of them the longest time that one of its connections has
// waited.
static void find_victims(
	struct steal_service *service, const struct weir_flow_scan *scan, struct waiting *waiting) {
	waiting->count = waiting->victims = 0;
	for (uint32_t i = 0; i < service->count; i++) {
		service->members[i].longest_ms = 0;
	}
	for (uint32_t i = 0; i < scan->count; i++) {
		uint32_t victim = victim_of(service, waiting, scan->flow[i].backend);
		struct steal_member *member;

		if (victim < waiting->victims) {
			member = &service->members[waiting->victim[victim].member];
			member->longest_ms = scan->flow[i].waited_ms > member->longest_ms
						     ? scan->flow[i].waited_ms
						     : member->longest_ms;
		}
	}
}

static double service_of(const struct steal_member *member) {
	return weir_steal_service_s(member->queue, member->service_s, member->longest_ms);
}

static void put_queues(struct steal_service *service) {
	memset(service->thieves, 0, (service->count / 64 + 1) * sizeof(service->thieves[0]));
	for (uint32_t i = 0; i < service->count; i++) {
		const struct steal_member *member = &service->members[i];
		struct weir_steal_task queue = {.duration = weir_steal_queue_s(member->queue,
							member->fill, service_of(member)),
			.transfer = -1,
			.fixed = true};

		weir_steal_plan_worker(service->plan, i, 1,
			member->thief || weir_steal_member_saturated(member), member->fill);
		if (member->thief) {
			service->thieves[i / 64] |= 1ull << (i % 64);
		}
		if (member->queue > 0) {
			weir_steal_plan_put(service->plan, i, i, &queue);
			weir_steal_plan_begin(service->plan, i);
		}
	}
}

static void put_flows(struct steal_service *service, const struct weir_flow_scan *scan,
	uint64_t now_ms, struct waiting *waiting) {
	for (uint32_t i = 0; i < scan->count && waiting->count < WEIR_STEAL_WAITING; i++) {
		uint32_t victim = victim_of(service, waiting, scan->flow[i].backend), member;

		if (victim == waiting->victims) {
			continue;
		}
		member = waiting->victim[victim].member;
		if (!is_refused(service, member, &scan->flow[i], now_ms)) {
			const struct weir_steal_task task = {
				.duration = service_of(&service->members[member]),
				.transfer = weir_steal_move_s(scan->flow[i].waited_ms),
				.allowed = service->thieves};

			weir_steal_plan_put(
				service->plan, service->count + waiting->count, member, &task);
			waiting->victim[victim].flows++;
			waiting->flow[waiting->count++] = i;
		}
	}
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

// Accepts planned requests, up to the limit of each agent and while the thieves have room. share:
// the limit of an agent. Requests that are not accepted are not planned again in this round.
// Returns the number of accepted requests.
static uint32_t take(struct steal_service *service, const struct waiting *waiting,
	const struct weir_steal_request *requests, uint32_t n, uint32_t share,
	struct steal_planned *planned) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct steal_member *thief = &service->members[requests[i].thief];
		struct steal_member *victim = &service->members[requests[i].victim];

		if (thief->room == 0 || victim->requests == share) {
			weir_steal_plan_remove(service->plan, requests[i].task);
			continue;
		}
		victim->requests++;
		if (--thief->room == 0) {
			service->thieves[requests[i].thief / 64] &=
				~(1ull << (requests[i].thief % 64));
		}
		planned[count++] = (struct steal_planned){
			.flow = waiting->flow[requests[i].task - service->count],
			.victim = requests[i].victim,
			.thief = requests[i].thief,
			.from = victim->id,
			.to = thief->id,
			.reason = weir_steal_member_reason(victim),
			.task = requests[i].task,
			.id = requests[i].id};
	}
	return count;
}

uint32_t weir_steal_service_plan(struct steal_service *service, const struct weir_flow_scan *scan,
	uint64_t now_ms, struct steal_planned *planned) {
	struct weir_steal_request requests[WEIR_FLOW_STEALS_AT_ONCE];
	uint32_t n, allowed, share, count = 0;
	struct waiting waiting;

	for (uint32_t task = 0; task < service->count + WEIR_STEAL_WAITING; task++) {
		weir_steal_plan_remove(service->plan, task);
	}
	find_victims(service, scan, &waiting);
	put_queues(service);
	put_flows(service, scan, now_ms, &waiting);
	if (waiting.count == 0) {
		return 0;
	}
	allowed = allowed_now(service, now_ms);
	share = (allowed + waiting.victims - 1) / waiting.victims;
	share = share < WEIR_FLOW_STEALS_OF_AGENT ? share : WEIR_FLOW_STEALS_OF_AGENT;
	// Plan again, because requests that were not accepted leave room for other victims. The
	// loop ends, because no pass plans a task of an earlier pass.
	do {
		n = weir_steal_plan_balance(
			service->plan, (double)now_ms / 1000, requests, allowed - count);
		count += take(service, &waiting, requests, n, share, planned + count);
	} while (n > 0 && count < allowed);
	for (uint32_t i = 0; i < count; i++) {
		const struct weir_flow_waiting_at *flow = &scan->flow[planned[i].flow];

		planned[i].port = flow->vip_port;
		planned[i].family = flow->family;
		memcpy(planned[i].address, flow->vip, sizeof(planned[i].address));
	}
	service->tokens -= count;
	service->requests += count;
	return count;
}
