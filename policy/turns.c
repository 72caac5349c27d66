// SPDX-License-Identifier: BSD-3-Clause
//
// Slow start: decides whether a backend gets the next turn of a round robin, or the next flow,
// and computes its reduced flow limit.
#include "policy_private.h"

uint32_t weir_policy_part_of_limit(const struct weir_policy_backend *backend, uint32_t limit) {
	uint64_t part = (uint64_t)limit * backend->share.part / WEIR_POLICY_PART_ONE;

	if (limit == UINT32_MAX || limit == 0) {
		return limit;
	}
	return part > 0 ? (uint32_t)part : 1;
}

bool weir_policy_has_part(struct weir_policy_backend *backend) {
	uint32_t credit = weir_policy_min(backend->credit, WEIR_POLICY_PART_ONE - 1);

	credit += backend->share.part;
	backend->credit = credit % WEIR_POLICY_PART_ONE;
	return credit >= WEIR_POLICY_PART_ONE;
}

// Maximum credit that a backend can save, in flows. A backend must be able to save some credit,
// because credit is updated irregularly.
#define TURNS_KEPT 8u

bool weir_policy_has_turns(const struct weir_policy_client *client,
	const struct weir_policy_table *table, struct weir_policy_backend *backend) {
	uint64_t cost = (uint64_t)table->count * WEIR_POLICY_TURNS_ONE;
	uint64_t credit = backend->credit +
			  (uint64_t)(client->turns - backend->turns_seen) * backend->share.turns;

	backend->turns_seen = client->turns;
	credit = credit < TURNS_KEPT * cost ? credit : TURNS_KEPT * cost;
	backend->credit = (uint32_t)(credit < cost ? credit : credit - cost);
	return credit >= cost;
}
