// SPDX-License-Identifier: BSD-3-Clause
//
// Maglev: the hash of the flow selects a slot of the table, and the slot contains the candidate.
// All instances with the same table select the same candidate for a flow. If the candidate is at
// its limit, the candidates of the following slots are tried.
//
// Workers keep no state for this policy, so the policy needs no work when a table is adopted.
#include "policy_private.h"

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	uint32_t steps = weir_policy_min(table->slot_count, WEIR_POLICY_WINDOW);
	uint32_t slot;

	(void)now_ns;
	if (table->slots == NULL || steps == 0) {
		return WEIR_POLICY_NONE;
	}
	slot = weir_policy_slot(hash, table->slot_count);
	for (; steps > 0; steps--) {
		uint16_t index = __atomic_load_n(&table->slots[slot], __ATOMIC_RELAXED);

		if (index < table->count) {
			uint16_t id = weir_policy_id(table, index);

			if (weir_policy_can_take(worker, client, id)) {
				return id;
			}
		}
		slot = slot + 1 < table->slot_count ? slot + 1 : 0;
	}
	return WEIR_POLICY_NONE;
}

const struct weir_policy_ops weir_maglev_ops = {.choose = choose};
