// SPDX-License-Identifier: BSD-3-Clause
//
// Flow insertion: find a slot for a new flow, by moving or evicting others where both its buckets
// are full.
#include <errno.h>

#include "flow_private.h"
#include "hash.h"

static inline int slot_free(const struct weir_flow_table *table, bool ipv6, uint32_t bucket) {
	const uint32_t *words = weir_flow_bucket_words(table, ipv6, bucket);
	unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;

	for (unsigned int slot = 0; slot < slots; slot++) {
		if (words[slot] == 0) {
			return (int)slot;
		}
	}
	return -1;
}

// The bucket where the flow in a slot could live as well.
static uint32_t other_bucket(
	const struct weir_flow_table *table, bool ipv6, uint32_t bucket, unsigned int slot) {
	uint32_t count = ipv6 ? table->part6.bucket_count : table->part4.bucket_count;
	uint32_t word = *weir_flow_word_at(table, ipv6, bucket, slot);
	uint8_t protocol = weir_flow_phase_of(word) == WEIR_PHASE_UDP ? 17 : 6;
	uint32_t first;
	uint64_t hash;

	if (ipv6) {
		const struct weir_flow_bucket6 *b = weir_flow_bucket6_at(table, bucket);

		hash = weir_hash_ipv6(b->source[slot], b->destination[slot],
			(uint16_t)b->ports[slot], (uint16_t)(b->ports[slot] >> 16), protocol,
			table->hash_seed);
	} else {
		const struct weir_flow_bucket4 *b = weir_flow_bucket4_at(table, bucket);

		hash = weir_hash_ipv4(b->source[slot], b->destination[slot],
			(uint16_t)b->ports[slot], (uint16_t)(b->ports[slot] >> 16), protocol,
			table->hash_seed);
	}
	first = weir_flow_first_bucket(count, hash);
	return first != bucket ? first : weir_flow_second_bucket(count, hash);
}

static void slot_move(struct weir_flow_table *table, bool ipv6, uint32_t to, unsigned int to_slot,
	uint32_t from, unsigned int from_slot) {
	struct weir_flow_place target = weir_flow_place_at(table, ipv6, to, to_slot);
	struct weir_flow_place source = weir_flow_place_at(table, ipv6, from, from_slot);

	if (ipv6) {
		struct weir_flow_bucket6 *a = weir_flow_bucket6_at(table, to);
		const struct weir_flow_bucket6 *b = weir_flow_bucket6_at(table, from);

		memcpy(a->source[to_slot], b->source[from_slot], 16);
		memcpy(a->destination[to_slot], b->destination[from_slot], 16);
		a->ports[to_slot] = b->ports[from_slot];
		a->tag[to_slot] = b->tag[from_slot];
	} else {
		struct weir_flow_bucket4 *a = weir_flow_bucket4_at(table, to);
		const struct weir_flow_bucket4 *b = weir_flow_bucket4_at(table, from);

		a->source[to_slot] = b->source[from_slot];
		a->destination[to_slot] = b->destination[from_slot];
		a->ports[to_slot] = b->ports[from_slot];
	}
	if (table->measuring) {
		target.part->starts[target.slot] = source.part->starts[source.slot];
	}
	*target.word = *source.word;
	*source.word = 0;
}

// Make room in `bucket` by moving one of its residents to that one's other bucket; `depth` more
// steps may be taken to make room there. Returns the freed slot or -1.
static int make_room(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, unsigned int depth) {
	unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;

	for (unsigned int slot = 0; slot < slots; slot++) {
		uint32_t other = other_bucket(table, ipv6, bucket, slot);
		int room = slot_free(table, ipv6, other);

		if (room < 0 && depth > 0 && other != bucket) {
			room = make_room(table, ipv6, other, depth - 1);
		}
		if (room >= 0 && other != bucket) {
			slot_move(table, ipv6, other, (unsigned int)room, bucket, slot);
			return (int)slot;
		}
	}
	return -1;
}

// The half-open flow of a bucket that has been idle longest, or -1.
static int oldest_half_open(const struct weir_flow_table *table, bool ipv6, uint32_t bucket,
	uint64_t now_ns, uint32_t *ret_age) {
	const uint32_t *words = weir_flow_bucket_words(table, ipv6, bucket);
	unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;
	int oldest = -1;

	for (unsigned int slot = 0; slot < slots; slot++) {
		if (weir_flow_phase_of(words[slot]) == WEIR_PHASE_SYN_SEEN) {
			uint32_t age = weir_flow_age_of(table, words[slot], now_ns);

			if (oldest < 0 || age > *ret_age) {
				oldest = (int)slot;
				*ret_age = age;
			}
		}
	}
	return oldest;
}

// Evict the older of the half-open flows in two buckets. Returns the freed slot, its bucket in
// *ret_bucket, or -1.
static int evict_half_open(struct weir_flow_table *table, bool ipv6, const uint32_t buckets[2],
	uint64_t now_ns, uint32_t *ret_bucket) {
	uint32_t age[2] = {0, 0};
	struct weir_flow_place place;
	int slot[2];
	unsigned int which;

	for (unsigned int i = 0; i < 2; i++) {
		slot[i] = oldest_half_open(table, ipv6, buckets[i], now_ns, &age[i]);
	}
	if (slot[0] < 0 && slot[1] < 0) {
		return -1;
	}
	which = slot[0] < 0 || (slot[1] >= 0 && age[1] > age[0]);
	place = weir_flow_place_at(table, ipv6, buckets[which], (unsigned int)slot[which]);
	weir_flow_slot_end(table, &place, WEIR_FLOW_END_EVICTED, now_ns);
	table->evicted++;
	*ret_bucket = buckets[which];
	return slot[which];
}

static int find_free(
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

// May another flow enter that begins with this event?
static bool has_room(const struct weir_flow_part *part, enum weir_flow_event event) {
	return part->count < part->capacity &&
	       (event != WEIR_FLOW_EVENT_SYN || part->half_open < part->half_open_max);
}

static int find_room(struct weir_flow_table *table, bool ipv6, const uint32_t buckets[2],
	const struct weir_flow_start *start, uint32_t *ret_bucket) {
	struct weir_flow_part *part = weir_flow_part_of(table, ipv6);
	bool room = has_room(part, start->event);
	int slot = room ? find_free(table, ipv6, buckets, ret_bucket) : -1;

	if (likely(slot >= 0)) {
		return slot;
	}
	weir_flow_bucket_expire(table, ipv6, buckets[0], start->now_ns);
	weir_flow_bucket_expire(table, ipv6, buckets[1], start->now_ns);
	if (has_room(part, start->event)) {
		slot = find_free(table, ipv6, buckets, ret_bucket);
		for (unsigned int i = 0; i < 2 && slot < 0; i++) {
			slot = make_room(table, ipv6, buckets[i], 1);
			*ret_bucket = buckets[i];
		}
		if (slot >= 0) {
			return slot;
		}
	}
	return evict_half_open(table, ipv6, buckets, start->now_ns, ret_bucket);
}

static void key_store(struct weir_flow_table *table, bool ipv6, uint32_t bucket, unsigned int slot,
	const struct weir_flow_key *key, uint64_t hash) {
	if (ipv6) {
		struct weir_flow_bucket6 *b = weir_flow_bucket6_at(table, bucket);

		memcpy(b->source[slot], key->source, 16);
		memcpy(b->destination[slot], key->destination, 16);
		memcpy(&b->ports[slot], &key->source_port, 4);
		b->tag[slot] = weir_flow_tag6(hash);
	} else {
		struct weir_flow_bucket4 *b = weir_flow_bucket4_at(table, bucket);

		memcpy(&b->source[slot], key->source, 4);
		memcpy(&b->destination[slot], key->destination, 4);
		memcpy(&b->ports[slot], &key->source_port, 4);
	}
}

// An entry with this very key may be left, expired and not swept yet. The fast look-up would find
// it before the new one.
static void expire_same_key(struct weir_flow_table *table, const struct weir_flow_key *key,
	const uint32_t buckets[2], uint64_t now_ns) {
	bool ipv6 = key->family != 4;

	for (unsigned int i = 0; i < 2; i++) {
		if (ipv6 || weir_flow_match4(weir_flow_bucket4_at(table, buckets[i]), key) != 0) {
			weir_flow_bucket_expire(table, ipv6, buckets[i], now_ns);
		}
	}
}

weir_flow_ref weir_flow_insert(struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, const struct weir_flow_start *start) {
	bool ipv6 = key->family != 4;
	struct weir_flow_part *part = weir_flow_part_of(table, ipv6);
	uint32_t buckets[2] = {weir_flow_first_bucket(part->bucket_count, hash),
		weir_flow_second_bucket(part->bucket_count, hash)};
	uint32_t bucket = buckets[0];
	struct weir_flow_place place;
	int slot;

	expire_same_key(table, key, buckets, start->now_ns);
	slot = find_room(table, ipv6, buckets, start, &bucket);
	if (unlikely(slot < 0)) {
		return -ENOSPC;
	}
	place = weir_flow_place_at(table, ipv6, bucket, (unsigned int)slot);
	key_store(table, ipv6, bucket, (unsigned int)slot, key, hash);
	weir_flow_slot_begin(table, &place, start);
	part->count++;
	return weir_flow_ref_make(ipv6, bucket, (unsigned int)slot);
}
