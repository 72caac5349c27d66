// SPDX-License-Identifier: BSD-3-Clause
//
// Power of two choices: chooses the less loaded of two different random candidates. The load is the
// same as for least-loaded, without weights. The policy is meant for comparison with other
// policies.
#include "recent_errors.h"

#define DRAWS 8u // maximum number of pairs to draw before flow control searches for a candidate

static uint64_t load_of(const struct weir_policy_worker *worker,
	const struct weir_policy_client *client, uint32_t id) {
	struct weir_policy_backend *backend = &worker->backends[id];

	return weir_policy_load_over_part(client, backend);
}

// Returns the less loaded of two backends; the first if the loads are equal. An id may be invalid,
// and a backend may be at its limit.
static uint32_t better(struct weir_policy_worker *worker, const struct weir_policy_client *client,
	uint32_t first, uint32_t second) {
	if (!weir_policy_can_take(worker, client, first)) {
		return weir_policy_can_take(worker, client, second) ? second : WEIR_POLICY_NONE;
	}
	if (!weir_policy_can_take(worker, client, second)) {
		return first;
	}
	weir_errors_look(worker, first);
	weir_errors_look(worker, second);
	return load_of(worker, client, second) < load_of(worker, client, first) ? second : first;
}

// Returns the less loaded of two candidates. If this candidate is in slow start and skips the flow,
// returns the other candidate. Returns WEIR_POLICY_NONE if neither of them can get the flow.
static uint32_t choose_of(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint32_t first, uint32_t second) {
	uint32_t id = better(worker, client, first, second);
	uint32_t other = id == first ? second : first;

	if (id == WEIR_POLICY_NONE || weir_policy_takes_flow(worker, client, table, id)) {
		return id;
	}
	return other != id && weir_policy_can_take(worker, client, other) &&
			       weir_policy_takes_flow(worker, client, table, other)
		       ? other
		       : WEIR_POLICY_NONE;
}

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	uint32_t chosen = WEIR_POLICY_NONE;

	(void)hash;
	(void)now_ns;
	client->turns++;
	for (uint32_t i = 0; i < DRAWS && chosen == WEIR_POLICY_NONE; i++) {
		uint32_t first = weir_policy_uniform(worker, table->count);
		uint32_t second = first;

		if (table->count > 1) {
			second = weir_policy_uniform(worker, table->count - 1);
			second += second >= first;
		}
		chosen = choose_of(worker, client, table, weir_policy_id(table, first),
			weir_policy_id(table, second));
	}
	return chosen;
}

const struct weir_policy_ops weir_power_of_two_ops = {.choose = choose};
