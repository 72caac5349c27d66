// SPDX-License-Identifier: BSD-3-Clause
#include "agents_steal.h"

#include <errno.h>
#include <stdlib.h>

enum steal_state {
	STEAL_UNUSED,
	STEAL_TO_SEND,
	STEAL_SENT, // the request was sent; until_ms is 0 if sending failed
};

struct steal {
	enum steal_state state;
	struct weir_agents_peer peer;
	struct weir_agents_steal request;
	struct weir_agent_steal message;
	uint64_t since_ms, until_ms;
};

struct weir_agents_steals {
	uv_loop_t *loop;
	struct weir_agents_sockets *sockets;
	const struct weir_agent_keys *keys;
	struct weir_agents_counts *counts;
	weir_agents_steal_ended ended;
	void *context; // context of `ended`
	uv_timer_t timer;
	uint64_t last_id; // id of the last request: ids are never reused
	struct steal steal[WEIR_AGENTS_STEALS_MAX];
};

static uint64_t read_now_ms(void) {
	return uv_hrtime() / 1000000;
}

// --- the end of a request -----------------------------------------------------------------

// Frees the slot before the callback, because the callback may make another request.
static void end(struct weir_agents_steals *steals, struct steal *steal,
	enum weir_agent_steal_result result) {
	const struct weir_agents_steal request = steal->request;
	uint32_t duration_ms = (uint32_t)(read_now_ms() - steal->since_ms);

	*steal = (struct steal){0};
	steals->counts->steal_results[result]++;
	steals->ended(steals->context, &request, result, duration_ms);
}

static struct steal *find(
	struct weir_agents_steals *steals, const struct weir_agent_steal_answer *answer) {
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		struct steal *steal = &steals->steal[i];

		if (steal->state == STEAL_SENT && steal->message.balancer == answer->balancer &&
			steal->message.id == answer->id && steal->message.agent == answer->agent) {
			return steal;
		}
	}
	return NULL;
}

void weir_agents_steals_take(struct weir_agents_steals *steals, const struct weir_agents_peer *peer,
	const uint8_t *bytes, size_t count) {
	struct weir_agent_steal_answer answer;
	enum weir_agent_refusal refusal =
		weir_agent_steal_answer_decode(bytes, count, steals->keys, &answer);
	struct steal *steal = NULL;

	if (refusal == WEIR_AGENT_REFUSAL_NONE && answer.balancer != peer->balancer) {
		refusal = WEIR_AGENT_REFUSAL_BALANCER;
	}
	if (refusal == WEIR_AGENT_REFUSAL_NONE) {
		steal = find(steals, &answer);
		if (steal == NULL || steal->until_ms <= read_now_ms()) {
			refusal = WEIR_AGENT_REFUSAL_STEAL;
		} else if (!weir_agent_steal_is_same_flow(&steal->message, &answer)) {
			refusal = WEIR_AGENT_REFUSAL_FLOW;
		}
	}
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		steals->counts->refused[refusal]++;
		return;
	}
	end(steals, steal, answer.result);
}

// --- the timer ----------------------------------------------------------------------------

static void on_timer(uv_timer_t *timer);

// Start the timer for the next event. An event that is due runs in the next iteration of the loop.
static void arm(struct weir_agents_steals *steals) {
	uint64_t now_ms = read_now_ms(), until_ms = UINT64_MAX;

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
	uv_update_time(steals->loop);
	uv_timer_start(&steals->timer, on_timer, until_ms > now_ms ? until_ms - now_ms : 0, 0);
}

static void send_request(struct weir_agents_steals *steals, struct steal *steal) {
	steal->state = STEAL_SENT;
	if (steals->keys->count == 0) {
		steal->until_ms = 0;
		return;
	}
	weir_agent_steal_encode(&steal->message, &steals->keys->key[0],
		weir_agents_sockets_add(
			steals->sockets, &steal->peer.address, steal->peer.port, steal));
}

static void on_timer(uv_timer_t *timer) {
	struct weir_agents_steals *steals = timer->data;
	uint64_t now_ms;

	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		if (steals->steal[i].state == STEAL_TO_SEND) {
			send_request(steals, &steals->steal[i]);
		}
	}
	weir_agents_sockets_flush(steals->sockets);
	now_ms = read_now_ms();
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

void weir_agents_steals_cancel(
	struct weir_agents_steals *steals, const struct weir_agents_peer *peer) {
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		struct steal *steal = &steals->steal[i];

		if (steal->state != STEAL_UNUSED && steal->peer.balancer == peer->balancer) {
			steal->state = STEAL_SENT;
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

static struct weir_agent_steal make_message(const struct weir_agents_peer *peer, uint64_t process,
	uint64_t clock_ms, const struct weir_agents_steal *request) {
	struct weir_agent_steal message = {
		.balancer = peer->balancer,
		.agent = process,
		// The agent's clock had this value before the agent's answer arrived here. So the
		// deadline at the agent is never later than the deadline here.
		.deadline_ms = clock_ms + request->timeout_ms,
		.recipient_port = peer->port,
		.client_port = request->client_port,
		.vip_port = request->vip_port,
		.protocol = 6,
	};

	weir_agent_recipient(peer->address.family, peer->address.bytes, message.recipient);
	weir_agent_recipient(request->client.family, request->client.bytes, message.client);
	weir_agent_recipient(request->vip.family, request->vip.bytes, message.vip);
	return message;
}

// Find a free slot for a request. Returns 0, -EALREADY, -EBUSY.
static int find_slot(struct weir_agents_steals *steals, const struct weir_agent_steal *message,
	struct steal **ret) {
	struct weir_agent_steal_answer flow;
	struct steal *slot = NULL;

	weir_agent_steal_answer_begin(message, &flow);
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		struct steal *steal = &steals->steal[i];

		if (steal->state == STEAL_UNUSED) {
			slot = steal;
		} else if (steal->message.balancer == message->balancer &&
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

int weir_agents_steals_request(struct weir_agents_steals *steals,
	const struct weir_agents_peer *peer, uint64_t process, uint64_t clock_ms,
	const struct weir_agents_steal *request) {
	struct weir_agent_steal message;
	struct steal *steal;
	uint64_t now_ms = read_now_ms();
	int r;

	if (!is_sound(request)) {
		return -EINVAL;
	}
	message = make_message(peer, process, clock_ms, request);
	r = find_slot(steals, &message, &steal);
	if (r < 0) {
		return r;
	}
	message.id = ++steals->last_id;
	*steal = (struct steal){.state = STEAL_TO_SEND,
		.peer = *peer,
		.request = *request,
		.message = message,
		.since_ms = now_ms,
		.until_ms = now_ms + request->timeout_ms};
	steals->counts->steals++;
	arm(steals);
	return 0;
}

void weir_agents_steals_on_ended(
	struct weir_agents_steals *steals, weir_agents_steal_ended ended, void *context) {
	steals->ended = ended;
	steals->context = context;
}

// --- create and free ----------------------------------------------------------------------

int weir_agents_steals_create(uv_loop_t *loop, struct weir_agents_sockets *sockets,
	const struct weir_agent_keys *keys, struct weir_agents_counts *counts,
	struct weir_agents_steals **ret) {
	struct weir_agents_steals *steals = calloc(1, sizeof(*steals));

	if (steals == NULL) {
		return -ENOMEM;
	}
	steals->loop = loop;
	steals->sockets = sockets;
	steals->keys = keys;
	steals->counts = counts;
	uv_timer_init(loop, &steals->timer);
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
