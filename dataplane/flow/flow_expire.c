// SPDX-License-Identifier: BSD-3-Clause
#include "flow_expire.h"

#include "flow_life.h"

#define SWEEP_BUCKETS_MAX 256 // maximum number of buckets per call and family
#define FORGET_SWEEPS 256 // every 256th sweep (every few minutes) clears old start times

void weir_flow_bucket_expire(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns) {
	const uint32_t *words = weir_flow_bucket_words(table, ipv6, bucket);
	unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;

	for (unsigned int slot = 0; slot < slots; slot++) {
		// A free slot never counts as expired.
		if (unlikely(weir_flow_is_expired(table, words[slot], now_ns))) {
			struct weir_flow_place place =
				weir_flow_place_at(table, ipv6, bucket, slot);

			weir_flow_slot_end(table, &place,
				weir_flow_expiry_end(weir_flow_phase_of(words[slot])), now_ns);
		}
	}
}

void weir_flow_starts_clear(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns) {
	struct weir_flow_family *family = weir_flow_family_of(table, ipv6);
	uint32_t *starts = &family->starts[(uint64_t)bucket * family->slots];
	uint32_t now = (uint32_t)(now_ns >> WEIR_FLOW_START_SHIFT);

	for (uint32_t slot = 0; slot < family->slots; slot++) {
		if (starts[slot] != 0 && now - starts[slot] > INT32_MAX / 2) {
			starts[slot] = 0;
		}
	}
}

// --- changed services ------------------------------------------------------------------------

// Number of sweeps that must end before a recheck is complete: the current sweep, which has already
// passed some buckets, and one complete sweep.
#define RECHECK_SWEEPS 2u

void weir_flow_recheck(struct weir_flow_table *table, bool tcp, uint64_t now_ns) {
	table->recheck_tcp = tcp;
	table->family4.recheck = table->family4.count > 0 ? RECHECK_SWEEPS : 0;
	table->family6.recheck = table->family6.count > 0 ? RECHECK_SWEEPS : 0;
	table->rechecks++;
	table->rechecking = table->family4.recheck > 0 || table->family6.recheck > 0;
	weir_flow_refresh_stamps(table, now_ns);
}

void weir_flow_bucket_recheck(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns) {
	const uint32_t *words = weir_flow_bucket_words(table, ipv6, bucket);
	const struct weir_flow_listener *listener = &table->listener;
	const unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;

	for (unsigned int slot = 0; slot < slots && listener->belongs != NULL; slot++) {
		struct weir_flow_key key;
		struct weir_flow_place place;

		if (!weir_flow_is_udp(words[slot]) &&
			(!table->recheck_tcp ||
				weir_flow_phase_of(words[slot]) == WEIR_PHASE_FREE)) {
			continue;
		}
		key = weir_flow_key_at(table, ipv6, bucket, slot);
		if (!listener->belongs(listener->context, &key, (uint16_t)words[slot])) {
			place = weir_flow_place_at(table, ipv6, bucket, slot);
			weir_flow_slot_end(table, &place, WEIR_FLOW_END_EVICTED, now_ns);
		}
	}
}

static void recheck_end(struct weir_flow_table *table, uint64_t now_ns) {
	if (table->family4.recheck == 0 && table->family6.recheck == 0) {
		table->rechecking = false;
		weir_flow_refresh_stamps(table, now_ns);
	}
}

// --- order ----------------------------------------------------------------------------------

static uint32_t part_at(const struct weir_flow_family *family) {
	return (uint32_t)((family->sweep_end - 1) / family->part_buckets);
}

static void go_to(struct weir_flow_family *family, uint32_t part) {
	family->sweep_next = (uint32_t)(part * family->part_buckets);
	family->sweep_end = (uint32_t)(family->sweep_next + family->part_buckets);
}

// Returns the next part after `from` that the table owns; `from` if the table owns no other part.
static uint32_t owned_after(const struct weir_flow_owned *owned, uint32_t from) {
	const uint32_t words = RTE_DIM(owned->bits);
	uint32_t word = from / 64;
	uint64_t bits = from % 64 == 63 ? 0 : owned->bits[word] & ~0ull << (from % 64 + 1);

	for (uint32_t i = 0; bits == 0 && i < words; i++) {
		word = (word + 1) % words;
		bits = owned->bits[word];
	}
	return bits == 0 ? from : word * 64 + (uint32_t)__builtin_ctzll(bits);
}

// At the end of a part, continue the sweep with the next part that the table owns.
static void next_part(const struct weir_flow_table *table, struct weir_flow_family *family) {
	uint32_t from = part_at(family);
	uint32_t part = owned_after(&table->owned, from);

	if (part <= from) {
		family->sweeps++;
		family->recheck -= family->recheck > 0;
	}
	go_to(family, part);
}

void weir_flow_sweep_from(struct weir_flow_table *table, uint32_t part) {
	go_to(&table->family4, part);
	go_to(&table->family6, part);
}

void weir_flow_sweep_leave(struct weir_flow_table *table, uint32_t part) {
	if (part_at(&table->family4) == part) {
		next_part(table, &table->family4);
	}
	if (part_at(&table->family6) == part) {
		next_part(table, &table->family6);
	}
}

// --- sweep ----------------------------------------------------------------------------------

static bool family_sweep(
	struct weir_flow_table *table, bool ipv6, uint64_t elapsed_ns, uint64_t now_ns) {
	struct weir_flow_family *family = weir_flow_family_of(table, ipv6);
	uint64_t due;

	// The product can exceed 64 bits, for example one second times the rate of 2^28 buckets.
	family->sweep_debt += (uint64_t)((unsigned __int128)elapsed_ns * family->sweep_rate >>
					 WEIR_FLOW_SWEEP_SHIFT);
	due = family->sweep_debt >> 16;
	if (due > SWEEP_BUCKETS_MAX) { // later calls sweep the remaining buckets
		due = SWEEP_BUCKETS_MAX;
	}
	family->sweep_debt -= due << 16;
	if (family->sweep_debt >> 16 > family->owned_buckets) {
		family->sweep_debt = family->owned_buckets << 16;
	}
	if (family->count == 0 || unlikely(table->owned.parts == 0)) {
		family->sweep_debt = 0;
		// There is no flow to check. Flows that move to this table later are checked when
		// they are adopted.
		family->recheck = 0;
		return false;
	}
	while (due-- > 0) {
		weir_flow_bucket_expire(table, ipv6, family->sweep_next, now_ns);
		if (unlikely(family->recheck > 0)) {
			weir_flow_bucket_recheck(table, ipv6, family->sweep_next, now_ns);
		}
		if (unlikely(family->sweeps % FORGET_SWEEPS == 0) && table->measuring) {
			weir_flow_starts_clear(table, ipv6, family->sweep_next, now_ns);
		}
		if (++family->sweep_next == family->sweep_end) {
			next_part(table, family);
		}
	}
	__builtin_prefetch(weir_flow_bucket_words(
		table, ipv6, family->sweep_next)); // prefetch for the next call
	return family->sweep_debt >> 16 >= SWEEP_BUCKETS_MAX;
}

bool weir_flow_sweep(struct weir_flow_table *table, uint64_t now_ns) {
	uint64_t elapsed_ns = now_ns - table->swept_ns;
	bool more;

	// At the first call, or after a very long iteration, sweep as if one second had passed.
	if (unlikely(elapsed_ns > 1000000000ull)) {
		elapsed_ns = 1000000000ull;
	}
	table->swept_ns = now_ns;
	weir_flow_settle_starts(table);
	more = family_sweep(table, false, elapsed_ns, now_ns);
	more = family_sweep(table, true, elapsed_ns, now_ns) || more;
	if (unlikely(table->rechecking)) {
		recheck_end(table, now_ns);
	}
	return more;
}
