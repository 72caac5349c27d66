// SPDX-License-Identifier: BSD-3-Clause
#include "steals.h"

#include <string.h>

static struct weir_steals_entry *find(
	struct weir_steals *steals, const struct weir_agent_steal *steal) {
	for (uint32_t i = 0; i < WEIR_STEALS_MOST; i++) {
		struct weir_steals_entry *entry = &steals->entry[i];

		if (entry->number != 0 && entry->answer.balancer == steal->balancer &&
			entry->answer.id == steal->id) {
			return entry;
		}
	}
	return NULL;
}

static bool is_too_often(struct weir_steals *steals, uint64_t clock_ms) {
	if (steals->busy_ms < clock_ms) {
		steals->busy_ms = clock_ms;
	}
	if (steals->busy_ms > clock_ms + (WEIR_STEALS_BURST - 1) * WEIR_STEALS_EVERY_MS) {
		return true;
	}
	steals->busy_ms += WEIR_STEALS_EVERY_MS;
	return false;
}

static struct weir_steals_entry *enter(
	struct weir_steals *steals, const struct weir_agent_steal *steal) {
	struct weir_steals_entry *entry;

	steals->last += steals->last == UINT32_MAX ? 2 : 1; // never 0
	entry = &steals->entry[steals->last % WEIR_STEALS_MOST];
	*entry = (struct weir_steals_entry){
		.pending = true, .key_id = steal->key_id, .number = steals->last};
	weir_agent_steal_answer_begin(steal, &entry->answer);
	return entry;
}

enum weir_steals_verdict weir_steals_take(struct weir_steals *steals,
	const struct weir_agent_steal *steal, uint64_t agent, uint64_t clock_ms,
	struct weir_steals_entry **ret, enum weir_agent_refusal *refusal) {
	struct weir_steals_entry *entry = find(steals, steal);

	if (steal->agent != agent) {
		*refusal = WEIR_AGENT_REFUSAL_AGENT;
		return WEIR_STEALS_REFUSED;
	}
	if (entry != NULL) {
		if (!weir_agent_steal_is_same_flow(steal, &entry->answer)) {
			*refusal = WEIR_AGENT_REFUSAL_FLOW;
			return WEIR_STEALS_REFUSED;
		}
		*ret = entry;
		return entry->pending ? WEIR_STEALS_PENDING : WEIR_STEALS_KNOWN;
	}
	if (steal->deadline_ms <= clock_ms) {
		return WEIR_STEALS_LATE;
	}
	if (steal->deadline_ms - clock_ms > WEIR_AGENT_STEAL_AHEAD_MS) {
		*refusal = WEIR_AGENT_REFUSAL_VALUE;
		return WEIR_STEALS_REFUSED;
	}
	if (is_too_often(steals, clock_ms)) {
		*refusal = WEIR_AGENT_REFUSAL_RATE;
		return WEIR_STEALS_REFUSED;
	}
	*ret = enter(steals, steal);
	return WEIR_STEALS_NEW;
}

struct weir_steals_entry *weir_steals_pending(struct weir_steals *steals, uint32_t number) {
	struct weir_steals_entry *entry = &steals->entry[number % WEIR_STEALS_MOST];

	return number != 0 && entry->number == number && entry->pending ? entry : NULL;
}
