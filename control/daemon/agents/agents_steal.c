// SPDX-License-Identifier: BSD-3-Clause
#include "agents_steal.h"

#include <errno.h>
#include <stdlib.h>

struct steal { // data of the request in a slot of `requests`
	struct weir_agents_steal request;
	struct weir_agent_steal message;
};

struct weir_agents_steals {
	struct weir_agents_requests *requests;
	const struct weir_agent_keys *keys;
	struct weir_agents_counts *counts;
	weir_agents_steal_ended ended;
	void *context; // context of `ended`
	struct steal steal[WEIR_AGENTS_STEALS_MAX];
};

// --- the end of a request -----------------------------------------------------------------

static void end(
	struct weir_agents_steals *steals, uint32_t slot, enum weir_agent_steal_result result) {
	const struct weir_agents_steal request = steals->steal[slot].request;
	uint32_t duration_ms = weir_agents_requests_remove(steals->requests, slot);

	steals->counts->steal_results[result]++;
	steals->ended(steals->context, &request, result, duration_ms);
}

static void on_over(void *context, uint32_t slot) {
	end(context, slot, WEIR_AGENT_STEAL_NO_RESULT);
}

void weir_agents_steals_take(struct weir_agents_steals *steals, const struct weir_agents_peer *peer,
	const uint8_t *bytes, size_t count) {
	struct weir_agent_steal_answer answer;
	enum weir_agent_refusal refusal =
		weir_agent_steal_answer_decode(bytes, count, steals->keys, &answer);
	int slot = -ENOENT;

	if (refusal == WEIR_AGENT_REFUSAL_NONE && answer.balancer != peer->balancer) {
		refusal = WEIR_AGENT_REFUSAL_BALANCER;
	}
	if (refusal == WEIR_AGENT_REFUSAL_NONE) {
		slot = weir_agents_requests_find(
			steals->requests, &(struct weir_agents_request){.balancer = answer.balancer,
						  .agent = answer.agent,
						  .id = answer.id});
		if (slot < 0 || weir_agents_requests_is_late(steals->requests, (uint32_t)slot)) {
			refusal = WEIR_AGENT_REFUSAL_STEAL;
		} else if (!weir_agent_steal_is_same_flow(&steals->steal[slot].message, &answer)) {
			refusal = WEIR_AGENT_REFUSAL_FLOW;
		}
	}
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		steals->counts->refused[refusal]++;
		return;
	}
	end(steals, (uint32_t)slot, answer.result);
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
		// clock_ms is an earlier value of the agent's clock, so the deadline at the agent
		// is never later than the deadline in this process.
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

static void encode(void *context, uint32_t slot, const struct weir_agent_key *key,
	uint8_t to[WEIR_AGENT_MESSAGE_BYTES]) {
	const struct weir_agents_steals *steals = context;

	weir_agent_steal_encode(&steals->steal[slot].message, key, to);
}

// Returns whether a request to the same agent for the same flow is in flight.
static bool is_in_flight(
	const struct weir_agents_steals *steals, const struct weir_agent_steal *message) {
	struct weir_agent_steal_answer flow;

	weir_agent_steal_answer_begin(message, &flow);
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		const struct weir_agent_steal *other = &steals->steal[i].message;

		if (weir_agents_requests_is_used(steals->requests, i) &&
			other->balancer == message->balancer &&
			weir_agent_steal_is_same_flow(other, &flow)) {
			return true;
		}
	}
	return false;
}

int weir_agents_steals_request(struct weir_agents_steals *steals,
	const struct weir_agents_peer *peer, uint64_t process, uint64_t clock_ms,
	const struct weir_agents_steal *request) {
	struct weir_agents_request id = {.balancer = peer->balancer, .agent = process};
	struct weir_agent_steal message;
	int slot;

	if (!is_sound(request)) {
		return -EINVAL;
	}
	message = make_message(peer, process, clock_ms, request);
	if (is_in_flight(steals, &message)) {
		return -EALREADY;
	}
	slot = weir_agents_requests_add(steals->requests, peer, &id, request->timeout_ms);
	if (slot < 0) {
		return slot;
	}
	message.id = id.id;
	steals->steal[slot] = (struct steal){.request = *request, .message = message};
	steals->counts->steals++;
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
	const struct weir_agents_requests_of of = {.loop = loop,
		.sockets = sockets,
		.keys = keys,
		.most = WEIR_AGENTS_STEALS_MAX,
		.encode = encode,
		.over = on_over,
		.context = steals};

	if (steals == NULL || weir_agents_requests_create(&of, &steals->requests) < 0) {
		free(steals);
		return -ENOMEM;
	}
	steals->keys = keys;
	steals->counts = counts;
	*ret = steals;
	return 0;
}

struct weir_agents_requests *weir_agents_steals_requests(struct weir_agents_steals *steals) {
	return steals->requests;
}

void weir_agents_steals_free(struct weir_agents_steals *steals) {
	if (steals != NULL) {
		weir_agents_requests_free(steals->requests);
		free(steals);
	}
}
