// SPDX-License-Identifier: BSD-3-Clause
//
// Fragment table: datagrams that arrive in fragments. Only the first fragment has ports; it makes
// an entry with its verdict, which the others follow. Weir does not reassemble.
//
// Bounded: a bucket of four entries for each key; a new datagram replaces one that is complete or
// expired, else the oldest. An entry stores which parts of its datagram were forwarded, so that a
// backend gets no overlapping fragments (RFC 1858, RFC 5722).
//
// Threads: one table per worker; only that worker calls these.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "flow.h"

#define WEIR_FRAGMENT_RANGES 3 // parts of a datagram that are not adjacent: two holes

enum weir_fragment_fate { // of the first fragment, and so of the others
	WEIR_FRAGMENT_UNDECIDED,
	WEIR_FRAGMENT_FORWARD, // to `backend`
	WEIR_FRAGMENT_KERNEL,
	WEIR_FRAGMENT_DROP, // for `reason`
	WEIR_FRAGMENT_OFFER, // to the next worker
};

// The part of a datagram in a fragment, in units of 8 bytes.
struct weir_fragment_part {
	uint16_t from;
	uint16_t to; // the unit after it, rounded up
	bool last;
};

struct weir_fragment_entry { // one cache line
	uint8_t source[16];
	uint8_t destination[16];
	uint32_t id;
	uint8_t family; // 0 = free
	uint8_t protocol; // of the first fragment
	uint8_t fate; // enum weir_fragment_fate
	uint8_t reason; // enum weir_drop_reason of WEIR_FRAGMENT_DROP
	uint32_t ports; // both, as in the packet
	uint32_t born_ms;
	uint16_t backend;
	uint16_t end; // unit after the datagram; 0 = its last fragment has not arrived
	struct {
		uint16_t from, to; // from == to: unused
	} seen[WEIR_FRAGMENT_RANGES]; // sorted
};
_Static_assert(sizeof(struct weir_fragment_entry) == 64, "one cache line");

struct weir_fragment_table;

// entries: rounded up to a power of two; secret: keys the choice of buckets. [set-up]
// Returns 0, -EINVAL (0 entries), -ENOMEM.
int weir_fragment_table_create(uint32_t entries, uint32_t timeout_ms, uint64_t secret, int socket,
	struct weir_fragment_table **ret);
void weir_fragment_table_free(struct weir_fragment_table *table); // NULL is allowed
uint64_t weir_fragment_table_bytes(uint32_t entries);

// Find the entry of a datagram by addresses and family of the key, in IPv4 its protocol, and
// identification. NULL: its first fragment has not arrived, or the entry has expired. Valid until
// the next call of _enter.
struct weir_fragment_entry *weir_fragment_find(struct weir_fragment_table *table,
	const struct weir_flow_key *key, uint32_t id, uint64_t now_ns);
// The same for a first fragment, with the ports of the key; makes a new entry if there is none, or
// if the datagram of that identification is complete.
struct weir_fragment_entry *weir_fragment_enter(struct weir_fragment_table *table,
	const struct weir_flow_key *key, uint32_t id, uint64_t now_ns);

// Mark a part as forwarded. Returns 0, -EALREADY (a copy), -EBADMSG (it overlaps others in part, or
// lies beyond the end: the datagram is dropped from now on), -ENOSPC (too many holes; not marked).
int weir_fragment_cover(struct weir_fragment_entry *entry, const struct weir_fragment_part *part);
