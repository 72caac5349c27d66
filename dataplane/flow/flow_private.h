// SPDX-License-Identifier: BSD-3-Clause
//
// What flow_table.c (the life of a flow: found, advanced, ended, swept) and flow_insert.c (its
// entry) share. Used by these two only.
//
// Threads: as flow_table.h.
#pragma once

#include "flow_bucket.h"

// --- slots ----------------------------------------------------------------------------------

// A slot of either family. A reference is its number, the family in bit 62.
struct weir_flow_place {
	struct weir_flow_part *part;
	uint32_t *word;
	uint64_t slot; // bucket * slots + slot in the bucket
};

static inline bool weir_flow_is_ipv6(weir_flow_ref ref) {
	return (uint64_t)ref >> 62 != 0;
}

static inline weir_flow_ref weir_flow_ref_make(bool ipv6, uint32_t bucket, unsigned int slot) {
	return (weir_flow_ref)((uint64_t)ipv6 << 62 | (uint64_t)bucket << 2 | slot);
}

static inline uint32_t *weir_flow_word_at(
	const struct weir_flow_table *table, bool ipv6, uint32_t bucket, unsigned int slot) {
	return ipv6 ? &weir_flow_bucket6_at(table, bucket)->word[slot]
		    : &weir_flow_bucket4_at(table, bucket)->word[slot];
}

static inline uint32_t *weir_flow_bucket_words(
	const struct weir_flow_table *table, bool ipv6, uint32_t bucket) {
	return weir_flow_word_at(table, ipv6, bucket, 0);
}

// Slots of a bucket with this key, a bit each; free ones too.
static inline unsigned int weir_flow_match(const struct weir_flow_table *table, bool ipv6,
	uint32_t bucket, const struct weir_flow_key *key) {
	if (ipv6) {
		struct weir_flow_tuple6 tuple = weir_flow_tuple6_of(key);

		return weir_flow_match6(table, weir_flow_bucket6_at(table, bucket), &tuple);
	}
	return weir_flow_match4(weir_flow_bucket4_at(table, bucket), weir_flow_tuple4_of(key));
}

static inline struct weir_flow_part *weir_flow_part_of(struct weir_flow_table *table, bool ipv6) {
	return ipv6 ? &table->part6 : &table->part4;
}

static inline struct weir_flow_place weir_flow_place_at(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, unsigned int slot) {
	struct weir_flow_part *part = weir_flow_part_of(table, ipv6);

	return (struct weir_flow_place){.part = part,
		.word = weir_flow_word_at(table, ipv6, bucket, slot),
		.slot = (uint64_t)bucket * (ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4) + slot};
}

static inline struct weir_flow_place weir_flow_place_of(
	struct weir_flow_table *table, weir_flow_ref ref) {
	return weir_flow_place_at(
		table, weir_flow_is_ipv6(ref), (uint32_t)((uint64_t)ref >> 2), ref & 3);
}

static inline uint32_t weir_flow_word_of(const struct weir_flow_table *table, weir_flow_ref ref) {
	return *weir_flow_word_at(
		table, weir_flow_is_ipv6(ref), (uint32_t)((uint64_t)ref >> 2), ref & 3);
}

static inline unsigned int weir_flow_phase_of(uint32_t word) {
	return word >> WEIR_WORD_PHASE_SHIFT;
}

static inline bool weir_flow_is_half_open(uint32_t word) {
	return (weir_flow_phase_of(word) & WEIR_PHASE_HALF_OPEN_MASK) == WEIR_PHASE_HALF_OPEN;
}

// The IPv6 flow in a slot is gone: its destination has one flow less.
static inline void weir_flow_release_destination(
	struct weir_flow_table *table, uint32_t bucket, unsigned int slot) {
	weir_flow_destinations_release(
		&table->destinations, weir_flow_bucket6_at(table, bucket)->destination[slot]);
}

// --- time -----------------------------------------------------------------------------------

static inline uint32_t weir_flow_ticks(
	const struct weir_flow_table *table, unsigned int phase, uint64_t now_ns) {
	return (uint32_t)(now_ns >> table->shift[phase]) & WEIR_WORD_LAST_MASK;
}

static inline uint32_t weir_flow_word_make(const struct weir_flow_table *table, unsigned int phase,
	uint16_t backend, uint64_t now_ns) {
	return phase << WEIR_WORD_PHASE_SHIFT |
	       weir_flow_ticks(table, phase, now_ns) << WEIR_WORD_LAST_SHIFT | backend;
}

// Ticks since the last packet.
static inline uint32_t weir_flow_age_of(
	const struct weir_flow_table *table, uint32_t word, uint64_t now_ns) {
	return (weir_flow_ticks(table, weir_flow_phase_of(word), now_ns) -
		       (word >> WEIR_WORD_LAST_SHIFT)) &
	       WEIR_WORD_LAST_MASK;
}

static inline bool weir_flow_is_expired(
	const struct weir_flow_table *table, uint32_t word, uint64_t now_ns) {
	return weir_flow_age_of(table, word, now_ns) >
	       table->now.timeout_ticks[weir_flow_phase_of(word)];
}

// --- starts ---------------------------------------------------------------------------------

// Before a start is read, or written by anybody else.
static inline void weir_flow_settle_starts(struct weir_flow_table *table) {
	struct weir_flow_late_starts *late = &table->late;

	for (uint32_t i = 0; i < late->count; i++) {
		*late->at[i] = late->value[i];
	}
	late->count = 0;
}

// --- ends and begins (flow_table.c) -----------------------------------------------------------

// End the flow in a slot, and tell so.
void weir_flow_slot_end(struct weir_flow_table *table, const struct weir_flow_place *place,
	enum weir_flow_end end, uint64_t now_ns);

// End the flows of a bucket that have expired.
void weir_flow_bucket_expire(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns);

// The slot holds a new flow from now on. The stamps are those of start->now_ns.
void weir_flow_slot_begin(struct weir_flow_table *table, const struct weir_flow_place *place,
	const struct weir_flow_start *start);
