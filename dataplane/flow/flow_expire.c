// SPDX-License-Identifier: BSD-3-Clause
#include "flow_expire.h"

#include "flow_life.h"

#define SWEEP_BUCKETS_MAX 256 // per call
#define FORGET_SWEEPS 256 // old starts are looked for in one of so many sweeps: every few minutes

void weir_flow_bucket_expire(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns) {
	const uint32_t *words = weir_flow_bucket_words(table, ipv6, bucket);
	unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;

	for (unsigned int slot = 0; slot < slots; slot++) {
		if (unlikely(
			    weir_flow_is_expired(table, words[slot], now_ns))) { // never a free one
			struct weir_flow_place place =
				weir_flow_place_at(table, ipv6, bucket, slot);

			weir_flow_slot_end(table, &place,
				weir_flow_expiry_end(weir_flow_phase_of(words[slot])), now_ns);
		}
	}
}

// Clear old starts long before their ticks wrap. Such a flow is not measured.
static void starts_forget(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns) {
	struct weir_flow_part *part = weir_flow_part_of(table, ipv6);
	uint32_t *starts = &part->starts[(uint64_t)bucket * part->slots];
	uint32_t now = (uint32_t)(now_ns >> WEIR_FLOW_START_SHIFT);

	for (uint32_t slot = 0; slot < part->slots; slot++) {
		if (starts[slot] != 0 && now - starts[slot] > INT32_MAX / 2) {
			starts[slot] = 0;
		}
	}
}

static bool part_sweep(
	struct weir_flow_table *table, bool ipv6, uint64_t elapsed_ns, uint64_t now_ns) {
	struct weir_flow_part *part = weir_flow_part_of(table, ipv6);
	uint64_t due;

	part->sweep_debt += (elapsed_ns * part->sweep_rate) >> WEIR_FLOW_SWEEP_SHIFT;
	due = part->sweep_debt >> 16;
	if (due > SWEEP_BUCKETS_MAX) { // the next calls sweep the rest
		due = SWEEP_BUCKETS_MAX;
	}
	part->sweep_debt -= due << 16;
	if (part->sweep_debt >> 16 > part->bucket_count) {
		part->sweep_debt = (uint64_t)part->bucket_count << 16;
	}
	if (part->count == 0) {
		part->sweep_debt = 0;
		return false;
	}
	while (due-- > 0) {
		weir_flow_bucket_expire(table, ipv6, part->sweep_next, now_ns);
		if (unlikely(part->sweeps % FORGET_SWEEPS == 0) && table->measuring) {
			starts_forget(table, ipv6, part->sweep_next, now_ns);
		}
		if (++part->sweep_next == part->bucket_count) {
			part->sweep_next = 0;
			part->sweeps++;
		}
	}
	__builtin_prefetch(
		weir_flow_bucket_words(table, ipv6, part->sweep_next)); // for the next call
	return part->sweep_debt >> 16 >= SWEEP_BUCKETS_MAX;
}

bool weir_flow_sweep(struct weir_flow_table *table, uint64_t now_ns) {
	uint64_t elapsed_ns = now_ns - table->swept_ns;
	bool more;

	// The first call, or a turn so long that the multiplication would overflow.
	if (unlikely(elapsed_ns > 1000000000ull)) {
		elapsed_ns = 1000000000ull;
	}
	table->swept_ns = now_ns;
	weir_flow_settle_starts(table);
	more = part_sweep(table, false, elapsed_ns, now_ns);
	return part_sweep(table, true, elapsed_ns, now_ns) || more;
}
