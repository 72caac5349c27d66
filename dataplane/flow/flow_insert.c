// SPDX-License-Identifier: BSD-3-Clause
#include "flow_insert.h"

#include <errno.h>

#include "flow_expire.h"
#include "flow_life.h"
#include "flow_table.h"
#include "hash.h"
#include "probes.h"

// Maximum number of flows that an insertion examines to find a flow that can move to its other
// bucket (F7 of flow_table.h). The insertion first examines the flows of both buckets, then flows
// in the buckets to which these flows could move.
#define MOVES_MAX 16u

static __rte_always_inline int slot_free(
	const struct weir_flow_table *table, bool ipv6, uint32_t bucket) {
	const uint32_t *words = weir_flow_bucket_words(table, ipv6, bucket);
	unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;

	for (unsigned int slot = 0; slot < slots; slot++) {
		if (words[slot] == 0) {
			return (int)slot;
		}
	}
	return -1;
}

// Returns the other bucket of the flow in a slot of `bucket`: its secondary bucket if `bucket` is
// its primary bucket, and vice versa.
static uint32_t other_bucket(
	const struct weir_flow_table *table, bool ipv6, uint32_t bucket, unsigned int slot) {
	const struct weir_flow_family *family = ipv6 ? &table->family6 : &table->family4;
	uint32_t word = *weir_flow_word_at(table, ipv6, bucket, slot);
	uint8_t protocol = weir_flow_is_udp(word) ? 17 : 6;
	uint32_t first;
	uint64_t hash;

	if (ipv6) {
		const struct weir_flow_bucket6 *b = weir_flow_bucket6_at(table, bucket);

		hash = weir_hash_ipv6(b->source[slot],
			table->destinations.address[b->destination[slot]], (uint16_t)b->ports[slot],
			(uint16_t)(b->ports[slot] >> 16), protocol, table->hash_seed);
		hash = weir_flow_bucket_hash6(&table->secret, b->source[slot], hash);
	} else {
		const struct weir_flow_bucket4 *b = weir_flow_bucket4_at(table, bucket);

		hash = weir_hash_ipv4(b->source[slot], b->destination[slot],
			(uint16_t)b->ports[slot], (uint16_t)(b->ports[slot] >> 16), protocol,
			table->hash_seed);
	}
	// With given_parts, the part cannot be computed from the key. The bucket determines the
	// part, because both buckets of a flow are in the same part.
	if (unlikely(table->given_parts)) {
		hash = weir_flow_bucket_hash_in_part(
			&table->secret, hash, (uint32_t)(bucket / family->part_buckets));
	}
	first = weir_flow_first_bucket(&table->secret, family->bucket_count, hash);
	return first != bucket ? first : weir_flow_second_bucket(&table->secret, family, hash);
}

static void slot_move(struct weir_flow_table *table, bool ipv6, uint32_t to, unsigned int to_slot,
	uint32_t from, unsigned int from_slot) {
	struct weir_flow_place target = weir_flow_place_at(table, ipv6, to, to_slot);
	struct weir_flow_place source = weir_flow_place_at(table, ipv6, from, from_slot);

	if (ipv6) {
		struct weir_flow_bucket6 *a = weir_flow_bucket6_at(table, to);
		const struct weir_flow_bucket6 *b = weir_flow_bucket6_at(table, from);

		memcpy(a->source[to_slot], b->source[from_slot], 16);
		a->destination[to_slot] = b->destination[from_slot];
		a->ports[to_slot] = b->ports[from_slot];
	} else {
		struct weir_flow_bucket4 *a = weir_flow_bucket4_at(table, to);
		const struct weir_flow_bucket4 *b = weir_flow_bucket4_at(table, from);

		a->source[to_slot] = b->source[from_slot];
		a->destination[to_slot] = b->destination[from_slot];
		a->ports[to_slot] = b->ports[from_slot];
	}
	if (table->measuring) {
		weir_flow_settle_starts(table);
		target.family->starts[target.slot] = source.family->starts[source.slot];
	}
	*target.word = *source.word;
	*source.word = 0;
}

// Move the flow in a slot of `bucket` to `other` if `other` has room. Returns the freed slot, or
// -1.
static int try_move(struct weir_flow_table *table, bool ipv6, uint32_t bucket, unsigned int slot,
	uint32_t other) {
	int room = other != bucket ? slot_free(table, ipv6, other) : -1;

	if (room < 0) {
		return -1;
	}
	slot_move(table, ipv6, other, (unsigned int)room, bucket, slot);
	return (int)slot;
}

// Make room in one of two full buckets by moving a flow to its other bucket. If the other bucket is
// also full, first move a flow out of the other bucket. Returns the freed slot, with its bucket in
// *ret_bucket, or -1.
static int make_room(
	struct weir_flow_table *table, bool ipv6, const uint32_t buckets[2], uint32_t *ret_bucket) {
	const unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;
	uint32_t others[2 * WEIR_FLOW_SLOTS4];
	unsigned int looked_at = 2 * slots;

	for (unsigned int i = 0; i < 2 * slots; i++) {
		*ret_bucket = buckets[i / slots];
		others[i] = other_bucket(table, ipv6, *ret_bucket, i % slots);
		if (try_move(table, ipv6, *ret_bucket, i % slots, others[i]) >= 0) {
			return (int)(i % slots);
		}
	}
	for (unsigned int i = 0; i < 2 * slots; i++) {
		*ret_bucket = buckets[i / slots];
		for (unsigned int k = 0; k < slots && others[i] != *ret_bucket; k++) {
			uint32_t third = other_bucket(table, ipv6, others[i], k);

			if (try_move(table, ipv6, others[i], k, third) >= 0) {
				return try_move(table, ipv6, *ret_bucket, i % slots, others[i]);
			}
			if (++looked_at == MOVES_MAX) {
				return -1;
			}
		}
	}
	return -1;
}

// Ages, in ticks, at which half-open flows are not evicted: from <= age < below. The range is empty
// if from >= below.
struct spared {
	int32_t from, below;
};

// Returns the ages of protected flows: flows that were inserted before the table became crowded, or
// in the same tick, and whose second packet may still be in flight.
static inline struct spared spared_of(
	const struct weir_flow_table *table, const struct weir_flow_family *family) {
	unsigned int shift = table->shift[WEIR_PHASE_SYN_SEEN] - WEIR_FLOW_STAMP_SHIFT;
	uint64_t from = (table->stamped >> shift) - (family->calm >> shift);
	uint32_t below = table->now.handshake_ticks;

	return (struct spared){(int32_t)RTE_MIN(from, (uint64_t)below), (int32_t)below};
}

// The ranks of all slots of a bucket, in one vector. The half-open flow with the highest rank is
// evicted. Rank: age << 4 | (15 - index), where index counts the slots of both buckets. Protected
// flows, flows that are not half-open, and free slots have rank 0. Half-open phases have equal
// ticks, so their ages can be compared.
typedef int32_t ranks __attribute__((vector_size(16)));

static inline ranks rank_half_open(const struct weir_flow_now *now, struct spared spared,
	const uint32_t *words, unsigned int slots, int32_t index) {
	typedef uint32_t lanes __attribute__((vector_size(16)));
	lanes word = {words[0], words[1], slots == 4 ? words[2] : 0, slots == 4 ? words[3] : 0};
	lanes age = ((now->word[WEIR_PHASE_SYN_SEEN] - word) >> WEIR_WORD_LAST_SHIFT) &
		    WEIR_WORD_LAST_MASK;
	ranks below = {15 - index, 14 - index, 13 - index, 12 - index};

	return ((ranks)(age << 4) | below) &
	       (((ranks)age < spared.from) | ((ranks)age >= spared.below)) &
	       (ranks)((word >> WEIR_WORD_PHASE_SHIFT & WEIR_PHASE_HALF_OPEN_MASK) ==
		       WEIR_PHASE_HALF_OPEN);
}

static inline ranks higher(ranks a, ranks b) {
	ranks first = a > b;

	return (a & first) | (b & ~first);
}

// Returns the rank of the oldest half-open flow that may be evicted from two buckets; 0 = no flow
// may be evicted.
static __rte_always_inline uint32_t oldest_half_open(
	const struct weir_flow_table *table, bool ipv6, const uint32_t buckets[2]) {
	unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;
	struct spared spared = spared_of(table, ipv6 ? &table->family6 : &table->family4);
	ranks best = rank_half_open(
		&table->now, spared, weir_flow_bucket_words(table, ipv6, buckets[0]), slots, 0);

	best = higher(best,
		rank_half_open(&table->now, spared, weir_flow_bucket_words(table, ipv6, buckets[1]),
			slots, (int32_t)slots));
	best = higher(best, __builtin_shufflevector(best, best, 2, 3, 0, 1));
	best = higher(best, __builtin_shufflevector(best, best, 1, 0, 3, 2));
	return (uint32_t)best[0];
}

static inline bool is_overdue(const struct weir_flow_table *table, uint32_t rank) {
	return rank >> 4 > RTE_MAX(table->now.timeout_ticks[WEIR_PHASE_SYN_SEEN],
				   table->now.timeout_ticks[WEIR_PHASE_UDP_SEEN]);
}

// Evict the half-open flow of this rank. Returns the freed slot, with its bucket in *ret_bucket.
// The code has no branch on the bucket: because the bucket is random, the branch would often be
// mispredicted.
static __rte_always_inline int evict_half_open(struct weir_flow_table *table, bool ipv6,
	const uint32_t buckets[2], uint32_t rank, uint32_t *ret_bucket) {
	unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;
	unsigned int index = 15 - (rank & 15);
	uint32_t in_second = (uint32_t)(slots - 1 - index) >> 31;
	uint32_t bucket = buckets[0] ^ ((buckets[0] ^ buckets[1]) & (0 - in_second));
	unsigned int slot = index - in_second * slots;
	struct weir_flow_family *family = weir_flow_family_of(table, ipv6);
	uint32_t *word = weir_flow_word_at(table, ipv6, bucket, slot);
	uint16_t backend = (uint16_t)*word;

	WEIR_PROBE_FLOW_END(WEIR_FLOW_END_EVICTED, backend, word);
	// Same as weir_flow_slot_end, specialized for a half-open flow.
	*ret_bucket = bucket;
	*word = 0;
	family->half_open--;
	family->count--;
	table->evicted++;
	if (ipv6) {
		weir_flow_release_destination(table, bucket, slot);
	}
	table->listener.ended(table->listener.context, backend, WEIR_FLOW_END_EVICTED,
		WEIR_OUTCOME_ABANDONED, 0, 0, true);
	return (int)slot;
}

// Returns the rank of a flow for eviction from a full table (F3 of flow_table.h). The flow with the
// highest rank is evicted. The rank depends on the kind of the flow, then on its idle time; 0 = the
// flow must not be evicted now.
static uint64_t rank_idle(const struct weir_flow_table *table, uint32_t word, uint64_t now_ns) {
	static const uint8_t kinds[WEIR_FLOW_PHASES] = {
		[WEIR_PHASE_ESTABLISHED] = 1,
		[WEIR_PHASE_CHALLENGED] = 1,
		[WEIR_PHASE_UDP] = 2,
		[WEIR_PHASE_YOUNG] = 3,
		[WEIR_PHASE_WAITING] = 4,
		[WEIR_PHASE_ABORTED] = 4,
		[WEIR_PHASE_RESET] = 4,
		[WEIR_PHASE_CLOSING] = 4,
	};
	unsigned int phase = weir_flow_phase_of(word);
	uint64_t age = weir_flow_age_of(table, word, now_ns);
	// The flow has been idle for at least this time.
	uint64_t idle_ns = age > 0 ? (age - 1) << table->shift[phase] : 0;
	bool spared = phase == WEIR_PHASE_ESTABLISHED || phase == WEIR_PHASE_CHALLENGED ||
		      phase == WEIR_PHASE_UDP || phase == WEIR_PHASE_RESET ||
		      phase == WEIR_PHASE_CLOSING;

	if (kinds[phase] == 0 || (spared && idle_ns <= WEIR_FLOW_IN_USE_MS * 1000000ull)) {
		return 0;
	}
	return (uint64_t)kinds[phase] << 56 | age << table->shift[phase];
}

// Evict an idle flow from two buckets that have no half-open flow to evict. Returns the freed slot,
// with its bucket in *ret_bucket, or -1.
static __rte_noinline int evict_idle(struct weir_flow_table *table, bool ipv6,
	const uint32_t buckets[2], uint64_t now_ns, uint32_t *ret_bucket) {
	const unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;
	struct weir_flow_place place;
	unsigned int victim = 0;
	uint64_t best = 0;

	for (unsigned int i = 0; i < 2 * slots; i++) {
		const uint32_t *words = weir_flow_bucket_words(table, ipv6, buckets[i / slots]);
		uint64_t rank = rank_idle(table, words[i % slots], now_ns);

		if (rank > best) {
			best = rank;
			victim = i;
		}
	}
	if (best == 0) {
		return -1;
	}
	*ret_bucket = buckets[victim / slots];
	place = weir_flow_place_at(table, ipv6, *ret_bucket, victim % slots);
	weir_flow_slot_end(table, &place, WEIR_FLOW_END_EVICTED, now_ns);
	table->idle_evicted++;
	return (int)(victim % slots);
}

static __rte_always_inline int find_free(
	struct weir_flow_table *table, bool ipv6, const uint32_t buckets[2], uint32_t *ret_bucket) {
	for (unsigned int i = 0; i < 2; i++) {
		int slot = slot_free(table, ipv6, buckets[i]);

		if (slot >= 0) {
			*ret_bucket = buckets[i];
			return slot;
		}
	}
	return -1;
}

// Returns true if the limit of half-open flows allows one more flow that begins with this event.
static inline bool may_be_half_open(
	const struct weir_flow_family *family, enum weir_flow_event event) {
	return (event != WEIR_FLOW_EVENT_SYN && event != WEIR_FLOW_EVENT_DATAGRAM) ||
	       likely(family->half_open < family->half_open_max);
}

// Returns true if the limits of all flows and of half-open flows allow one more flow that begins
// with this event.
static inline bool has_room(const struct weir_flow_family *family, enum weir_flow_event event) {
	return family->count < family->capacity && may_be_half_open(family, event);
}

// Call if the two buckets of a new flow have no flow to evict. If one of them has a free slot and
// the adjacent buckets have a flow to evict, evicts this flow, so that the number of flows is below
// the limits, and returns the free slot. Otherwise returns -1.
//
// Only for IPv6: IPv6 buckets are small, so during a SYN flood half of all bucket pairs have no
// half-open flow. For IPv4 only a fifth of the pairs have none, and reading the adjacent buckets
// would cost two cache misses.
static __rte_noinline int make_way6(struct weir_flow_table *table, const uint32_t buckets[2],
	const struct weir_flow_start *start, uint32_t *ret_bucket) {
	const uint32_t count = table->family6.bucket_count;
	int slot = find_free(table, true, buckets, ret_bucket);
	uint32_t adjacent[2], rank, unused;

	if (slot < 0) {
		return -1;
	}
	for (unsigned int i = 0; i < 2; i++) {
		adjacent[i] = (buckets[i] ^ 1) < count ? buckets[i] ^ 1 : buckets[i];
	}
	rank = oldest_half_open(table, true, adjacent);
	if (rank == 0) {
		return table->idle_searches > 0 &&
				       may_be_half_open(&table->family6, start->event) &&
				       evict_idle(table, true, adjacent, start->now_ns, &unused) >=
					       0
			       ? slot
			       : -1;
	}
	if (unlikely(is_overdue(table, rank))) {
		weir_flow_bucket_expire(table, true, adjacent[0], start->now_ns);
		weir_flow_bucket_expire(table, true, adjacent[1], start->now_ns);
	} else {
		evict_half_open(table, true, adjacent, rank, &unused);
	}
	return slot;
}

// Searches the two buckets for an idle flow to evict. Only a limited number of searches may fail
// until the stamps are computed again: otherwise, in a full table, each SYN of a flood would
// cause a search.
static __rte_noinline int search_idle(struct weir_flow_table *table, bool ipv6,
	const uint32_t buckets[2], const struct weir_flow_start *start, uint32_t *ret_bucket) {
	int slot = evict_idle(table, ipv6, buckets, start->now_ns, ret_bucket);

	if (slot < 0) {
		slot = ipv6 ? make_way6(table, buckets, start, ret_bucket) : -1;
		table->idle_searches -= slot < 0;
	}
	return slot;
}

// Makes room for a new flow if its two buckets have no half-open flow to evict. This is the case
// for every fifth packet of a SYN flood (IPv4). Returns the freed slot, with its bucket in
// *ret_bucket, or -1.
static __rte_always_inline int make_way(struct weir_flow_table *table, bool ipv6,
	const uint32_t buckets[2], const struct weir_flow_start *start, uint32_t *ret_bucket) {
	if (unlikely(may_be_half_open(weir_flow_family_of(table, ipv6), start->event)) &&
		table->idle_searches > 0) {
		return search_idle(table, ipv6, buckets, start, ret_bucket);
	}
	return ipv6 ? make_way6(table, buckets, start, ret_bucket) : -1;
}

// Finds a slot for a new flow whose two buckets are full or have an expired half-open flow: first
// ends expired flows, then moves a flow to its other bucket. If neither gives a slot, evicts a
// flow. Returns the slot, with its bucket in *ret_bucket, or -1.
static __rte_noinline int search_room(struct weir_flow_table *table, bool ipv6,
	const uint32_t buckets[2], const struct weir_flow_start *start, uint32_t *ret_bucket) {
	struct weir_flow_family *family = weir_flow_family_of(table, ipv6);
	int slot = -1;
	uint32_t rank;

	weir_flow_bucket_expire(table, ipv6, buckets[0], start->now_ns);
	weir_flow_bucket_expire(table, ipv6, buckets[1], start->now_ns);
	if (has_room(family, start->event)) {
		slot = find_free(table, ipv6, buckets, ret_bucket);
		if (slot < 0) {
			slot = make_room(table, ipv6, buckets, ret_bucket);
		}
	}
	if (slot >= 0) {
		return slot;
	}
	rank = oldest_half_open(table, ipv6, buckets);
	if (rank == 0) {
		return make_way(table, ipv6, buckets, start, ret_bucket);
	}
	return evict_half_open(table, ipv6, buckets, rank, ret_bucket);
}

static __rte_always_inline int find_room(struct weir_flow_table *table, bool ipv6,
	const uint32_t buckets[2], const struct weir_flow_start *start, uint32_t *ret_bucket) {
	uint32_t rank;

	if (likely(has_room(weir_flow_family_of(table, ipv6), start->event))) {
		int slot = find_free(table, ipv6, buckets, ret_bucket);

		return likely(slot >= 0) ? slot
					 : search_room(table, ipv6, buckets, start, ret_bucket);
	}
	// A limit of flows is reached: evict a half-open flow. Expired flows of other states are
	// left to the sweep, so that a flood does not cause searches for expired flows.
	rank = oldest_half_open(table, ipv6, buckets);
	if (rank == 0) {
		return make_way(table, ipv6, buckets, start, ret_bucket);
	}
	if (unlikely(is_overdue(table, rank))) {
		return search_room(table, ipv6, buckets, start, ret_bucket);
	}
	return evict_half_open(table, ipv6, buckets, rank, ret_bucket);
}

// Store the key of a new flow in its slot. destination: the number of the IPv6 destination address.
static __rte_always_inline void key_store(struct weir_flow_table *table, bool ipv6, uint32_t bucket,
	unsigned int slot, const struct weir_flow_key *key, uint16_t destination) {
	if (ipv6) {
		struct weir_flow_bucket6 *b = weir_flow_bucket6_at(table, bucket);

		memcpy(b->source[slot], key->source, 16);
		b->destination[slot] = destination;
		memcpy(&b->ports[slot], &key->source_port, 4);
	} else {
		struct weir_flow_bucket4 *b = weir_flow_bucket4_at(table, bucket);

		memcpy(&b->source[slot], key->source, 4);
		memcpy(&b->destination[slot], key->destination, 4);
		memcpy(&b->ports[slot], &key->source_port, 4);
	}
}

// Remove an expired entry with this key that was not swept yet. Otherwise the fast lookup could
// find the expired entry instead of the new entry.
static __rte_always_inline void expire_same_key(struct weir_flow_table *table, bool ipv6,
	const struct weir_flow_key *key, const uint32_t buckets[2], uint64_t now_ns) {
	for (unsigned int i = 0; i < 2; i++) {
		if (unlikely(weir_flow_match(table, ipv6, buckets[i], key) != 0)) {
			weir_flow_bucket_expire(table, ipv6, buckets[i], now_ns);
		}
	}
}

// Inserts a new flow into the table of one family, as weir_flow_insert does. ipv6: a constant, so
// that the compiler makes a copy of this function for each family.
static __rte_always_inline weir_flow_ref insert(struct weir_flow_table *table, bool ipv6,
	const struct weir_flow_key *key, uint64_t hash, const struct weir_flow_start *start) {
	struct weir_flow_family *family = weir_flow_family_of(table, ipv6);
	uint32_t buckets[2], bucket;
	struct weir_flow_place place;
	int slot, destination = 0;

	if (likely(start->absent)) {
		buckets[0] = start->buckets[0];
		buckets[1] = start->buckets[1];
	} else {
		uint64_t bucket_hash =
			ipv6 ? weir_flow_bucket_hash6(&table->secret, key->source, hash) : hash;

		buckets[0] =
			weir_flow_first_bucket(&table->secret, family->bucket_count, bucket_hash);
		buckets[1] = weir_flow_second_bucket(&table->secret, family, bucket_hash);
		expire_same_key(table, ipv6, key, buckets, start->now_ns);
	}
	if (ipv6) {
		destination = weir_flow_destinations_take(&table->destinations, key->destination);
		if (unlikely(destination < 0)) {
			return -ENOSPC;
		}
	}
	bucket = buckets[0];
	slot = find_room(table, ipv6, buckets, start, &bucket);
	if (unlikely(slot < 0)) {
		if (ipv6) {
			weir_flow_destinations_release(&table->destinations, (uint16_t)destination);
		}
		return -ENOSPC;
	}
	place = weir_flow_place_at(table, ipv6, bucket, (unsigned int)slot);
	key_store(table, ipv6, bucket, (unsigned int)slot, key, (uint16_t)destination);
	weir_flow_slot_begin(table, &place, start);
	family->count++;
	return weir_flow_ref_make(ipv6, bucket, (unsigned int)slot);
}

weir_flow_ref weir_flow_insert(struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, const struct weir_flow_start *start) {
	weir_flow_stamp(table, start->now_ns);
	return likely(key->family == 4) ? insert(table, false, key, hash, start)
					: insert(table, true, key, hash, start);
}
