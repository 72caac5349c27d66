// SPDX-License-Identifier: BSD-3-Clause
#include "flow_bucket.h"

#include "flow_slot.h"

static bool fills_up(const struct weir_flow_family *family) {
	return family->count > family->capacity - family->capacity / 4;
}

void weir_flow_refresh_stamps(struct weir_flow_table *table, uint64_t now_ns) {
	uint32_t stamp[WEIR_FLOW_PHASES];

	for (unsigned int phase = WEIR_PHASE_SYN_SEEN; phase < WEIR_FLOW_PHASES; phase++) {
		stamp[phase] = weir_flow_word_make(table, phase, 0, now_ns);
		table->now.word[phase] = stamp[phase] | WEIR_WORD_BACKEND;
	}
	table->stamps.word[WEIR_FLOW_EVENT_SYN][WEIR_PHASE_SYN_SEEN] = stamp[WEIR_PHASE_SYN_SEEN];
	table->stamps.word[WEIR_FLOW_EVENT_DATA][WEIR_PHASE_ESTABLISHED] =
		stamp[WEIR_PHASE_ESTABLISHED];
	// A packet other than SYN, FIN and RST makes a young flow established. The listener is not
	// called for this change.
	table->stamps.word[WEIR_FLOW_EVENT_DATA][WEIR_PHASE_YOUNG] = stamp[WEIR_PHASE_ESTABLISHED];
	table->stamps.word[WEIR_FLOW_EVENT_DATA][WEIR_PHASE_CLOSING] = stamp[WEIR_PHASE_CLOSING];
	// During a recheck the stamp is 0: datagrams take the slow lookup, whose caller checks the
	// flow's service.
	table->stamps.word[WEIR_FLOW_EVENT_DATAGRAM][WEIR_PHASE_UDP] =
		table->rechecking ? 0 : stamp[WEIR_PHASE_UDP];
	table->now.timeout_ticks[WEIR_PHASE_RESET] =
		fills_up(&table->family4) || fills_up(&table->family6) ? table->reset_ticks_short
								       : table->reset_ticks;
	table->idle_searches = WEIR_FLOW_IDLE_SEARCHES;
	table->stamped = now_ns >> WEIR_FLOW_STAMP_SHIFT;
}

uint32_t *weir_flow_find6_among(
	const struct weir_flow_table *table, struct weir_flow_bucket6 *bucket, const uint8_t *ip) {
	struct weir_flow_tuple6 tuple = {.source = ip + 8, .destination = ip + 24};
	unsigned int match;

	memcpy(&tuple.ports, ip + 40, 4);
	match = weir_flow_match6(table, bucket, &tuple);
	return match != 0 ? &bucket->word[__builtin_ctz(match)] : NULL;
}

struct weir_flow_key weir_flow_key_at(
	const struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint32_t slot) {
	uint32_t word = *weir_flow_word_at(table, ipv6, bucket, slot);
	struct weir_flow_key key = {
		.family = ipv6 ? 6 : 4, .protocol = weir_flow_is_udp(word) ? 17 : 6};
	uint32_t ports;

	if (ipv6) {
		const struct weir_flow_bucket6 *at = weir_flow_bucket6_at(table, bucket);

		memcpy(key.source, at->source[slot], 16);
		memcpy(key.destination, table->destinations.address[at->destination[slot]], 16);
		ports = at->ports[slot];
	} else {
		const struct weir_flow_bucket4 *at = weir_flow_bucket4_at(table, bucket);

		memcpy(key.source, &at->source[slot], 4);
		memcpy(key.destination, &at->destination[slot], 4);
		ports = at->ports[slot];
	}
	memcpy(&key.source_port, &ports, sizeof(ports));
	return key;
}
