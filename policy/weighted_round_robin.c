// SPDX-License-Identifier: BSD-3-Clause
//
// Weighted round robin by the static stride schedule (stride.h). A generation is one pass over all
// candidates. In generation g, candidate i of stride w has a turn unless (w * g + i * 32767) mod
// 65535 < 65535 - w. The shares are exact over 65,535 generations. A choice takes (largest stride /
// mean stride) steps on average.
//
// Each of r workers adds its own phase, a multiple of 65535 / r. Therefore the workers need no
// common counter: together they have the same turns as one worker that has r times as many turns
// (Hermite's identity).
//
// gRPC computes index and generation from one sequence number; this policy has a counter for each.
// If only few candidates have a high weight, WEIR_POLICY_WINDOW steps may find no candidate with a
// turn. Then the last choice is repeated, because it was probably a candidate with a high weight.
// If there is no last choice, or its backend is at its limit, the heaviest of the visited
// candidates without a turn is chosen.
#include "policy_private.h"

#define STRIDE_MAX 65535u
#define OFFSET 32767u // offset between the schedules of adjacent candidates

static uint32_t modulo_stride_max(uint64_t x) {
	x = (x & 0xffff) + (x >> 16);
	x = (x & 0xffff) + (x >> 16);
	x = (x & 0xffff) + (x >> 16);
	return x == STRIDE_MAX ? 0 : (uint32_t)x;
}

static bool has_turn(const struct weir_policy_client *client, uint16_t stride, uint32_t index) {
	uint64_t phase = (uint64_t)stride * client->generation + (uint64_t)index * OFFSET;

	return modulo_stride_max(phase + client->phase) >= STRIDE_MAX - stride;
}

static void start(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t now_ns) {
	uint32_t ranks = worker->ranks > 0 ? worker->ranks : 1;

	(void)table;
	(void)now_ns;
	client->phase = (uint32_t)((uint64_t)(worker->rank % ranks) * STRIDE_MAX / ranks);
	client->generation = 0;
	client->last_id = WEIR_POLICY_NONE;
}

static void resume(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, bool found, uint64_t now_ns) {
	(void)worker;
	(void)table;
	(void)found;
	(void)now_ns;
	client->last_id = WEIR_POLICY_NONE; // the backend with this id may have been removed
}

static uint32_t step(
	struct weir_policy_client *client, const struct weir_policy_table *table, uint32_t at) {
	if (at + 1 < table->count) {
		return at + 1;
	}
	client->generation = client->generation + 1 < STRIDE_MAX ? client->generation + 1 : 0;
	return 0;
}

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	uint32_t at = weir_policy_cursor(client, table);
	uint32_t chosen = WEIR_POLICY_NONE;
	uint32_t heaviest = WEIR_POLICY_NONE;
	// the last candidate that skipped its turn because of slow start
	uint32_t passed = WEIR_POLICY_NONE;
	uint16_t most = 0;

	(void)hash;
	(void)now_ns;
	for (uint32_t i = 0; i < WEIR_POLICY_WINDOW && chosen == WEIR_POLICY_NONE; i++) {
		uint16_t id = weir_policy_id(table, at);
		uint16_t stride = __atomic_load_n(&table->candidates[at].stride, __ATOMIC_RELAXED);

		if (has_turn(client, stride, at)) {
			bool can_take = weir_policy_can_take(worker, client, id);

			if (can_take && weir_policy_takes_turn(worker, id)) {
				chosen = id;
			} else if (can_take) {
				passed = id;
			}
		} else if (stride > most) {
			most = stride;
			heaviest = id;
		}
		at = step(client, table, at);
	}
	weir_policy_set_cursor(client, table, at);
	if (chosen == WEIR_POLICY_NONE && passed != WEIR_POLICY_NONE) {
		// Each visited candidate with a turn is in slow start or at its limit.
		worker->backends[passed].credit = 0;
		chosen = passed;
	}
	if (chosen != WEIR_POLICY_NONE) {
		client->last_id = chosen;
		return chosen;
	}
	if (weir_policy_can_take(worker, client, client->last_id)) {
		return client->last_id;
	}
	return weir_policy_can_take(worker, client, heaviest) ? heaviest : WEIR_POLICY_NONE;
}

const struct weir_policy_ops weir_weighted_round_robin_ops = {
	.start = start, .resume = resume, .choose = choose, .cursor = true};
