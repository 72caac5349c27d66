// SPDX-License-Identifier: BSD-3-Clause
//
// Steals: requests to agents for permission to move a flow, in a table of fixed size. Requests are
// sent by the timer, so that a callback is never called within a request.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agents_private.h"

enum steal_state {
	STEAL_UNUSED,
	STEAL_TO_SEND,
	STEAL_SENT,
};

struct steal {
	enum steal_state state;
	struct agent *agent; // NULL = no longer configured
	struct weir_agents_steal request;
	struct weir_agent_steal message;
	uint64_t since_ms, until_ms;
};

struct weir_agents_steals {
	struct weir_agents *agents;
	weir_agents_steal_ended ended;
	void *context; // of `ended`
	uv_timer_t timer;
	uint32_t in_flight;
	struct steal steal[WEIR_AGENTS_STEALS_MAX];
};

// --- the end of a request -----------------------------------------------------------------

// Frees the slot before the callback, which may make another request.
static void end(struct weir_agents_steals *steals, struct steal *steal,
	enum weir_agent_steal_result result) {
	struct weir_agents *agents = steals->agents;
	const struct weir_agents_steal request = steal->request;
	uint32_t duration_ms = (uint32_t)(weir_agents_now_ms() - steal->since_ms);

	*steal = (struct steal){0};
	steals->in_flight--;
	agents->counts.steal_results[result]++;
	steals->ended(steals->context, &request, result, duration_ms);
}

static struct steal *find(struct weir_agents_steals *steals, const struct agent *agent,
	const struct weir_agent_steal_answer *answer) {
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		struct steal *steal = &steals->steal[i];

		if (steal->state == STEAL_SENT && steal->agent == agent &&
			steal->message.id == answer->id && steal->message.agent == answer->agent) {
			return steal;
		}
	}
	return NULL;
}

void weir_agents_steals_take(struct agent *agent, const uint8_t *bytes, size_t count) {
	struct weir_agents *agents = agent->agents;
	struct weir_agent_steal_answer answer;
	enum weir_agent_refusal refusal =
		weir_agent_steal_answer_decode(bytes, count, &agents->keys, &answer);
	struct steal *steal = NULL;

	if (refusal == WEIR_AGENT_REFUSAL_NONE && answer.balancer != agent->balancer) {
		refusal = WEIR_AGENT_REFUSAL_BALANCER;
	}
	if (refusal == WEIR_AGENT_REFUSAL_NONE) {
		steal = find(agents->steals, agent, &answer);
		if (steal == NULL || steal->until_ms <= weir_agents_now_ms()) {
			refusal = WEIR_AGENT_REFUSAL_STEAL;
		} else if (!weir_agent_steal_is_same_flow(&steal->message, &answer)) {
			refusal = WEIR_AGENT_REFUSAL_FLOW;
		}
	}
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		agents->counts.refused[refusal]++;
		return;
	}
	end(agents->steals, steal, answer.result);
}

// --- the timer ----------------------------------------------------------------------------

static void on_timer(uv_timer_t *timer);

// Start the timer for the next event; 0 = now.
static void arm(struct weir_agents_steals *steals) {
	uint64_t now_ms = weir_agents_now_ms(), until_ms = UINT64_MAX;

	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		const struct steal *steal = &steals->steal[i];

		if (steal->state == STEAL_TO_SEND) {
			until_ms = now_ms;
		} else if (steal->state == STEAL_SENT && steal->until_ms < until_ms) {
			until_ms = steal->until_ms;
		}
	}
	if (until_ms == UINT64_MAX) {
		uv_timer_stop(&steals->timer);
		return;
	}
	uv_update_time(steals->agents->loop);
	uv_timer_start(&steals->timer, on_timer, until_ms > now_ms ? until_ms - now_ms : 0, 0);
}

static void send_request(struct weir_agents *agents, struct steal *steal) {
	struct agent *agent = steal->agent;

	steal->state = STEAL_SENT;
	if (agent == NULL || agents->keys.count == 0) {
		steal->until_ms = 0;
		return;
	}
	weir_agent_steal_encode(&steal->message, &agents->keys.key[0],
		weir_agents_sockets_add(agents->sockets, &agent->address, agent->port, steal));
}

static void on_timer(uv_timer_t *timer) {
	struct weir_agents_steals *steals = timer->data;
	struct weir_agents *agents = steals->agents;
	uint64_t now_ms;

	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		if (steals->steal[i].state == STEAL_TO_SEND) {
			send_request(agents, &steals->steal[i]);
		}
	}
	weir_agents_sockets_flush(agents->sockets);
	now_ms = weir_agents_now_ms();
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		struct steal *steal = &steals->steal[i];

		if (steal->state == STEAL_SENT && steal->until_ms <= now_ms) {
			end(steals, steal, WEIR_AGENT_STEAL_NO_RESULT);
		}
	}
	arm(steals);
}

bool weir_agents_steals_unsent(struct weir_agents_steals *steals, const void *owner) {
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		if (owner == &steals->steal[i]) {
			steals->steal[i].until_ms = 0;
			arm(steals);
			return true;
		}
	}
	return false;
}

void weir_agents_steals_cancel(struct weir_agents_steals *steals, const struct agent *agent) {
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		struct steal *steal = &steals->steal[i];

		if (steal->state != STEAL_UNUSED && steal->agent == agent) {
			steal->agent = NULL;
			steal->until_ms = 0;
			arm(steals);
		}
	}
}

// --- requests -----------------------------------------------------------------------------

static bool is_sound(const struct weir_agents_steal *steal) {
	return (steal->client.family == 4 || steal->client.family == 6) &&
	       steal->vip.family == steal->client.family && steal->client_port != 0 &&
	       steal->vip_port != 0 && steal->timeout_ms > 0 &&
	       steal->timeout_ms <= WEIR_AGENT_STEAL_AHEAD_MS;
}

static int check_agent(const struct weir_agents *agents, const struct agent *agent) {
	if (agents->keys.count == 0) {
		return -ENOKEY;
	}
	if (!agent->has_last || !agent->answers ||
		(uv_hrtime() - agent->answer_ns) / 1000000 > WEIR_AGENTS_STEAL_ANSWER_MS) {
		return -EAGAIN;
	}
	return 0;
}

static void write_message(const struct agent *agent, const struct weir_agents_steal *request,
	struct weir_agent_steal *ret) {
	struct weir_agent_steal message = {
		.balancer = agent->balancer,
		.id = agent->steal_id + 1,
		.agent = agent->last.agent,
		// In the agent's clock, which was read before the answer arrived here: the agent's
		// deadline is never later than the one here.
		.deadline_ms = agent->last.clock_ms + (uv_hrtime() - agent->answer_ns) / 1000000 +
			       request->timeout_ms,
		.recipient_port = agent->port,
		.client_port = request->client_port,
		.vip_port = request->vip_port,
		.protocol = 6,
	};

	weir_agent_recipient(agent->address.family, agent->address.bytes, message.recipient);
	weir_agent_recipient(request->client.family, request->client.bytes, message.client);
	weir_agent_recipient(request->vip.family, request->vip.bytes, message.vip);
	*ret = message;
}

// Find a free slot for a request. Returns 0, -EALREADY, -EBUSY.
static int find_slot(struct weir_agents_steals *steals, const struct agent *agent,
	const struct weir_agent_steal *message, struct steal **ret) {
	struct weir_agent_steal_answer flow;
	struct steal *slot = NULL;

	weir_agent_steal_answer_begin(message, &flow);
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		struct steal *steal = &steals->steal[i];

		if (steal->state == STEAL_UNUSED) {
			slot = steal;
		} else if (steal->agent == agent &&
			   weir_agent_steal_is_same_flow(&steal->message, &flow)) {
			return -EALREADY;
		}
	}
	if (slot == NULL) {
		return -EBUSY;
	}
	*ret = slot;
	return 0;
}

int weir_agents_request_steal(struct weir_agents *agents, const struct weir_agents_steal *request) {
	const struct member *member = weir_agents_member(agents, request->backend);
	struct weir_agent_steal message;
	struct steal *steal;
	uint64_t now_ms = weir_agents_now_ms();
	int r;

	if (!is_sound(request)) {
		return -EINVAL;
	}
	if (member == NULL) {
		return -ENOENT;
	}
	r = check_agent(agents, member->agent);
	if (r < 0) {
		return r;
	}
	write_message(member->agent, request, &message);
	r = find_slot(agents->steals, member->agent, &message, &steal);
	if (r < 0) {
		return r;
	}
	member->agent->steal_id = message.id;
	*steal = (struct steal){.state = STEAL_TO_SEND,
		.agent = member->agent,
		.request = *request,
		.message = message,
		.since_ms = now_ms,
		.until_ms = now_ms + request->timeout_ms};
	agents->steals->in_flight++;
	agents->counts.steals++;
	arm(agents->steals);
	return 0;
}

void weir_agents_on_steal_ended(
	struct weir_agents *agents, weir_agents_steal_ended ended, void *context) {
	agents->steals->ended = ended;
	agents->steals->context = context;
}

uint32_t weir_agents_steals_in_flight(const struct weir_agents *agents) {
	return agents->steals->in_flight;
}

// --- create and free ----------------------------------------------------------------------

int weir_agents_steals_create(struct weir_agents *agents, struct weir_agents_steals **ret) {
	struct weir_agents_steals *steals = calloc(1, sizeof(*steals));

	if (steals == NULL) {
		return -ENOMEM;
	}
	steals->agents = agents;
	uv_timer_init(agents->loop, &steals->timer);
	steals->timer.data = steals;
	*ret = steals;
	return 0;
}

static void on_closed(uv_handle_t *handle) {
	free(handle->data);
}

void weir_agents_steals_free(struct weir_agents_steals *steals) {
	if (steals != NULL) {
		uv_close((uv_handle_t *)&steals->timer, on_closed);
	}
}
