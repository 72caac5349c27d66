// SPDX-License-Identifier: BSD-3-Clause
//
// Affinity: stores the backend of each source of a service, so that new flows of the source go to
// the same backend. A source is a client address, or a prefix. All workers use one table.
//
// The table has buckets of WEIR_AFFINITY_WAYS entries, one cache line each. The hash of a source
// selects the bucket. An entry is one word, which workers read and replace with atomic instructions
// and without waiting. Two sources with the same bucket and the same tag (26 bits of the hash)
// share an entry, which is harmless.
//
// An entry is *proven* if a TCP flow of its source was established: after the first packet of the
// flow, usually a SYN, a packet of the flow other than a SYN has arrived. A new entry replaces a
// free, expired or unproven entry, never a proven entry that has not expired, so that forged
// sources cannot displace the sources of TCP clients. Replies of backends do not pass through the
// balancer, so an attacker who sends two packets with a forged source also makes the entry of the
// source proven. If the table is full of such entries, no further sources get entries until entries
// expire.
//
// Threads: any number of workers, at the same time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hash.h"

#define WEIR_AFFINITY_WAYS 8u
#define WEIR_AFFINITY_NONE 0xffffu // value of a backend id: "no backend"

struct weir_affinity {
	uint64_t secret; // prevents attackers from choosing sources that share a bucket
	uint32_t buckets;
	uint32_t swept; // bucket that is swept next; written by one worker
	uint64_t entries[] __attribute__((aligned(64)));
};

// Creates a table for `entries` sources, rounded up to a multiple of WEIR_AFFINITY_WAYS. secret: a
// random number, combined with the hash of each source. socket: NUMA node of the memory,
// SOCKET_ID_ANY for any. Returns 0, -EINVAL (no entries) or -ENOMEM. [set-up]
int weir_affinity_create(uint32_t entries, uint64_t secret, int socket, struct weir_affinity **ret);
void weir_affinity_free(struct weir_affinity *table); // NULL is allowed
uint64_t weir_affinity_bytes(uint32_t entries);

// Returns the hash of a source for the functions below. source: hash of the address or prefix.
static inline uint64_t weir_affinity_hash(
	const struct weir_affinity *table, uint16_t service, uint64_t source) {
	return weir_hash_mix(source ^ 0x9e3779b97f4a7c15ull,
		table->secret ^ (uint64_t)service * 0xd1342543de82ef95ull);
}

// Returns the backend of a source, or WEIR_AFFINITY_NONE. [worker]
uint16_t weir_affinity_find(const struct weir_affinity *table, uint64_t hash, uint64_t now_ns);

// Stores the backend of a source until timeout_ms (at most 5 days) from now, or at most 1.1 s
// longer. stale: if the entry of the source has this backend, `backend` replaces it;
// WEIR_AFFINITY_NONE = the entry keeps its backend. proven: mark the entry as proven. Returns the
// backend of the source, which differs from `backend` if the source already has an entry with
// another backend, for example an entry that another worker has inserted at the same time. Returns
// WEIR_AFFINITY_NONE if there is no room, or if other workers change the bucket repeatedly during
// the call. [worker]
uint16_t weir_affinity_enter(struct weir_affinity *table, uint64_t hash, uint16_t backend,
	uint16_t stale, bool proven, uint32_t timeout_ms, uint64_t now_ns);

// The values of an entry at the time of the call.
struct weir_affinity_entry {
	uint16_t backend;
	bool proven;
	uint32_t left_ms; // time until the entry expires; accurate to 0.6 s
};

// Reads the entry of a source. Returns false if there is none. [worker]
bool weir_affinity_read(const struct weir_affinity *table, uint64_t hash, uint64_t now_ns,
	struct weir_affinity_entry *ret);
// Removes the entry of a source; *ret is the removed entry. backend: remove the entry only if it
// has this backend; WEIR_AFFINITY_NONE = any. Returns false if there is no such entry, or if other
// workers change the entry repeatedly during the call. Another worker may enter the source again at
// any time. [worker]
bool weir_affinity_remove(struct weir_affinity *table, uint64_t hash, uint16_t backend,
	uint64_t now_ns, struct weir_affinity_entry *ret);

// Reads into ret the entries of a bucket (below table->buckets) that have not expired. Returns the
// number of these entries. [worker]
uint32_t weir_affinity_read_bucket(const struct weir_affinity *table, uint32_t bucket,
	uint64_t now_ns, struct weir_affinity_entry ret[WEIR_AFFINITY_WAYS]);
// Removes the entries of a bucket whose backend matches. Entries that change during the call stay.
// Returns the number of removed entries that had not expired. [worker]
uint32_t weir_affinity_clear_bucket(struct weir_affinity *table, uint32_t bucket, uint64_t now_ns,
	bool (*matches)(const void *context, uint16_t backend), const void *context);

// Removes expired entries from some buckets. Times wrap: without the sweep, an entry would become
// valid again 6.5 days after its expiry. Call every second or more often, from one worker. [worker]
void weir_affinity_sweep(struct weir_affinity *table, uint64_t now_ns);
