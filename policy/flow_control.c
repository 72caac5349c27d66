// SPDX-License-Identifier: BSD-3-Clause
//
// Flow control: what happens to a new flow when its policy met nobody below the limit of active
// flows. Looks at WEIR_POLICY_WINDOW candidates, and continues from there next time.
//
// When those are all that there are, and all are at the limit, the client remembers: until a
// flow has ended, the policy need not search again.
#include "recent_errors.h"

// What is minimised: at the limit, load, order.
#define AT_LIMIT (UINT64_C(1) << 63)
#define LOAD_SHIFT 8
_Static_assert(WEIR_POLICY_WINDOW <= 1u << LOAD_SHIFT, "order fits");

static uint64_t rank_backend(
	struct weir_policy_client *client, struct weir_policy_backend *backend, uint32_t order) {
	uint64_t rank = (uint64_t)weir_policy_load(client, backend) << LOAD_SHIFT | order;

	return rank | (weir_policy_below_limit(client, backend) ? 0 : AT_LIMIT);
}

struct weir_chosen weir_policy_fall_back(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table) {
	uint32_t steps = weir_policy_min(table->count, WEIR_POLICY_WINDOW);
	uint32_t at = client->spill_cursor < table->count ? client->spill_cursor : 0;
	struct weir_chosen chosen = {.how = WEIR_CHOSEN};
	uint64_t least = UINT64_MAX;

	if (client->exhausted != 0 && client->settings.when_exhausted == WEIR_EXHAUSTED_REJECT) {
		chosen.how = WEIR_CHOSEN_REJECTED;
		return chosen;
	}
	for (uint32_t i = 0; i < steps; i++) {
		uint16_t id = weir_policy_id(table, at);

		at = weir_policy_next(table, at);
		if (id < worker->backend_count) {
			uint64_t rank = rank_backend(client, &worker->backends[id], i);

			chosen.id = rank < least ? id : chosen.id;
			least = rank < least ? rank : least;
		}
	}
	if (least == UINT64_MAX) {
		chosen.how = WEIR_CHOSEN_NOBODY;
	} else if ((least & AT_LIMIT) != 0) {
		client->exhausted = table->count <= WEIR_POLICY_WINDOW;
		chosen.how = client->settings.when_exhausted == WEIR_EXHAUSTED_REJECT
				     ? WEIR_CHOSEN_REJECTED
				     : WEIR_CHOSEN_SPILLED;
	}
	if (steps == table->count && least != UINT64_MAX) {
		// All were looked at: equals take turns.
		at = client->spill_cursor < table->count ? client->spill_cursor : 0;
		at += (uint32_t)(least & ((1u << LOAD_SHIFT) - 1)) + 1;
		at = at < table->count ? at : at - table->count;
	}
	client->spill_cursor = at;
	return chosen;
}
