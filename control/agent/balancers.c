// SPDX-License-Identifier: BSD-3-Clause
#include "balancers.h"

#include <string.h>

#define NOTICE_FIRST_MS 50
#define NOTICE_MOST_MS 500
// Minimum time to keep the replay window of a balancer after its last probe. Packet loss alone does
// not cause such a long gap between probes.
#define REPLAY_KEEP_MS 60000

static uint64_t patience_ms(uint32_t interval_ms) {
	return (uint64_t)interval_ms * WEIR_AGENT_SILENT_PROBES;
}

static struct weir_balancer *find(struct weir_balancers *balancers, uint64_t id) {
	for (uint32_t i = 0; i < WEIR_BALANCERS_MAX; i++) {
		if (balancers->entry[i].id == id) {
			return &balancers->entry[i];
		}
	}
	return NULL;
}

static void note(struct weir_balancer *balancer, const struct weir_agent_probe *probe,
	const struct weir_path *path, uint64_t now_ms) {
	balancer->id = probe->balancer;
	balancer->key_id = probe->key_id;
	memcpy(balancer->challenge, probe->challenge, sizeof(balancer->challenge));
	balancer->path = *path;
	balancer->wants = probe->wants;
	balancer->interval_ms = probe->interval_ms;
	balancer->seen_ms = now_ms;
	balancer->acknowledged = probe->acknowledged;
}

struct weir_balancer *weir_balancers_take(struct weir_balancers *balancers,
	const struct weir_agent_probe *probe, uint64_t agent, const struct weir_path *path,
	uint64_t now_ms, enum weir_agent_refusal *refusal) {
	uint64_t keep_ms = patience_ms(probe->interval_ms);
	struct weir_balancer *balancer = find(balancers, probe->balancer);

	if (probe->agent != agent) {
		balancers->stranger = (struct weir_balancer){0};
		note(&balancers->stranger, probe, path, now_ms);
		return &balancers->stranger;
	}
	if (balancer == NULL) {
		balancer = find(balancers, 0);
	}
	if (balancer == NULL) {
		*refusal = WEIR_AGENT_REFUSAL_FULL;
		return NULL;
	}
	switch (weir_replay_take(&balancers->replay, probe->balancer, probe->sequence, now_ms,
		keep_ms > REPLAY_KEEP_MS ? keep_ms : REPLAY_KEEP_MS)) {
	case WEIR_REPLAY_NEW:
		break;
	case WEIR_REPLAY_FULL:
		*refusal = WEIR_AGENT_REFUSAL_FULL;
		return NULL;
	default: // the sequence number is not above the highest sequence number that was answered
		*refusal = WEIR_AGENT_REFUSAL_REPLAY;
		return NULL;
	}
	if (balancer->id == 0) {
		*balancer = (struct weir_balancer){0};
	}
	note(balancer, probe, path, now_ms);
	return balancer;
}

uint32_t weir_balancers_expire(struct weir_balancers *balancers, uint64_t now_ms) {
	uint32_t left = 0;

	for (uint32_t i = 0; i < WEIR_BALANCERS_MAX; i++) {
		struct weir_balancer *balancer = &balancers->entry[i];

		if (balancer->id != 0 &&
			now_ms - balancer->seen_ms > patience_ms(balancer->interval_ms)) {
			*balancer = (struct weir_balancer){0};
		}
		left += balancer->id != 0;
	}
	return left;
}

uint32_t weir_balancers_count(const struct weir_balancers *balancers) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < WEIR_BALANCERS_MAX; i++) {
		count += balancers->entry[i].id != 0;
	}
	return count;
}

uint32_t weir_balancers_wants(const struct weir_balancers *balancers) {
	uint32_t wants = 0;

	for (uint32_t i = 0; i < WEIR_BALANCERS_MAX; i++) {
		wants |= balancers->entry[i].wants;
	}
	return wants;
}

static bool is_unacknowledged(const struct weir_balancer *balancer, uint32_t serial) {
	return balancer->id != 0 && balancer->acknowledged < serial;
}

uint32_t weir_balancers_unacknowledged(const struct weir_balancers *balancers, uint32_t serial) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < WEIR_BALANCERS_MAX; i++) {
		count += is_unacknowledged(&balancers->entry[i], serial);
	}
	return count;
}

void weir_balancers_announce(struct weir_balancers *balancers, uint64_t now_ms) {
	for (uint32_t i = 0; i < WEIR_BALANCERS_MAX; i++) {
		balancers->entry[i].notify_ms = now_ms;
		balancers->entry[i].wait_ms = NOTICE_FIRST_MS;
	}
}

struct weir_balancer *weir_balancers_next_to_notify(
	struct weir_balancers *balancers, uint32_t serial, uint64_t now_ms) {
	for (uint32_t i = 0; i < WEIR_BALANCERS_MAX; i++) {
		struct weir_balancer *balancer = &balancers->entry[i];

		// wait_ms is 0 for a balancer that first probed after the announcement: the answer
		// to its first probe contained the state.
		if (is_unacknowledged(balancer, serial) && balancer->wait_ms > 0 &&
			now_ms >= balancer->notify_ms) {
			balancer->notify_ms = now_ms + balancer->wait_ms;
			balancer->wait_ms *= 2;
			if (balancer->wait_ms > NOTICE_MOST_MS) {
				balancer->wait_ms = NOTICE_MOST_MS;
			}
			return balancer;
		}
	}
	return NULL;
}
