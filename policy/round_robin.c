// SPDX-License-Identifier: BSD-3-Clause
//
// Round robin: chooses the candidate at the cursor, and advances the cursor. Candidates at their
// limit are skipped and lose their turn.
#include "policy_private.h"

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	uint32_t steps = weir_policy_min(table->count, WEIR_POLICY_WINDOW);
	uint32_t at = weir_policy_cursor(client, table);
	uint32_t chosen = WEIR_POLICY_NONE;

	(void)hash;
	(void)now_ns;
	for (uint32_t i = 0; i < steps && chosen == WEIR_POLICY_NONE; i++) {
		uint16_t id = weir_policy_id(table, at);

		if (weir_policy_can_take(worker, client, id)) {
			if (weir_policy_takes_turn(worker, id)) {
				chosen = id;
			} else {
				// The backend is in slow start, and may be the only candidate.
				// Extend the search, so that the backend gets further turns.
				steps = WEIR_POLICY_WINDOW;
			}
		}
		at = weir_policy_next(table, at);
	}
	weir_policy_set_cursor(client, table, at);
	return chosen;
}

const struct weir_policy_ops weir_round_robin_ops = {.choose = choose, .cursor = true};
