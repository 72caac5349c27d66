// SPDX-License-Identifier: BSD-3-Clause
//
// Flow buckets: the memory layout of the flow table, and the fast path of a lookup, inlined into
// the pipeline. flow_table.h lists the other parts.
//
// Layout. A bucket is one cache line with four IPv4 flows or two IPv6 flows. The keys of a bucket
// are stored field by field, so that one vector instruction can compare a field of several flows;
// IPv6 destinations are stored separately (flow_destinations.h). The hash of a flow gives two
// buckets. A new flow goes into its primary bucket if this bucket has room, otherwise into its
// secondary bucket. A later insertion may move the flow to its other bucket (bucketized cuckoo
// hashing, Erlingsson et al. 2006).
//
// Word. Apart from its key and its start time, all data of a flow is in one word: state, time of
// the last packet, backend. For most packets the new word consists of the old word's backend and a
// stamp. A stamp depends only on the event, the state and the time. Therefore all stamps are
// computed in advance, about once per millisecond.
//
// A time has 12 bits and counts ticks, whose length depends on the state. Times wrap after at least
// two timeouts of the state and at least WEIR_FLOW_WRAP_NS_MIN. The sweep ends flows long before
// that.
//
// The two buckets of a flow depend on its hash, which all instances share and attackers may know,
// and on a secret of the table. Therefore an attacker cannot direct many flows to one bucket.
//
// Parts. The memory of a table is private, or shared by the tables of all workers (flow_memory.h).
// Shared memory consists of WEIR_FLOW_PARTS parts, each owned by one table at a time. Both buckets
// of a flow are in one part. The part is given by the top bits of the product from which the lookup
// computes the primary bucket.
//
// Threads: one table per worker; only that worker calls these functions.
#pragma once

#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_common.h>

#include "flow.h"
#include "flow_destinations.h"
#include "flow_memory.h"
#include "hash.h"

// The state of a flow in four bits. Callers outside the flow table use enum weir_flow_state
// instead.
enum weir_flow_phase {
	WEIR_PHASE_FREE, // the slot has no flow
	WEIR_PHASE_SYN_SEEN,
	WEIR_PHASE_ESTABLISHED,
	WEIR_PHASE_CLOSING, // after a FIN
	WEIR_PHASE_RESET, // established, then RST; data after the RST shows that the RST was forged
	WEIR_PHASE_JOINED, // began in mid-flow: the first received packet may be forged
	// SYN seen; begun in the slot of an old flow while the half-open limit was reached
	WEIR_PHASE_WAITING,
	WEIR_PHASE_YOUNG, // a first packet and an ACK received; both may be forged
	WEIR_PHASE_UDP, // UDP, after the second datagram
	WEIR_PHASE_UDP_SEEN, // UDP, after one datagram, which may be forged
	WEIR_PHASE_ABORTED, // RST before the flow was established
	WEIR_PHASE_CHALLENGED, // established or young; a challenge ACK was sent to its client
	WEIR_PHASE_MOVED = 13, // SYN seen, but the SYN went to the previous backend
	WEIR_FLOW_PHASES,
};
// Phases with this value in their two low bits are half-open, so that one comparison suffices.
// Half-open phases have equal ticks.
#define WEIR_PHASE_HALF_OPEN 1u
#define WEIR_PHASE_HALF_OPEN_MASK 3u
_Static_assert((WEIR_PHASE_SYN_SEEN & 3) == 1 && (WEIR_PHASE_JOINED & 3) == 1 &&
		       (WEIR_PHASE_UDP_SEEN & 3) == 1 && (WEIR_PHASE_MOVED & 3) == 1 &&
		       (WEIR_PHASE_FREE & 3) != 1 && (WEIR_PHASE_ESTABLISHED & 3) != 1 &&
		       (WEIR_PHASE_CLOSING & 3) != 1 && (WEIR_PHASE_RESET & 3) != 1 &&
		       (WEIR_PHASE_WAITING & 3) != 1 && (WEIR_PHASE_YOUNG & 3) != 1 &&
		       (WEIR_PHASE_UDP & 3) != 1 && (WEIR_PHASE_ABORTED & 3) != 1 &&
		       (WEIR_PHASE_CHALLENGED & 3) != 1,
	"the half-open phases must be SYN seen, joined, UDP seen and moved");
#define WEIR_FLOW_PHASE_ROOM 16u // number of values of four bits

#define WEIR_WORD_PHASE_SHIFT 28
#define WEIR_WORD_LAST_SHIFT 16
#define WEIR_WORD_LAST_MASK 0xfffu
#define WEIR_WORD_BACKEND 0xffffu
#define WEIR_FLOW_WRAP_NS_MIN 16000000000ull
// Maximum number of failed searches for an idle flow until the stamps are computed again (about 1
// ms). This limits the cost of a SYN flood into a full table.
#define WEIR_FLOW_IDLE_SEARCHES 64u
#define WEIR_FLOW_STAMP_SHIFT 20 // stamps are valid for 2^20 ns, because no phase has a finer tick

struct weir_flow_bucket4 {
	uint32_t source[4];
	uint32_t destination[4];
	uint32_t ports[4]; // source port in the low half
	uint32_t word[4];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_flow_bucket4) == 64, "one cache line");

struct weir_flow_bucket6 {
	uint8_t source[2][16];
	uint32_t ports[2]; // compared first, to select the slot that is compared in full
	uint32_t word[2];
	uint16_t destination[2]; // indexes into the table's destinations
	uint32_t reserved[3];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_flow_bucket6) == 64, "one cache line");

struct weir_flow_family { // the flows of one family
	void *buckets; // buckets of all parts, including parts that other tables own
	uint32_t *starts; // per slot: start of the flow, in ticks of 2^14 ns; 0 = not measured
	uint32_t slots; // number of slots of a bucket
	uint64_t bucket_count; // 64 bits, so that weir_flow_bucket_from needs no conversion
	uint64_t part_buckets; // number of buckets of a part
	uint64_t part_step; // number of buckets from one part to the next; 0 = only one part
	uint64_t owned_buckets; // number of buckets in the parts that this table owns
	uint32_t capacity; // maximum number of flows
	uint32_t count;
	uint32_t half_open;
	uint32_t half_open_max;
	// Number of half-open flows at which the table becomes, or stops being, crowded.
	uint32_t crowded_at;
	uint64_t calm; // `stamped` at the last check in which the table was not crowded
	uint32_t sweep_next; // next bucket of the sweep
	uint32_t sweep_end; // end of the part in which the sweep is
	uint32_t sweeps; // number of completed sweeps
	uint32_t recheck; // number of sweeps that must end until the recheck is complete
	uint64_t sweep_rate; // buckets per 2^20 ns, 16 fractional bits
	uint64_t sweep_debt; // buckets to sweep now, 16 fractional bits
};

// The new word of a flow without its backend, by event and phase; 0 = the fast path cannot handle
// this event in this phase.
struct weir_flow_stamps {
	uint32_t word[WEIR_FLOW_EVENT_COUNT][WEIR_FLOW_PHASE_ROOM];
};

// The current time and the timeouts, by phase, in ticks of the phase. In word[], the time has the
// same bit position as in the word of a flow, and all lower bits are ones.
struct weir_flow_now {
	uint32_t word[WEIR_FLOW_PHASE_ROOM];
	uint32_t timeout_ticks[WEIR_FLOW_PHASE_ROOM];
	// WEIR_FLOW_HANDSHAKE_MS, but at most the timeout of half-open flows, in ticks of half-open
	// phases
	uint32_t handshake_ticks;
};

// The secret of a flow table: odd multipliers from which the buckets of a hash are computed.
struct weir_flow_secret {
	uint64_t first, second;
	uint64_t first_inverse; // first * first_inverse == 1
};

// Start times that are not written yet. The table prefetches their cache lines and writes them
// later, so that no packet waits for the cache lines. The table writes all of them before it reads
// any start time, and in every sweep.
#define WEIR_FLOW_STARTS_LATE 64u
struct weir_flow_late_starts {
	uint32_t count;
	uint32_t value[WEIR_FLOW_STARTS_LATE];
	uint32_t *at[WEIR_FLOW_STARTS_LATE];
};

// The parts of the memory that a table owns (flow_parts.h).
struct weir_flow_owned {
	uint64_t bits[WEIR_FLOW_PARTS / 64];
	uint32_t parts; // number of owned parts
	// Number of parts from which the table's share of the capacity is computed. It includes
	// parts that are moving.
	uint32_t count;
	uint32_t shift; // log2 of the number of parts: 0, or WEIR_FLOW_PART_BITS
	uint32_t half_open_percent;
};

struct weir_flow_table {
	struct weir_flow_stamps stamps;
	struct weir_flow_now now;
	struct weir_flow_family family4;
	struct weir_flow_family family6;
	struct weir_flow_destinations destinations; // destinations of family6
	uint8_t shift[WEIR_FLOW_PHASE_ROOM]; // tick of a phase = 2^shift ns
	bool measuring; // start times may have been stored
	bool rechecking; // a family is being rechecked, so datagrams take the slow lookup
	bool recheck_tcp; // the last recheck included TCP
	uint32_t rechecks; // number of rechecks begun
	uint64_t hash_seed;
	struct weir_flow_secret secret;
	struct weir_flow_listener listener;
	// Timeouts of flows in phase RESET: reset_ticks is the timeout of established flows;
	// reset_ticks_short applies while a family uses more than three quarters of its capacity.
	uint32_t reset_ticks, reset_ticks_short;
	uint64_t stamped; // time of stamps and now, in units of 2^WEIR_FLOW_STAMP_SHIFT ns
	uint64_t swept_ns;
	uint64_t evicted; // number of evicted half-open flows
	uint64_t idle_evicted; // number of other flows evicted to make room
	uint32_t idle_searches; // failed searches still allowed until the stamps are computed again
	struct weir_flow_owned owned;
	struct weir_flow_memory *memory;
	bool private; // the memory belongs to this table only
	bool given_parts; // the caller passes hashes from weir_flow_hash_in_part
	struct weir_flow_late_starts late;
};

// --- words -------------------------------------------------------------------------------------

static inline unsigned int weir_flow_phase_of(uint32_t word) {
	return word >> WEIR_WORD_PHASE_SHIFT;
}

static inline bool weir_flow_is_half_open(uint32_t word) {
	return (weir_flow_phase_of(word) & WEIR_PHASE_HALF_OPEN_MASK) == WEIR_PHASE_HALF_OPEN;
}

static inline bool weir_flow_is_udp(uint32_t word) {
	unsigned int phase = weir_flow_phase_of(word);

	return phase == WEIR_PHASE_UDP || phase == WEIR_PHASE_UDP_SEEN;
}

static inline uint32_t weir_flow_ticks(
	const struct weir_flow_table *table, unsigned int phase, uint64_t now_ns) {
	return (uint32_t)(now_ns >> table->shift[phase]) & WEIR_WORD_LAST_MASK;
}

static inline uint32_t weir_flow_word_make(const struct weir_flow_table *table, unsigned int phase,
	uint16_t backend, uint64_t now_ns) {
	return phase << WEIR_WORD_PHASE_SHIFT |
	       weir_flow_ticks(table, phase, now_ns) << WEIR_WORD_LAST_SHIFT | backend;
}

// Returns the time since the last packet of the flow with this word, in ticks of the flow's phase.
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

// --- buckets of a flow ----------------------------------------------------------------------

// Returns the hash from which the buckets of an IPv6 flow are computed: the hash of the key,
// combined with the source address and the secret. Without the secret, an attacker who knows the
// seed of the key hash could find many IPv6 sources whose flows fall into one bucket. IPv4 flows
// do not need this, because few IPv4 flows have equal hashes.
static inline uint64_t weir_flow_bucket_hash6(
	const struct weir_flow_secret *secret, const uint8_t *source, uint64_t hash) {
	uint64_t words[2];

	memcpy(words, source, sizeof(words));
	return hash ^ weir_hash_mix(words[0] ^ secret->first, words[1] ^ secret->second);
}

static inline uint64_t weir_flow_bucket_hash(
	const struct weir_flow_secret *secret, const struct weir_flow_key *key, uint64_t hash) {
	return likely(key->family == 4) ? hash : weir_flow_bucket_hash6(secret, key->source, hash);
}

// Returns the bucket of a hash: the function multiplies the hash by an odd secret, and scales the
// product to the number of buckets. Because the multiplier is secret, hashes that an attacker
// chooses fall into one bucket only slightly more often than random hashes (Dietzfelbinger et al.
// 1997). hash: weir_flow_bucket_hash.
static inline uint64_t weir_flow_bucket_from(
	uint64_t bucket_count, uint64_t hash, uint64_t secret) {
	return (uint64_t)((unsigned __int128)(hash * secret) * bucket_count >> 64);
}

static inline uint32_t weir_flow_first_bucket(
	const struct weir_flow_secret *secret, uint64_t bucket_count, uint64_t hash) {
	return weir_flow_bucket_from(bucket_count, hash, secret->first);
}

// Returns the part of a flow in shared memory, below WEIR_FLOW_PARTS. hash: weir_flow_bucket_hash.
// The part and the primary bucket are the top bits of the same product, and all parts have the same
// number of buckets. Therefore the primary bucket is in this part.
static inline uint32_t weir_flow_part(const struct weir_flow_secret *secret, uint64_t hash) {
	return (uint32_t)((hash * secret->first) >> (64 - WEIR_FLOW_PART_BITS));
}

// Returns a bucket hash for another part. bucket_hash: the bucket hash of a flow. part: the part in
// which the flow must be. Only the top WEIR_FLOW_PART_BITS change; the other bits spread flows over
// the buckets of the part.
static inline uint64_t weir_flow_bucket_hash_in_part(
	const struct weir_flow_secret *secret, uint64_t bucket_hash, uint32_t part) {
	uint64_t further = part - (uint64_t)weir_flow_part(secret, bucket_hash);

	return bucket_hash + (further * secret->first_inverse << (64 - WEIR_FLOW_PART_BITS));
}

// Returns the hash of a key that puts its flow into a given part. In all functions of a table with
// given_parts, this hash replaces the hash of the key. The two hashes differ only in the top
// WEIR_FLOW_PART_BITS.
static inline uint64_t weir_flow_hash_in_part(const struct weir_flow_secret *secret,
	const struct weir_flow_key *key, uint64_t hash, uint32_t part) {
	uint64_t bucket_hash = weir_flow_bucket_hash(secret, key, hash);

	return hash ^ bucket_hash ^ weir_flow_bucket_hash_in_part(secret, bucket_hash, part);
}

// Returns the secondary bucket of a flow. It is in the same part as the primary bucket.
static inline uint32_t weir_flow_second_bucket(const struct weir_flow_secret *secret,
	const struct weir_flow_family *family, uint64_t hash) {
	return (uint32_t)(weir_flow_part(secret, hash) * family->part_step +
			  weir_flow_bucket_from(family->part_buckets, hash, secret->second));
}

static inline struct weir_flow_bucket4 *weir_flow_bucket4_at(
	const struct weir_flow_table *table, uint32_t bucket) {
	return &((struct weir_flow_bucket4 *)table->family4.buckets)[bucket];
}

static inline struct weir_flow_bucket6 *weir_flow_bucket6_at(
	const struct weir_flow_table *table, uint32_t bucket) {
	return &((struct weir_flow_bucket6 *)table->family6.buckets)[bucket];
}

// --- prefetch -------------------------------------------------------------------------------

// Prefetch a bucket that will be read and in which a word will be written. Always inlined, because
// gcc 12 assumes that a function that only calls __builtin_prefetch has no effect, and removes
// the call.
static __rte_always_inline void weir_flow_fetch(const void *bucket) {
	__builtin_prefetch(bucket, 1, 3);
}

// --- comparison -----------------------------------------------------------------------------

// The key of an IPv4 flow: source address, destination address and ports, as in a packet. The
// fourth element is ignored.
typedef uint32_t weir_flow_tuple4 __attribute__((vector_size(16)));

static inline weir_flow_tuple4 weir_flow_tuple4_of(const struct weir_flow_key *key) {
	uint32_t source, destination, ports;

	memcpy(&source, key->source, 4);
	memcpy(&destination, key->destination, 4);
	memcpy(&ports, &key->source_port, 4);
	return (weir_flow_tuple4){source, destination, ports};
}

// Returns a bit mask of the slots that hold the tuple. The bits of free slots are arbitrary.
static inline unsigned int weir_flow_match4(
	const struct weir_flow_bucket4 *bucket, weir_flow_tuple4 tuple) {
#ifdef __SSE2__
	typedef float floats __attribute__((vector_size(16)));
	weir_flow_tuple4 same =
		(weir_flow_tuple4)(*(const weir_flow_tuple4 *)bucket->source ==
				   __builtin_shufflevector(tuple, tuple, 0, 0, 0, 0));

	same &= (weir_flow_tuple4)(*(const weir_flow_tuple4 *)bucket->destination ==
				   __builtin_shufflevector(tuple, tuple, 1, 1, 1, 1));
	same &= (weir_flow_tuple4)(*(const weir_flow_tuple4 *)bucket->ports ==
				   __builtin_shufflevector(tuple, tuple, 2, 2, 2, 2));
	return (unsigned int)__builtin_ia32_movmskps((floats)same);
#else
	unsigned int match = 0;

	for (unsigned int slot = 0; slot < WEIR_FLOW_SLOTS4; slot++) {
		uint32_t differ = (bucket->source[slot] ^ tuple[0]) |
				  (bucket->destination[slot] ^ tuple[1]) |
				  (bucket->ports[slot] ^ tuple[2]);

		match |= (unsigned int)(differ == 0) << slot;
	}
	return match;
#endif
}

// An IPv6 key: pointers to its addresses of 16 bytes, and both ports.
struct weir_flow_tuple6 {
	const uint8_t *source;
	const uint8_t *destination;
	uint32_t ports;
};

static inline struct weir_flow_tuple6 weir_flow_tuple6_of(const struct weir_flow_key *key) {
	struct weir_flow_tuple6 tuple = {.source = key->source, .destination = key->destination};

	memcpy(&tuple.ports, &key->source_port, 4);
	return tuple;
}

// Returns a bit mask of the slots that have these ports. Usually no bit is set, or only the bit of
// the packet's flow.
static inline unsigned int weir_flow_match_ports6(
	const struct weir_flow_bucket6 *bucket, uint32_t ports) {
#ifdef __SSE2__
	typedef uint32_t lanes __attribute__((vector_size(16)));
	typedef uint64_t halves __attribute__((vector_size(16)));
	typedef float floats __attribute__((vector_size(16)));
	halves both = {0}; // the upper half has no ports

	memcpy(&both, bucket->ports, sizeof(bucket->ports));
	return (unsigned int)__builtin_ia32_movmskps((floats)((lanes)both == ports)) & 3;
#else
	unsigned int match = 0;

	for (unsigned int slot = 0; slot < WEIR_FLOW_SLOTS6; slot++) {
		match |= (unsigned int)(bucket->ports[slot] == ports) << slot;
	}
	return match;
#endif
}

static inline bool weir_flow_same_addresses6(const struct weir_flow_table *table,
	const struct weir_flow_bucket6 *bucket, size_t slot, const struct weir_flow_tuple6 *tuple) {
	const uint8_t *to = table->destinations.address[bucket->destination[slot]];

#ifdef __SSE2__
	typedef char bytes __attribute__((vector_size(16)));
	bytes source, destination;

	memcpy(&source, tuple->source, 16);
	memcpy(&destination, tuple->destination, 16);
	source = (bytes)(source == *(const bytes *)(const void *)bucket->source[slot]);
	destination = (bytes)(destination == *(const bytes *)(const void *)to);
	return __builtin_ia32_pmovmskb128(source & destination) == 0xffff;
#else
	return memcmp(bucket->source[slot], tuple->source, 16) == 0 &&
	       memcmp(to, tuple->destination, 16) == 0;
#endif
}

// Returns a bit mask of the slots that hold the tuple. The bits of free slots are arbitrary.
static inline unsigned int weir_flow_match6(const struct weir_flow_table *table,
	const struct weir_flow_bucket6 *bucket, const struct weir_flow_tuple6 *tuple) {
	unsigned int match = 0;

	for (unsigned int left = weir_flow_match_ports6(bucket, tuple->ports); left != 0;
		left &= left - 1) {
		unsigned int slot = (unsigned int)__builtin_ctz(left);

		match |= (unsigned int)weir_flow_same_addresses6(table, bucket, slot, tuple)
			 << slot;
	}
	return match;
}

// --- the fast path --------------------------------------------------------------------------

// Computes the stamps again for the time now_ns.
void weir_flow_refresh_stamps(struct weir_flow_table *table, uint64_t now_ns);

// Update the stamps. Call at the start of each burst.
static inline void weir_flow_stamp(struct weir_flow_table *table, uint64_t now_ns) {
	if (unlikely(table->stamped != now_ns >> WEIR_FLOW_STAMP_SHIFT)) {
		weir_flow_refresh_stamps(table, now_ns);
	}
}

// Refreshes the word of a packet's flow, and writes the flow's backend to *ret_backend. event: the
// event that the packet causes. Returns false and changes nothing if the slot is free, or if the
// fast path does not handle this event in the flow's state. An expired flow that the sweep has not
// removed yet continues.
static inline bool weir_flow_refresh(const struct weir_flow_table *table, uint32_t *word,
	enum weir_flow_event event, uint32_t *ret_backend) {
	uint32_t old = *word;
	unsigned int phase = old >> WEIR_WORD_PHASE_SHIFT;
	uint32_t stamp = table->stamps.word[event][phase];

	if (unlikely(stamp == 0)) {
		return false;
	}
	*word = (old & WEIR_WORD_BACKEND) | stamp;
	*ret_backend = old & WEIR_WORD_BACKEND;
	return true;
}

// Returns the word of a packet's flow in a bucket, or NULL. ip: the packet's IP header (IPv4
// without options, or IPv6 without extension headers), followed by TCP or UDP.
//
// The protocol is not compared. If a TCP flow and a UDP flow have equal addresses and ports, the
// word may belong to the wrong flow. weir_flow_refresh then returns false, and weir_flow_lookup
// finds the right flow.
static inline uint32_t *weir_flow_find4(struct weir_flow_bucket4 *bucket, const uint8_t *ip) {
	weir_flow_tuple4 tuple;
	unsigned int match;

	memcpy(&tuple, ip + 12, sizeof(tuple));
	match = weir_flow_match4(bucket, tuple);
	return match != 0 ? bucket->word + __builtin_ctzll(match) : NULL;
}

// Slow path of weir_flow_find6, with the same parameters and result. Compares the whole keys,
// because several slots of the bucket may have the ports of the packet.
uint32_t *weir_flow_find6_among(
	const struct weir_flow_table *table, struct weir_flow_bucket6 *bucket, const uint8_t *ip);

// Returns the word of a packet's flow in a bucket, or NULL, as weir_flow_find4 does, for an IPv6
// packet without extension headers. If several slots have this key, returns the word of the lowest
// slot. Usually at most one of these slots has a live flow, which weir_flow_lookup finds.
static inline uint32_t *weir_flow_find6(
	const struct weir_flow_table *table, struct weir_flow_bucket6 *bucket, const uint8_t *ip) {
	struct weir_flow_tuple6 tuple = {.source = ip + 8, .destination = ip + 24};
	size_t slot;

	_Static_assert(WEIR_FLOW_SLOTS6 == 2, "a flow that is not in slot 0 must be in slot 1");
	memcpy(&tuple.ports, ip + 40, 4);
	slot = bucket->ports[0] != tuple.ports;
	if (unlikely(bucket->ports[slot] != tuple.ports)) {
		return NULL;
	}
	if (unlikely(!weir_flow_same_addresses6(table, bucket, slot, &tuple))) {
		return weir_flow_find6_among(table, bucket, ip);
	}
	return &bucket->word[slot];
}

// Writes the indexes of the two buckets of this key to ret_buckets. Returns true if no slot of the
// buckets has the key. Returns false if a slot has the key, even if the flow in the slot has
// expired or has another protocol, or if the slot is free.
static inline bool weir_flow_absent(const struct weir_flow_table *table,
	const struct weir_flow_key *key, uint64_t hash, uint32_t ret_buckets[2]) {
	const struct weir_flow_secret *secret = &table->secret;

	if (likely(key->family == 4)) {
		uint32_t first = weir_flow_first_bucket(secret, table->family4.bucket_count, hash);
		uint32_t second = weir_flow_second_bucket(secret, &table->family4, hash);
		weir_flow_tuple4 tuple = weir_flow_tuple4_of(key);

		ret_buckets[0] = first;
		ret_buckets[1] = second;
		return (weir_flow_match4(weir_flow_bucket4_at(table, first), tuple) |
			       weir_flow_match4(weir_flow_bucket4_at(table, second), tuple)) == 0;
	} else {
		uint64_t hash6 = weir_flow_bucket_hash6(secret, key->source, hash);
		uint32_t first = weir_flow_first_bucket(secret, table->family6.bucket_count, hash6);
		uint32_t second = weir_flow_second_bucket(secret, &table->family6, hash6);
		struct weir_flow_tuple6 tuple = weir_flow_tuple6_of(key);

		ret_buckets[0] = first;
		ret_buckets[1] = second;
		return (weir_flow_match6(table, weir_flow_bucket6_at(table, first), &tuple) |
			       weir_flow_match6(
				       table, weir_flow_bucket6_at(table, second), &tuple)) == 0;
	}
}

// --- crowded --------------------------------------------------------------------------------

// Returns the number of half-open flows at which the table next becomes, or stops being, crowded.
static inline uint32_t weir_flow_crowded_mark(const struct weir_flow_family *flows, bool crowded) {
	return flows->half_open_max - flows->half_open_max / (crowded ? 4 : 8);
}

// Returns whether the table is crowded for a family: the table is full, or the number of half-open
// flows is near the limit. If the table is not crowded, also records the time (F3 of flow_table.h).
// The table becomes crowded at seven eighths of the limit, and stops being crowded at three
// quarters.
//
// In a crowded table, a new flow may be evicted before its second packet arrives. Therefore the
// caller must choose the backend that the second packet would get without an entry. Flows that were
// inserted before the table became crowded have backends chosen by the policy; they are not evicted
// for WEIR_FLOW_HANDSHAKE_MS (F3).
static inline bool weir_flow_crowded(struct weir_flow_table *table, uint8_t family) {
	struct weir_flow_family *flows = likely(family == 4) ? &table->family4 : &table->family6;
	bool crowded = flows->half_open >= flows->crowded_at;

	flows->crowded_at = weir_flow_crowded_mark(flows, crowded);
	crowded |= flows->count >= flows->capacity;
	flows->calm = crowded ? flows->calm : table->stamped;
	return crowded;
}
