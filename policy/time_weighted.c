// SPDX-License-Identifier: BSD-3-Clause
//
// Time-weighted round robin: a backend gets the new flows until their predicted service times add
// up to its weight in milliseconds. Then the turn of the next backend begins.
//
// The first flow of a turn is also charged (the library poolifier does not charge it); otherwise
// the backends' shares of the flows would not be proportional to their weights. A flow is charged
// when its backend is chosen, not when the flow ends; otherwise all flows of a burst would go to
// one backend.
#include "policy_private.h"

#define NS_PER_WEIGHT UINT64_C(1000000)

static void start(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t now_ns) {
	(void)worker;
	(void)table;
	(void)now_ns;
	client->spent_ns = 0;
}

static void resume(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, bool found, uint64_t now_ns) {
	if (!found) {
		start(worker, client, table, now_ns);
	}
}

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	// One more step than candidates: the turn of the first candidate may be over, and only this
	// candidate may be able to take the flow.
	uint32_t steps = weir_policy_min(table->count, WEIR_POLICY_WINDOW) + 1;
	uint32_t passes = WEIR_POLICY_WINDOW; // maximum number of flows skipped for slow start
	uint32_t at = weir_policy_cursor(client, table);

	(void)hash;
	(void)now_ns;
	for (; steps > 0; steps--) {
		uint16_t id = weir_policy_id(table, at);
		uint32_t weight = __atomic_load_n(&table->candidates[at].weight, __ATOMIC_RELAXED);
		uint64_t quota_ns = weight * NS_PER_WEIGHT;

		while (client->spent_ns < quota_ns && weir_policy_can_take(worker, client, id)) {
			client->spent_ns += weir_policy_turn_cost(worker, id, quota_ns);
			if (weir_policy_takes_turn(worker, id) || passes-- == 0) {
				weir_policy_set_cursor(client, table, at);
				return id;
			}
		}
		at = weir_policy_next(table, at);
		client->spent_ns = 0;
	}
	weir_policy_set_cursor(client, table, at);
	return WEIR_POLICY_NONE;
}

const struct weir_policy_ops weir_time_weighted_ops = {
	.start = start, .resume = resume, .choose = choose, .cursor = true};
