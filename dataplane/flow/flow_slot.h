// SPDX-License-Identifier: BSD-3-Clause
//
// Flow slots: access to slots of either family by number and bucket. Private to the flow table:
// shared by flow_bucket.c, flow_life.c, flow_expire.c, flow_insert.c, flow_parts.c, flow_table.c,
// flow_waiting.c and flow_walk.c.
//
// Threads: one table per worker; only that worker calls these functions.
#pragma once

#include "flow_bucket.h"

// --- slots ----------------------------------------------------------------------------------

// A slot of either family. A reference (weir_flow_ref) consists of the slot in the bucket (bits 0
// and 1), the bucket, and the family (bit 62).
struct weir_flow_place {
	struct weir_flow_family *family;
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

// Returns a bit mask of the slots of a bucket that have this key. Free slots may also have this
// key.
static inline unsigned int weir_flow_match(const struct weir_flow_table *table, bool ipv6,
	uint32_t bucket, const struct weir_flow_key *key) {
	if (ipv6) {
		struct weir_flow_tuple6 tuple = weir_flow_tuple6_of(key);

		return weir_flow_match6(table, weir_flow_bucket6_at(table, bucket), &tuple);
	}
	return weir_flow_match4(weir_flow_bucket4_at(table, bucket), weir_flow_tuple4_of(key));
}

static inline struct weir_flow_family *weir_flow_family_of(
	struct weir_flow_table *table, bool ipv6) {
	return ipv6 ? &table->family6 : &table->family4;
}

static inline struct weir_flow_place weir_flow_place_at(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, unsigned int slot) {
	struct weir_flow_family *family = weir_flow_family_of(table, ipv6);

	return (struct weir_flow_place){.family = family,
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

// Release the destination number of an IPv6 flow that was removed from this slot of a bucket.
static inline void weir_flow_release_destination(
	struct weir_flow_table *table, uint32_t bucket, unsigned int slot) {
	weir_flow_destinations_release(
		&table->destinations, weir_flow_bucket6_at(table, bucket)->destination[slot]);
}

// Returns the key of the flow in a slot. Defined in flow_bucket.c.
struct weir_flow_key weir_flow_key_at(
	const struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint32_t slot);

// --- phases ---------------------------------------------------------------------------------

static inline bool weir_flow_is_open(unsigned int phase) {
	return phase != WEIR_PHASE_CLOSING && phase != WEIR_PHASE_RESET &&
	       phase != WEIR_PHASE_ABORTED;
}

// Returns whether a phase is half-open. Includes WAITING, which does not count towards the limit.
static inline bool weir_flow_is_unproven(unsigned int phase) {
	return (phase & WEIR_PHASE_HALF_OPEN_MASK) == WEIR_PHASE_HALF_OPEN ||
	       phase == WEIR_PHASE_WAITING;
}

// --- starts ---------------------------------------------------------------------------------

// Write pending start times. Call before a start time is read, or written by any other code.
static inline void weir_flow_settle_starts(struct weir_flow_table *table) {
	struct weir_flow_late_starts *late = &table->late;

	for (uint32_t i = 0; i < late->count; i++) {
		*late->at[i] = late->value[i];
	}
	late->count = 0;
}
