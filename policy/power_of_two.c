// SPDX-License-Identifier: BSD-3-Clause
//
// Power of two choices: the less loaded (active flows and recent errors) of two different
// candidates at random. For comparison.
#include "recent_errors.h"

#define DRAWS 8u // of two, before the least loaded one of all is looked for

// The better of two ids that may be garbage or at their limit; the first one when they are equal.
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
	return weir_policy_load(client, &worker->backends[second]) <
			       weir_policy_load(client, &worker->backends[first])
		       ? second
		       : first;
}

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	uint32_t chosen = WEIR_POLICY_NONE;

	(void)hash;
	(void)now_ns;
	for (uint32_t i = 0; i < DRAWS && chosen == WEIR_POLICY_NONE; i++) {
		uint32_t first = weir_policy_uniform(worker, table->count);
		uint32_t second = first;

		if (table->count > 1) {
			second = weir_policy_uniform(worker, table->count - 1);
			second += second >= first;
		}
		chosen = better(worker, client, weir_policy_id(table, first),
			weir_policy_id(table, second));
	}
	return chosen;
}

const struct weir_policy_ops weir_power_of_two_ops = {.choose = choose};
