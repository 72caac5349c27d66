// SPDX-License-Identifier: BSD-3-Clause
#include "agents_shed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// An answer may arrive for this time after the deadline of its order.
#define LATE_MS 500

struct order {
	bool used;
	struct weir_agents_peer peer;
	struct weir_agents_shed order;
	struct weir_agent_shed message;
	struct weir_agents_shed_result result;
	uint64_t send_ms; // time of the next sending
	uint64_t until_ms; // time at which the order ends without an answer
};

struct weir_agents_sheds {
	uv_loop_t *loop;
	struct weir_agents_sockets *sockets;
	const struct weir_agent_keys *keys;
	struct weir_agents_counts *counts;
	weir_agents_shed_ended ended;
	void *context; // context of `ended`
	uv_timer_t timer;
	uint64_t last_id; // id of the last order: ids are never reused
	struct order order[WEIR_AGENTS_SHEDS_MAX];
};

static uint64_t read_now_ms(void) {
	return uv_hrtime() / 1000000;
}

// --- the end of an order ------------------------------------------------------------------

// Returns whether the last answer has the final number of ended connections. An agent that has
// forgotten an order answers LATE.
static bool is_final(const struct weir_agents_shed_result *result) {
	return result->over && result->result != WEIR_AGENT_SHED_LATE;
}

// Frees the slot before the callback, because the callback may make another order.
static void end(struct weir_agents_sheds *sheds, struct order *order) {
	const struct weir_agents_shed ended = order->order;
	struct weir_agents_shed_result result = order->result;

	if (!is_final(&result)) {
		result.ended = ended.count;
	}
	*order = (struct order){0};
	sheds->ended(sheds->context, &ended, &result);
}

static struct order *find(
	struct weir_agents_sheds *sheds, const struct weir_agent_shed_answer *answer) {
	for (uint32_t i = 0; i < WEIR_AGENTS_SHEDS_MAX; i++) {
		struct order *order = &sheds->order[i];

		if (order->used && order->message.balancer == answer->balancer &&
			order->message.id == answer->id && order->message.agent == answer->agent) {
			return order;
		}
	}
	return NULL;
}

void weir_agents_sheds_take(struct weir_agents_sheds *sheds, const struct weir_agents_peer *peer,
	const uint8_t *bytes, size_t count) {
	struct weir_agent_shed_answer answer;
	enum weir_agent_refusal refusal =
		weir_agent_shed_answer_decode(bytes, count, sheds->keys, &answer);
	struct order *order = NULL;

	if (refusal == WEIR_AGENT_REFUSAL_NONE && answer.balancer != peer->balancer) {
		refusal = WEIR_AGENT_REFUSAL_BALANCER;
	}
	if (refusal == WEIR_AGENT_REFUSAL_NONE) {
		order = find(sheds, &answer);
		// An answer with fewer ends than the last one was sent before that.
		refusal = order == NULL || answer.ended < order->result.ended
				  ? WEIR_AGENT_REFUSAL_SHED
			  : answer.ended > order->order.count ? WEIR_AGENT_REFUSAL_VALUE
							      : WEIR_AGENT_REFUSAL_NONE;
	}
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		sheds->counts->refused[refusal]++;
		return;
	}
	order->result = (struct weir_agents_shed_result){.answered = true,
		.over = answer.result != WEIR_AGENT_SHED_ACTIVE,
		.result = (enum weir_agent_shed_result)answer.result,
		.method = (enum weir_agent_shed_method)answer.method,
		.connections = answer.connections,
		.candidates = answer.candidates,
		.leaving = answer.leaving,
		.ended = answer.ended};
	if (order->result.over) {
		end(sheds, order);
	}
}

// --- the timer ----------------------------------------------------------------------------

static void on_timer(uv_timer_t *timer);

// Start the timer for the next event. An event that is due runs in the next iteration of the loop.
static void arm(struct weir_agents_sheds *sheds) {
	uint64_t now_ms = read_now_ms(), next_ms = UINT64_MAX;

	for (uint32_t i = 0; i < WEIR_AGENTS_SHEDS_MAX; i++) {
		const struct order *order = &sheds->order[i];

		if (order->used && order->send_ms < next_ms) {
			next_ms = order->send_ms;
		}
		if (order->used && order->until_ms < next_ms) {
			next_ms = order->until_ms;
		}
	}
	if (next_ms == UINT64_MAX) {
		uv_timer_stop(&sheds->timer);
		return;
	}
	uv_update_time(sheds->loop);
	uv_timer_start(&sheds->timer, on_timer, next_ms > now_ms ? next_ms - now_ms : 0, 0);
}

static void on_timer(uv_timer_t *timer) {
	struct weir_agents_sheds *sheds = timer->data;
	const uint64_t now_ms = read_now_ms();

	for (uint32_t i = 0; i < WEIR_AGENTS_SHEDS_MAX; i++) {
		struct order *order = &sheds->order[i];

		if (order->used && order->send_ms <= now_ms && order->until_ms > now_ms &&
			sheds->keys->count > 0) {
			weir_agent_shed_encode(&order->message, &sheds->keys->key[0],
				weir_agents_sockets_add(sheds->sockets, &order->peer.address,
					order->peer.port, order));
		}
		if (order->used && order->send_ms <= now_ms) {
			order->send_ms = now_ms + WEIR_AGENTS_SHED_AGAIN_MS;
		}
	}
	weir_agents_sockets_flush(sheds->sockets);
	for (uint32_t i = 0; i < WEIR_AGENTS_SHEDS_MAX; i++) {
		struct order *order = &sheds->order[i];

		if (order->used && order->until_ms <= now_ms) {
			end(sheds, order);
		}
	}
	arm(sheds);
}

bool weir_agents_sheds_unsent(struct weir_agents_sheds *sheds, const void *owner) {
	for (uint32_t i = 0; i < WEIR_AGENTS_SHEDS_MAX; i++) {
		if (owner == &sheds->order[i]) {
			return true;
		}
	}
	return false;
}

void weir_agents_sheds_cancel(
	struct weir_agents_sheds *sheds, const struct weir_agents_peer *peer) {
	for (uint32_t i = 0; i < WEIR_AGENTS_SHEDS_MAX; i++) {
		struct order *order = &sheds->order[i];

		if (order->used && order->peer.balancer == peer->balancer) {
			order->until_ms = 0;
			arm(sheds);
		}
	}
}

// --- orders -------------------------------------------------------------------------------

static struct weir_agent_shed make_message(const struct weir_agents_peer *peer, uint64_t process,
	uint64_t clock_ms, const struct weir_agents_shed *order) {
	struct weir_agent_shed message = {
		.balancer = peer->balancer,
		.agent = process,
		// As for steals: the deadline on the agent is never later than the deadline here.
		.deadline_ms = clock_ms + order->duration_ms,
		.recipient_port = peer->port,
		.count = order->count,
		.rate_milli_per_s = order->rate_milli_per_s,
		.keep = order->keep,
		.idle_ms = order->idle_ms,
		.bind_count = order->bind_count,
	};

	weir_agent_recipient(peer->address.family, peer->address.bytes, message.recipient);
	memcpy(message.service, order->service,
		strnlen(order->service, sizeof(message.service) - 1));
	memcpy(message.binds, order->binds, order->bind_count * sizeof(message.binds[0]));
	return message;
}

static bool is_sound(const struct weir_agents_shed *order) {
	return order->duration_ms > 0 && order->duration_ms <= WEIR_AGENT_STEAL_AHEAD_MS &&
	       order->count <= WEIR_AGENT_SHED_COUNT_MOST && order->rate_milli_per_s > 0 &&
	       order->rate_milli_per_s <= WEIR_AGENT_SHED_RATE_MILLI_MOST &&
	       order->idle_ms >= WEIR_AGENT_SHED_IDLE_LEAST_MS && order->bind_count > 0 &&
	       order->bind_count <= WEIR_AGENT_SHED_BINDS;
}

int weir_agents_sheds_order(struct weir_agents_sheds *sheds, const struct weir_agents_peer *peer,
	uint64_t process, uint64_t clock_ms, const struct weir_agents_shed *order) {
	const uint64_t now_ms = read_now_ms();
	struct order *slot = NULL;

	if (!is_sound(order)) {
		return -EINVAL;
	}
	for (uint32_t i = 0; i < WEIR_AGENTS_SHEDS_MAX; i++) {
		if (!sheds->order[i].used) {
			slot = &sheds->order[i];
		} else if (sheds->order[i].order.backend == order->backend) {
			return -EALREADY;
		}
	}
	if (slot == NULL) {
		return -EBUSY;
	}
	*slot = (struct order){.used = true,
		.peer = *peer,
		.order = *order,
		.message = make_message(peer, process, clock_ms, order),
		.send_ms = now_ms,
		.until_ms = now_ms + order->duration_ms + LATE_MS};
	slot->message.id = ++sheds->last_id;
	arm(sheds);
	return 0;
}

void weir_agents_sheds_on_ended(
	struct weir_agents_sheds *sheds, weir_agents_shed_ended ended, void *context) {
	sheds->ended = ended;
	sheds->context = context;
}

// --- create and free ----------------------------------------------------------------------

int weir_agents_sheds_create(uv_loop_t *loop, struct weir_agents_sockets *sockets,
	const struct weir_agent_keys *keys, struct weir_agents_counts *counts,
	struct weir_agents_sheds **ret) {
	struct weir_agents_sheds *sheds = calloc(1, sizeof(*sheds));

	if (sheds == NULL) {
		return -ENOMEM;
	}
	sheds->loop = loop;
	sheds->sockets = sockets;
	sheds->keys = keys;
	sheds->counts = counts;
	uv_timer_init(loop, &sheds->timer);
	sheds->timer.data = sheds;
	*ret = sheds;
	return 0;
}

static void on_closed(uv_handle_t *handle) {
	free(handle->data);
}

void weir_agents_sheds_free(struct weir_agents_sheds *sheds) {
	if (sheds != NULL) {
		uv_close((uv_handle_t *)&sheds->timer, on_closed);
	}
}
