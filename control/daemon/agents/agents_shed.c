// SPDX-License-Identifier: BSD-3-Clause
#include "agents_shed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct order { // data of the order in a slot of `requests`
	struct weir_agents_shed order;
	struct weir_agent_shed message;
	struct weir_agents_shed_result result;
};

struct weir_agents_sheds {
	struct weir_agents_requests *requests;
	const struct weir_agent_keys *keys;
	struct weir_agents_counts *counts;
	weir_agents_shed_ended ended;
	void *context; // context of `ended`
	struct order order[WEIR_AGENTS_SHEDS_MAX];
};

// --- the end of an order ------------------------------------------------------------------

// Returns whether the last answer has the final number of ended connections. The result LATE is not
// final: an agent also sends LATE if the order is no longer in its table.
static bool is_final(const struct weir_agents_shed_result *result) {
	return result->over && result->result != WEIR_AGENT_SHED_LATE;
}

static void end(struct weir_agents_sheds *sheds, uint32_t slot) {
	const struct weir_agents_shed ended = sheds->order[slot].order;
	struct weir_agents_shed_result result = sheds->order[slot].result;

	if (!is_final(&result)) {
		result.ended = ended.count;
	}
	weir_agents_requests_remove(sheds->requests, slot);
	sheds->ended(sheds->context, &ended, &result);
}

static void on_over(void *context, uint32_t slot) {
	end(context, slot);
}

// Returns why an answer is refused, or NONE. slot: slot of the order; negative = no such order.
static enum weir_agent_refusal check(const struct weir_agents_sheds *sheds, int slot,
	const struct weir_agent_shed_answer *answer) {
	const struct order *order = slot < 0 ? NULL : &sheds->order[slot];

	// An answer that counts fewer ended connections than the last answer is an older answer.
	return order == NULL || answer->ended < order->result.ended ? WEIR_AGENT_REFUSAL_SHED
	       : answer->ended > order->order.count                 ? WEIR_AGENT_REFUSAL_VALUE
								    : WEIR_AGENT_REFUSAL_NONE;
}

void weir_agents_sheds_take(struct weir_agents_sheds *sheds, const struct weir_agents_peer *peer,
	const uint8_t *bytes, size_t count) {
	struct weir_agent_shed_answer answer;
	enum weir_agent_refusal refusal =
		weir_agent_shed_answer_decode(bytes, count, sheds->keys, &answer);
	int slot = -ENOENT;

	if (refusal == WEIR_AGENT_REFUSAL_NONE && answer.balancer != peer->balancer) {
		refusal = WEIR_AGENT_REFUSAL_BALANCER;
	}
	if (refusal == WEIR_AGENT_REFUSAL_NONE) {
		slot = weir_agents_requests_find(
			sheds->requests, &(struct weir_agents_request){.balancer = answer.balancer,
						 .agent = answer.agent,
						 .id = answer.id});
		refusal = check(sheds, slot, &answer);
	}
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		sheds->counts->refused[refusal]++;
		return;
	}
	sheds->order[slot].result = (struct weir_agents_shed_result){.answered = true,
		.over = answer.result != WEIR_AGENT_SHED_ACTIVE,
		.result = (enum weir_agent_shed_result)answer.result,
		.method = (enum weir_agent_shed_method)answer.method,
		.connections = answer.connections,
		.candidates = answer.candidates,
		.leaving = answer.leaving,
		.ended = answer.ended};
	if (sheds->order[slot].result.over) {
		end(sheds, (uint32_t)slot);
	}
}

// --- orders -------------------------------------------------------------------------------

static struct weir_agent_shed make_message(const struct weir_agents_peer *peer, uint64_t process,
	uint64_t clock_ms, const struct weir_agents_shed *order) {
	struct weir_agent_shed message = {
		.balancer = peer->balancer,
		.agent = process,
		// clock_ms is an earlier value of the agent's clock, so the deadline at the agent
		// is never later than the deadline in this process.
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

static void encode(void *context, uint32_t slot, const struct weir_agent_key *key,
	uint8_t to[WEIR_AGENT_MESSAGE_BYTES]) {
	const struct weir_agents_sheds *sheds = context;

	weir_agent_shed_encode(&sheds->order[slot].message, key, to);
}

int weir_agents_sheds_order(struct weir_agents_sheds *sheds, const struct weir_agents_peer *peer,
	uint64_t process, uint64_t clock_ms, const struct weir_agents_shed *order) {
	struct weir_agents_request id = {.balancer = peer->balancer, .agent = process};
	int slot;

	if (!is_sound(order)) {
		return -EINVAL;
	}
	for (uint32_t i = 0; i < WEIR_AGENTS_SHEDS_MAX; i++) {
		if (weir_agents_requests_is_used(sheds->requests, i) &&
			sheds->order[i].order.backend == order->backend) {
			return -EALREADY;
		}
	}
	slot = weir_agents_requests_add(
		sheds->requests, peer, &id, order->duration_ms + WEIR_AGENTS_SHED_LATE_MS);
	if (slot < 0) {
		return slot;
	}
	sheds->order[slot] = (struct order){
		.order = *order, .message = make_message(peer, process, clock_ms, order)};
	sheds->order[slot].message.id = id.id;
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
	const struct weir_agents_requests_of of = {.loop = loop,
		.sockets = sockets,
		.keys = keys,
		.most = WEIR_AGENTS_SHEDS_MAX,
		.again_ms = WEIR_AGENTS_SHED_AGAIN_MS,
		.encode = encode,
		.over = on_over,
		.context = sheds};

	if (sheds == NULL || weir_agents_requests_create(&of, &sheds->requests) < 0) {
		free(sheds);
		return -ENOMEM;
	}
	sheds->keys = keys;
	sheds->counts = counts;
	*ret = sheds;
	return 0;
}

struct weir_agents_requests *weir_agents_sheds_requests(struct weir_agents_sheds *sheds) {
	return sheds->requests;
}

void weir_agents_sheds_free(struct weir_agents_sheds *sheds) {
	if (sheds != NULL) {
		weir_agents_requests_free(sheds->requests);
		free(sheds);
	}
}
