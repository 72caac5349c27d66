// SPDX-License-Identifier: BSD-3-Clause
#include "flow_waiting.h"

#include "flow_parts.h"
#include "flow_slot.h"

#define MS 1000000ull

// Returns whether the flow with this word waits for a reply to its SYN, and matches the search.
// *ret_idle_ms: minimum time since the last packet of the flow.
static bool is_waiting(const struct weir_flow_table *table, uint32_t word,
	const struct weir_flow_waiting_search *search, uint64_t now_ns, uint32_t *ret_idle_ms) {
	const uint16_t backend = (uint16_t)word;
	uint64_t ticks, idle_ns;
	bool its = false;

	if (likely(weir_flow_phase_of(word) != WEIR_PHASE_SYN_SEEN)) {
		return false;
	}
	for (unsigned int i = 0; i < WEIR_FLOW_WAITING_BACKENDS; i++) {
		its |= search->backend[i] == backend;
	}
	ticks = weir_flow_age_of(table, word, now_ns);
	// The last packet may have arrived at the end of its tick.
	idle_ns = ticks > 0 ? (ticks - 1) << table->shift[WEIR_PHASE_SYN_SEEN] : 0;
	*ret_idle_ms = (uint32_t)(idle_ns / MS);
	return its && backend != WEIR_WORD_BACKEND && ticks > 0 &&
	       idle_ns >= search->idle_ms * MS && !weir_flow_is_expired(table, word, now_ns);
}

uint32_t weir_flow_waiting_in(const struct weir_flow_table *table, uint32_t line,
	const struct weir_flow_waiting_search *search, uint64_t now_ns,
	struct weir_flow_waiting *ret) {
	const bool ipv6 = weir_flow_walk_family(table, line) == 6;
	const uint32_t slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;
	const uint32_t bucket = ipv6 ? line - (uint32_t)table->family4.bucket_count : line;
	const struct weir_flow_family *family = ipv6 ? &table->family6 : &table->family4;
	const uint32_t *words = weir_flow_bucket_words(table, ipv6, bucket);
	uint32_t count = 0;

	_Static_assert(
		WEIR_FLOW_SLOTS4 <= WEIR_FLOW_WALK_LINE && WEIR_FLOW_SLOTS6 <= WEIR_FLOW_WALK_LINE,
		"the caller's array must have room for the flows of a bucket");
	// Do not read a line whose flows another worker owns: that worker changes the flows.
	if (table->owned.shift != 0 &&
		!weir_flow_owns(table, (uint32_t)(bucket / family->part_buckets))) {
		return 0;
	}
	for (uint32_t slot = 0; slot < slots; slot++) {
		uint32_t idle_ms;

		if (unlikely(is_waiting(table, words[slot], search, now_ns, &idle_ms))) {
			ret[count++] = (struct weir_flow_waiting){
				.key = weir_flow_key_at(table, ipv6, bucket, slot),
				.stamp = words[slot],
				.idle_ms = idle_ms};
		}
	}
	return count;
}

uint32_t weir_flow_waiting_stamp(const struct weir_flow_table *table, weir_flow_ref flow) {
	return weir_flow_word_of(table, flow);
}
