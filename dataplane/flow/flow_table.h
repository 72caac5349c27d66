// SPDX-License-Identifier: BSD-3-Clause
//
// Flow table: stores the chosen backend and the state of each flow. One worker (its pipeline)
// inserts, looks up and expires the flows. Independent of services and packets.
//   flow.h         types: key, begin and end of a flow
//   flow_bucket.h  memory layout, and the fast path of a lookup
//   flow_insert.h  insertion of new flows
//   flow_life.h    state changes, restart, removal
//   flow_expire.h  timeouts
//   flow_memory.h  memory of the buckets: private to a table, or shared by all workers
//   flow_parts.h   hands over a part of the flows from one table to another
//   flow_walk.h    iteration over the flows, and flow_waiting.h: search for waiting flows
//
// Threads: one table per worker; only that worker calls these functions. No locks, no allocation
// after create, no system call.
//
// Guarantees:
//   F1 Keys are compared in full: two flows are never mistaken for one flow.
//   F2 Memory is bounded by the parameters at creation; in a full table an insertion may fail, but
//      the packet is still forwarded (the caller uses the Maglev fallback).
//   F3 An insertion at the limit of half-open flows, into a full table or into full buckets may
//      evict a half-open flow: of the two buckets, the half-open flow that has been idle longest.
//      For IPv6, if the two buckets have no half-open flow but a free slot, the adjacent buckets
//      are used.
//      A half-open flow that was inserted before the table became crowded is not evicted for
//      WEIR_FLOW_HANDSHAKE_MS: without its entry, the second packet would not go to the backend
//      that the policy chose for the first packet.
//      In a full table or full buckets, an insertion may also evict the longest idle flow of its
//      buckets: first an ended flow or a flow in phase WAITING, then a young flow, then a UDP flow,
//      then an established flow. An insertion never evicts an established, closing, reset or UDP
//      flow that had a packet in the last WEIR_FLOW_IN_USE_MS. After WEIR_FLOW_IDLE_SEARCHES failed
//      searches for idle flows, no search is made until the next millisecond.
//      The slot of an expired flow becomes free at the latest when the sweep reaches the flow (F6).
//   F4 No insertion makes the half-open flows of a family (phases SYN seen, joined, moved, UDP
//      seen) more than half_open_percent of the family's capacity.
//   F5 Every flow that ends (FIN, RST, timeout, eviction) is reported once, with its backend, so
//      that gauges of active flows stay exact. A FIN or RST that finishes an open flow is also
//      reported.
//   F6 Expiry work per call is bounded; if weir_flow_sweep is called often enough, a sweep of the
//      whole table is finished within a second.
//   F7 The work of an insertion is bounded for all keys; without the secret, an attacker cannot
//      choose keys that share a bucket.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "flow.h"
#include "flow_state.h"

#define WEIR_FLOW_IN_USE_MS 5000u
#define WEIR_FLOW_HANDSHAKE_MS 1000u
#define WEIR_FLOW_IPV6_PERCENT 25u // default of ipv6_percent
#define WEIR_FLOW_IPV6_PERCENT_MAX 100u

struct weir_flow_table_params {
	uint32_t flows; // maximum number of IPv4 flows, 1 to 2^28 with private memory
	uint32_t ipv6_percent; // 1..100: additional IPv6 flows per 100 IPv4 flows
	uint32_t half_open_percent; // 1..100: maximum percentage of half-open flows (F4)
	uint32_t timeout_ms[WEIR_FLOW_STATE_COUNT]; // index: enum weir_flow_state
	int socket; // NUMA node for the memory, SOCKET_ID_ANY for any
	uint64_t hash_seed; // seed of the hashes passed by callers
	// Random and secret. Tables with equal secrets use the same buckets for a flow.
	uint64_t secret;
	// Memory shared with the tables of other workers, which have equal parameters; must outlive
	// the table. The table then initially owns no part of the memory (flow_parts.h), and
	// `flows` and `ipv6_percent` do not determine its size. NULL = private memory.
	struct weir_flow_memory *memory;
	// Only with shared memory. True: callers pass hashes that determine the part of the flow
	// (weir_flow_hash_in_part). False: the hash of the key determines the part.
	bool given_parts;
};

struct weir_flow_table;

// Create a table. listener is copied; only its `belongs` may be NULL. Returns 0, -EINVAL, -ENOMEM.
// [set-up]
int weir_flow_table_create(const struct weir_flow_table_params *params,
	const struct weir_flow_listener *listener, struct weir_flow_table **ret);
void weir_flow_table_free(struct weir_flow_table *table); // NULL is allowed
// Returns the size in bytes of a table with private memory for `flows` IPv4 flows, and ipv6_percent
// IPv6 flows per 100 IPv4 flows.
uint64_t weir_flow_table_bytes(uint32_t flows, uint32_t ipv6_percent);
// Returns the size in bytes of a table that uses shared memory, without this memory. flows,
// ipv6_percent: the parameters of the shared memory.
uint64_t weir_flow_table_own_bytes(uint64_t flows, uint32_t ipv6_percent);

// Find a live flow (an expired flow is not found). Read only. Returns a negative number if no flow
// is found.
weir_flow_ref weir_flow_lookup(const struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, uint64_t now_ns);

// Returns true if the table owns the part of the flows that the key belongs to (flow_parts.h).
bool weir_flow_owns_key(
	const struct weir_flow_table *table, const struct weir_flow_key *key, uint64_t hash);

// Find a live flow whose key may be in a part that the table does not own (flow_parts.h). Returns a
// negative number if the table does not own the part, or has no such flow. Not needed for packets,
// which arrive only for owned parts: use weir_flow_lookup.
weir_flow_ref weir_flow_lookup_owned(const struct weir_flow_table *table,
	const struct weir_flow_key *key, uint64_t hash, uint64_t now_ns);

// The next three functions return the backend of a found flow, its state, and the time since its
// last packet in milliseconds.
uint16_t weir_flow_backend(const struct weir_flow_table *table, weir_flow_ref flow);
enum weir_flow_state weir_flow_state(const struct weir_flow_table *table, weir_flow_ref flow);
uint32_t weir_flow_idle_ms(
	const struct weir_flow_table *table, weir_flow_ref flow, uint64_t now_ns);

uint32_t weir_flow_count(const struct weir_flow_table *table);
uint32_t weir_flow_half_open_count(const struct weir_flow_table *table);
// The next two functions return the number of flows evicted so far: half-open flows, and other idle
// flows (F3).
uint64_t weir_flow_evicted_count(const struct weir_flow_table *table);
uint64_t weir_flow_idle_evicted_count(const struct weir_flow_table *table);
