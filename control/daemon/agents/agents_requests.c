// SPDX-License-Identifier: BSD-3-Clause
#include "agents_requests.h"

#include <errno.h>
#include <stdlib.h>

struct slot {
	bool used;
	bool sent; // the request was sent at least once, or sending has failed
	struct weir_agents_peer peer;
	struct weir_agents_request request;
	uint64_t since_ms;
	uint64_t send_ms; // time to send the request next; UINT64_MAX = it is not sent again
	uint64_t until_ms; // deadline; 0 = cancelled, or could not be sent
};

struct weir_agents_requests {
	struct weir_agents_requests_of of;
	uv_timer_t timer;
	uint64_t last_id; // id of the last request: ids are never reused
	struct slot slot[]; // [of.most]
};

static uint64_t read_now_ms(void) {
	return uv_hrtime() / 1000000;
}

// --- timer --------------------------------------------------------------------------------

static void on_timer(uv_timer_t *timer);

// Start the timer for the next event. An event that is due is handled in the next iteration.
static void arm(struct weir_agents_requests *requests) {
	uint64_t now_ms = read_now_ms(), next_ms = UINT64_MAX;

	for (uint32_t i = 0; i < requests->of.most; i++) {
		const struct slot *slot = &requests->slot[i];

		if (slot->used && slot->send_ms < next_ms) {
			next_ms = slot->send_ms;
		}
		if (slot->used && slot->until_ms < next_ms) {
			next_ms = slot->until_ms;
		}
	}
	if (next_ms == UINT64_MAX) {
		uv_timer_stop(&requests->timer);
		return;
	}
	uv_update_time(requests->of.loop);
	uv_timer_start(&requests->timer, on_timer, next_ms > now_ms ? next_ms - now_ms : 0, 0);
}

// Ends a request that could not be sent, unless requests of this kind are retried.
static void take_unsent(const struct weir_agents_requests *requests, struct slot *slot) {
	if (requests->of.again_ms == 0) {
		slot->until_ms = 0;
	}
}

static void send_request(struct weir_agents_requests *requests, uint32_t i, uint64_t now_ms) {
	const struct weir_agents_requests_of *of = &requests->of;
	struct slot *slot = &requests->slot[i];

	slot->sent = true;
	slot->send_ms = of->again_ms > 0 ? now_ms + of->again_ms : UINT64_MAX;
	if (of->keys->count == 0) {
		take_unsent(requests, slot);
		return;
	}
	of->encode(of->context, i, &of->keys->key[0],
		weir_agents_sockets_add(of->sockets, &slot->peer.address, slot->peer.port, slot));
}

static void on_timer(uv_timer_t *timer) {
	struct weir_agents_requests *requests = timer->data;
	uint64_t now_ms = read_now_ms();

	for (uint32_t i = 0; i < requests->of.most; i++) {
		const struct slot *slot = &requests->slot[i];

		if (slot->used && slot->send_ms <= now_ms && slot->until_ms > now_ms) {
			send_request(requests, i, now_ms);
		}
	}
	weir_agents_sockets_flush(requests->of.sockets);
	now_ms = read_now_ms();
	for (uint32_t i = 0; i < requests->of.most; i++) {
		if (requests->slot[i].used && requests->slot[i].until_ms <= now_ms) {
			requests->of.over(requests->of.context, i);
		}
	}
	arm(requests);
}

bool weir_agents_requests_unsent(struct weir_agents_requests *requests, const void *owner) {
	for (uint32_t i = 0; i < requests->of.most; i++) {
		if (owner == &requests->slot[i]) {
			take_unsent(requests, &requests->slot[i]);
			arm(requests);
			return true;
		}
	}
	return false;
}

void weir_agents_requests_cancel(
	struct weir_agents_requests *requests, const struct weir_agents_peer *peer) {
	for (uint32_t i = 0; i < requests->of.most; i++) {
		struct slot *slot = &requests->slot[i];

		if (slot->used && slot->peer.balancer == peer->balancer) {
			slot->until_ms = 0;
			arm(requests);
		}
	}
}

// --- requests -----------------------------------------------------------------------------

int weir_agents_requests_add(struct weir_agents_requests *requests,
	const struct weir_agents_peer *peer, struct weir_agents_request *request,
	uint32_t duration_ms) {
	const uint64_t now_ms = read_now_ms();
	uint32_t i = 0;

	while (i < requests->of.most && requests->slot[i].used) {
		i++;
	}
	if (i == requests->of.most) {
		return -EBUSY;
	}
	request->id = ++requests->last_id;
	requests->slot[i] = (struct slot){.used = true,
		.peer = *peer,
		.request = *request,
		.since_ms = now_ms,
		.send_ms = now_ms,
		.until_ms = now_ms + duration_ms};
	arm(requests);
	return (int)i;
}

int weir_agents_requests_find(
	const struct weir_agents_requests *requests, const struct weir_agents_request *request) {
	for (uint32_t i = 0; i < requests->of.most; i++) {
		const struct slot *slot = &requests->slot[i];

		if (slot->used && slot->sent && slot->request.id == request->id &&
			slot->request.balancer == request->balancer &&
			slot->request.agent == request->agent) {
			return (int)i;
		}
	}
	return -ENOENT;
}

bool weir_agents_requests_is_used(const struct weir_agents_requests *requests, uint32_t slot) {
	return requests->slot[slot].used;
}

bool weir_agents_requests_is_late(const struct weir_agents_requests *requests, uint32_t slot) {
	return requests->slot[slot].until_ms <= read_now_ms();
}

uint32_t weir_agents_requests_remove(struct weir_agents_requests *requests, uint32_t slot) {
	const uint64_t since_ms = requests->slot[slot].since_ms;

	requests->slot[slot] = (struct slot){0};
	return (uint32_t)(read_now_ms() - since_ms);
}

// --- create and free ----------------------------------------------------------------------

int weir_agents_requests_create(
	const struct weir_agents_requests_of *of, struct weir_agents_requests **ret) {
	struct weir_agents_requests *requests =
		calloc(1, sizeof(*requests) + of->most * sizeof(requests->slot[0]));

	if (requests == NULL) {
		return -ENOMEM;
	}
	requests->of = *of;
	uv_timer_init(of->loop, &requests->timer);
	requests->timer.data = requests;
	*ret = requests;
	return 0;
}

static void on_closed(uv_handle_t *handle) {
	free(handle->data);
}

void weir_agents_requests_free(struct weir_agents_requests *requests) {
	if (requests != NULL) {
		uv_close((uv_handle_t *)&requests->timer, on_closed);
	}
}
