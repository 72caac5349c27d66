// SPDX-License-Identifier: BSD-3-Clause
#include "flow_walk.h"

#include "flow_parts.h"
#include "flow_slot.h"

uint32_t weir_flow_walk_lines(const struct weir_flow_table *table) {
	uint64_t lines = table->family4.bucket_count + table->family6.bucket_count;

	return (uint32_t)RTE_MIN(lines, (uint64_t)UINT32_MAX);
}

uint8_t weir_flow_walk_family(const struct weir_flow_table *table, uint32_t line) {
	return line < table->family4.bucket_count ? 4 : 6;
}

uint32_t weir_flow_walk_owned(const struct weir_flow_table *table, uint32_t line) {
	const uint32_t lines = weir_flow_walk_lines(table);

	while (table->owned.shift != 0 && line < lines) {
		bool ipv6 = weir_flow_walk_family(table, line) == 6;
		const struct weir_flow_family *family = ipv6 ? &table->family6 : &table->family4;
		uint64_t before = ipv6 ? table->family4.bucket_count : 0;
		uint64_t part = (line - before) / family->part_buckets;

		if (weir_flow_owns(table, (uint32_t)part)) {
			return line;
		}
		line = (uint32_t)RTE_MIN(
			before + (part + 1) * family->part_buckets, (uint64_t)lines);
	}
	return RTE_MIN(line, lines);
}

uint32_t weir_flow_walk(const struct weir_flow_table *table, uint32_t line, uint64_t now_ns,
	struct weir_flow_walked *ret) {
	const bool ipv6 = weir_flow_walk_family(table, line) == 6;
	const uint32_t slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;
	const uint32_t bucket = ipv6 ? line - (uint32_t)table->family4.bucket_count : line;
	const uint32_t *words = weir_flow_bucket_words(table, ipv6, bucket);
	uint32_t count = 0;

	// Do not read a line whose flows another worker owns: that worker changes the flows.
	if (weir_flow_walk_owned(table, line) != line) {
		return 0;
	}
	for (uint32_t slot = 0; slot < slots; slot++) {
		const uint32_t word = words[slot];
		struct weir_flow_walked *met = &ret[count];

		if (weir_flow_phase_of(word) == WEIR_PHASE_FREE ||
			weir_flow_is_expired(table, word, now_ns)) {
			continue;
		}
		met->key = weir_flow_key_at(table, ipv6, bucket, slot);
		met->flow = weir_flow_ref_make(ipv6, bucket, slot);
		met->state = weir_flow_state(table, met->flow);
		met->backend = (uint16_t)word;
		met->idle_ms = weir_flow_idle_ms(table, met->flow, now_ns);
		count++;
	}
	return count;
}
