// SPDX-License-Identifier: BSD-3-Clause
//
// Fragment table: datagrams that arrive in fragments. Only the first fragment has ports. Therefore
// an entry stores the verdict of the first fragment, and later fragments get the same verdict. Weir
// does not reassemble datagrams.
//
// The table is bounded: each key belongs to one bucket of four entries. A new datagram replaces a
// complete or expired datagram of its bucket or, if there is none, the oldest datagram. An entry
// stores which parts of its datagram have arrived, so that a backend gets no overlapping fragments
// (RFC 1858, RFC 5722).
//
// Threads: one table per worker; only that worker calls these functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "flow.h"

#define WEIR_FRAGMENT_RANGES 3 // maximum number of separate parts: two holes between them

enum weir_fragment_fate { // action for the first fragment and for later fragments
	WEIR_FRAGMENT_UNDECIDED,
	WEIR_FRAGMENT_FORWARD, // forward to `backend`
	WEIR_FRAGMENT_KERNEL,
	WEIR_FRAGMENT_DROP, // drop the fragment for `reason`
	WEIR_FRAGMENT_OFFER, // offer to the next worker
	WEIR_FRAGMENT_DATAGRAM, // forward to `backend`, which was chosen for this datagram only
};

// The part of a datagram that a fragment contains, in units of 8 bytes.
struct weir_fragment_part {
	uint16_t from;
	uint16_t to; // first unit after the part, rounded up
	bool last;
};

struct weir_fragment_entry { // one cache line
	uint8_t source[16];
	uint8_t destination[16];
	uint32_t id;
	uint8_t family; // 0 = free
	uint8_t protocol; // protocol of the first fragment
	uint8_t fate; // enum weir_fragment_fate
	uint8_t reason; // enum weir_drop_reason of WEIR_FRAGMENT_DROP
	uint32_t ports; // both ports, as in the packet
	uint32_t born_ms;
	uint16_t backend;
	// End of the datagram, in units of 8 bytes; 0 = the last fragment has not arrived
	uint16_t end;
	struct {
		uint16_t from, to; // from == to: unused
	} seen[WEIR_FRAGMENT_RANGES]; // parts that have arrived, sorted
};
_Static_assert(sizeof(struct weir_fragment_entry) == 64, "one cache line");

struct weir_fragment_table;

// Create a table. entries: rounded up to a power of two, at least 4; secret: key for the choice of
// buckets. [set-up] Returns 0, -EINVAL (0 entries), -ENOMEM.
int weir_fragment_table_create(uint32_t entries, uint32_t timeout_ms, uint64_t secret, int socket,
	struct weir_fragment_table **ret);
void weir_fragment_table_free(struct weir_fragment_table *table); // NULL is allowed
uint64_t weir_fragment_table_bytes(uint32_t entries);

// Find the entry of a datagram by the addresses, family and (IPv4 only) protocol of the key, and by
// the identification. Returns NULL if the first fragment has not arrived, or if the entry has
// expired or was replaced. The entry is valid until the next call to weir_fragment_enter.
struct weir_fragment_entry *weir_fragment_find(struct weir_fragment_table *table,
	const struct weir_flow_key *key, uint32_t id, uint64_t now_ns);
// Find or make the entry for a first fragment. Makes a new entry, with the ports of the key, if no
// entry exists, or if the datagram of this identification is complete. An existing entry keeps its
// ports.
struct weir_fragment_entry *weir_fragment_enter(struct weir_fragment_table *table,
	const struct weir_flow_key *key, uint32_t id, uint64_t now_ns);

// Marks a part as seen. Returns 0, -EALREADY (the whole part was already seen), -ENOSPC (too many
// holes; not marked) or -EBADMSG. -EBADMSG: only some of the part was already seen, or the part
// contradicts the end of the datagram; from now on, all fragments of the datagram are dropped.
int weir_fragment_cover(struct weir_fragment_entry *entry, const struct weir_fragment_part *part);
