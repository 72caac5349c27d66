// SPDX-License-Identifier: BSD-3-Clause
//
// Stealing between backends: requests that wait in the queue of a busy backend move to an idle
// backend. The planner is in policy/steal_plan.h; this file simulates the messages between control
// and the backends' agents.
//
// A client's request moves in three steps:
//   1. The planner selects the request, and control sends a steal request to the victim's agent.
//   2. If the client's request still waits, the agent releases the client's request and confirms.
//   3. The thief gets the client's request.
// A missing answer is treated as a refusal. If the agent has released a client's request, but the
// answer was lost, the request returns to the victim with the client's next packet.
#include <errno.h>
#include <stdlib.h>

#include "steal.h"

#define FIRST_ROOM 64u

static uint32_t take_message(struct weir_sim *sim) {
	struct weir_sim_steal *steal = sim->steal;
	uint32_t message = steal->message_free;

	if (message != WEIR_SIM_NONE) {
		steal->message_free = steal->message[message].next_free;
		return message;
	}
	if (steal->message_count == steal->message_room) {
		uint32_t room = steal->message_room > 0 ? steal->message_room * 2 : FIRST_ROOM;
		void *grown = realloc(steal->message, room * sizeof(*steal->message));

		if (grown == NULL) {
			weir_sim_fail(sim, -ENOMEM);
			return WEIR_SIM_NONE;
		}
		steal->message = grown;
		steal->message_room = room;
	}
	return steal->message_count++;
}

static void drop_message(struct weir_sim_steal *steal, uint32_t message) {
	steal->message[message].next_free = steal->message_free;
	steal->message_free = message;
}

static void expire(struct weir_sim *sim) {
	while (weir_steal_plan_expire(sim->steal->plan, weir_sim_steal_seconds(sim->now_ns)) !=
		WEIR_STEAL_NO_WORKER) {
	}
}

static void send(struct weir_sim *sim, const struct weir_steal_request *request) {
	struct weir_sim_steal *steal = sim->steal;
	uint32_t message = take_message(sim);

	if (message == WEIR_SIM_NONE) {
		return;
	}
	steal->message[message] = (struct weir_sim_steal_message){.task = request->task,
		.id = request->id,
		.victim = request->victim,
		.thief = request->thief,
		.request = steal->task[request->task].request};
	steal->task[request->task].requested = request->id;
	sim->totals.steals[WEIR_SIM_STEAL_ASKED]++;
	weir_sim_schedule(sim, sim->now_ns + sim->scenario->steal.latency_ns,
		WEIR_SIM_EVENT_STEAL_ASK, message);
}

void weir_sim_steal_plan(struct weir_sim *sim) {
	const struct weir_sim_steal_settings *settings = &sim->scenario->steal;
	struct weir_sim_steal *steal = sim->steal;
	uint32_t n;

	expire(sim);
	weir_sim_steal_look(sim);
	n = weir_steal_plan_balance(steal->plan, weir_sim_steal_seconds(sim->now_ns),
		steal->requests, settings->requests);
	for (uint32_t i = 0; i < n; i++) {
		send(sim, &steal->requests[i]);
	}
	weir_sim_schedule(sim, sim->now_ns + settings->interval_ns, WEIR_SIM_EVENT_STEAL_PLAN, 0);
}

// Handles the arrival of a steal request at the victim: the victim releases the client's request if
// this request still waits.
void weir_sim_steal_request(struct weir_sim *sim, uint32_t index) {
	const struct weir_sim_steal_settings *settings = &sim->scenario->steal;
	struct weir_sim_steal *steal = sim->steal;
	struct weir_sim_steal_message *message = &steal->message[index];
	struct weir_sim_backend *victim = &sim->backend[message->victim];
	bool lost = weir_sim_uniform(&steal->prng) * 100.0 < settings->loss_percent;

	message->answer = WEIR_STEAL_UNKNOWN;
	if (steal->task[message->task].requested == message->id) {
		message->answer = WEIR_STEAL_RUNNING;
		if (weir_sim_cpu_remove(&victim->cpu, message->request)) {
			message->answer = WEIR_STEAL_GIVEN_UP;
			weir_sim_request_give_up(sim, message->request);
		}
	}
	if (!lost && !victim->down) {
		weir_sim_schedule(sim, sim->now_ns + settings->latency_ns,
			WEIR_SIM_EVENT_STEAL_ANSWER, index);
		return;
	}
	sim->totals.steals[WEIR_SIM_STEAL_SILENT]++;
	if (message->answer == WEIR_STEAL_GIVEN_UP) {
		const struct weir_sim_request *request = &sim->request[message->request];

		weir_sim_request_come(sim, message->request, request->slot,
			weir_sim_steal_retransmission_ns(sim, request->start_ns));
	}
	drop_message(steal, index);
}

// Finds the client's slot of a backend. Returns false if the backend is not in the client's
// subset.
static bool find_slot(const struct weir_sim_client *client, uint32_t backend, uint16_t *ret) {
	for (uint32_t i = 0; i < client->slot_count; i++) {
		if (client->slot[i].member && client->slot[i].backend == backend) {
			*ret = (uint16_t)i;
			return true;
		}
	}
	return false;
}

// Selects a backend again with the client's policy, for a request that the victim has released but
// that the thief can no longer get.
static void choose_anew(struct weir_sim *sim, uint32_t index, uint64_t at_ns) {
	struct weir_sim_client *client = &sim->client[sim->request[index].client];
	struct weir_chosen chosen = weir_policy_choose(&client->worker, &client->policy,
		&client->table, weir_prng_next(&sim->steal->prng), sim->now_ns);

	weir_sim_steal_gone(sim, &sim->request[index]);
	if (chosen.how == WEIR_CHOSEN_NONE || chosen.how == WEIR_CHOSEN_REJECTED) {
		weir_sim_request_reject(sim, index);
	} else {
		weir_sim_request_come(sim, index, chosen.id, at_ns);
	}
}

void weir_sim_steal_answer(struct weir_sim *sim, uint32_t index) {
	struct weir_sim_steal *steal = sim->steal;
	struct weir_sim_steal_message message = steal->message[index];
	struct weir_sim_request *request = &sim->request[message.request];
	bool given_up = message.answer == WEIR_STEAL_GIVEN_UP;
	uint64_t at_ns = sim->now_ns;
	uint16_t slot = 0;
	bool alive = given_up && sim->usable[message.thief] &&
		     find_slot(&sim->client[request->client], message.thief, &slot);
	enum weir_steal_outcome outcome;

	drop_message(steal, index);
	expire(sim);
	outcome = weir_steal_plan_answer(steal->plan, message.task, message.id,
		(enum weir_steal_answer)message.answer, alive, weir_sim_steal_seconds(sim->now_ns));
	if (!given_up) {
		sim->totals.steals[WEIR_SIM_STEAL_REFUSED]++;
		return;
	}
	if (sim->scenario->steal.delivery == WEIR_SIM_DELIVERY_RETRANSMISSION) {
		at_ns = weir_sim_steal_retransmission_ns(sim, request->start_ns);
	}
	if (outcome == WEIR_STEAL_MOVED) {
		sim->totals.steals[WEIR_SIM_STEAL_MOVED]++;
		weir_sim_request_come(sim, message.request, slot, at_ns);
	} else if (outcome == WEIR_STEAL_HOMELESS) {
		sim->totals.steals[WEIR_SIM_STEAL_MOVED]++;
		choose_anew(sim, message.request, at_ns);
	} else { // the answer came too late: control has already cancelled the steal request
		sim->totals.steals[WEIR_SIM_STEAL_SILENT]++;
		weir_sim_request_come(sim, message.request, request->slot,
			weir_sim_steal_retransmission_ns(sim, request->start_ns));
	}
}
