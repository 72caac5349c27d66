// SPDX-License-Identifier: BSD-3-Clause
//
// Random: chooses a uniformly random candidate. The policy is meant for comparison with other
// policies.
#include "policy_private.h"

#define DRAWS 16u // maximum number of tries before flow control searches for a candidate

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	(void)hash;
	(void)now_ns;
	for (uint32_t i = 0; i < DRAWS; i++) {
		uint16_t id = weir_policy_id(table, weir_policy_uniform(worker, table->count));

		if (weir_policy_can_take(worker, client, id) &&
			weir_policy_takes_turn(worker, id)) {
			return id;
		}
	}
	return WEIR_POLICY_NONE;
}

const struct weir_policy_ops weir_random_ops = {.choose = choose};
