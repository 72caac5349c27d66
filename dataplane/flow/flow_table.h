// SPDX-License-Identifier: BSD-3-Clause
//
// Flow table: stores the chosen backend and the state of each flow. Filled, looked up and swept by
// one worker (the pipeline). Independent of services and packets.
//   flow.h         types: key, event, begin and end of a flow
//   flow_bucket.h  memory layout, and the fast path of a lookup
//   flow_insert.h  entry of new flows
//   flow_life.h    change of state, restart, removal
//   flow_expire.h  timeouts
//   flow_memory.h  memory of the buckets: private to a table, or shared by all workers
//   flow_parts.h   handover of a part of the flows from one table to another
//
// Threads: one table per worker; only that worker calls these. No locks, no allocation after
// create, no system call.
//
// Guarantees:
//   F1 keys are compared in full: two flows are never taken for one.
//   F2 memory is bounded by the parameters at creation; a full table refuses an insertion, it never
//      refuses a packet (the caller uses the Maglev fallback).
//   F3 an insertion at the limit of half-open flows may evict one of them, the oldest of its
//      buckets, or for IPv6 of the adjacent buckets if these have none; but for
//      WEIR_FLOW_HANDSHAKE_MS no flow that was entered before the table became crowded, whose
//      second packet would not go to the backend that the policy chose for the first. In a full
//      table it may evict other flows of its buckets: an ended one, then a young one, then a UDP
//      one, then an established one, of each kind the longest idle; but never an established,
//      closing or UDP flow in use, which means that it had a packet within WEIR_FLOW_IN_USE_MS.
//      When searches for these have failed WEIR_FLOW_IDLE_SEARCHES times, no more are made until
//      the next millisecond. The room of expired flows is available after the sweep has passed them
//      (F6).
//   F4 half-open flows (SYN seen, UDP seen) take at most half_open_percent of the table.
//      F5 every flow that ends (FIN, RST, timeout, eviction) is reported once, with its backend, so
//      that gauges of active flows stay exact. Its finish is also reported once.
//   F6 expiry work per call is bounded; a sweep of the whole table is finished within a second.
//   F7 the work of an insertion is bounded for all keys; without the secret an attacker cannot
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
	uint32_t flows; // IPv4 flows
	uint32_t ipv6_percent; // 1..100: room for this many IPv6 flows per 100 IPv4 flows, in
			       // addition
	uint32_t half_open_percent; // 1..100
	uint32_t timeout_ms[WEIR_FLOW_STATE_COUNT]; // by enum weir_flow_state
	int socket; // NUMA node for the memory, SOCKET_ID_ANY for any
	uint64_t hash_seed; // of the hashes passed by callers
	uint64_t secret; // random, kept secret; the same value gives the same buckets
	// Shared with the tables of other workers, which otherwise have the same parameters; must
	// outlive the table. The table then initially owns no part of it (flow_parts.h), and
	// `flows` and `ipv6_percent` are those of the memory. NULL = private memory.
	struct weir_flow_memory *memory;
	// With shared memory: callers determine the part of a flow by the hash that they pass
	// (weir_flow_hash_in_part). If false, the hash of the key does.
	bool given_parts;
};

struct weir_flow_table;

// listener is copied. Returns 0, -EINVAL, -ENOMEM. [set-up]
int weir_flow_table_create(const struct weir_flow_table_params *params,
	const struct weir_flow_listener *listener, struct weir_flow_table **ret);
void weir_flow_table_free(struct weir_flow_table *table);
// Bytes of memory of a table of `flows` with private memory; shown in docs and start-up messages.
uint64_t weir_flow_table_bytes(uint32_t flows, uint32_t ipv6_percent);
// The same for each table that shares a memory of `flows`, without that memory.
uint64_t weir_flow_table_own_bytes(uint64_t flows, uint32_t ipv6_percent);

// Find a live flow (an expired one is not found). Read only. Negative if there is none.
weir_flow_ref weir_flow_lookup(const struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, uint64_t now_ns);

// True if the table owns the part of the flows that the key belongs to (flow_parts.h).
bool weir_flow_owns_key(
	const struct weir_flow_table *table, const struct weir_flow_key *key, uint64_t hash);

// The same as weir_flow_lookup for a key of any part of the flows: finds none in a part that the
// table does not own (flow_parts.h). Packets need no check: they only arrive for owned parts.
weir_flow_ref weir_flow_lookup_owned(const struct weir_flow_table *table,
	const struct weir_flow_key *key, uint64_t hash, uint64_t now_ns);

// The backend of a found flow, its state, and the time since its last packet.
uint16_t weir_flow_backend(const struct weir_flow_table *table, weir_flow_ref flow);
enum weir_flow_state weir_flow_state(const struct weir_flow_table *table, weir_flow_ref flow);
uint32_t weir_flow_idle_ms(
	const struct weir_flow_table *table, weir_flow_ref flow, uint64_t now_ns);

uint32_t weir_flow_count(const struct weir_flow_table *table);
uint32_t weir_flow_half_open_count(const struct weir_flow_table *table);
// Flows evicted so far: half-open ones, and others that were idle (F3).
uint64_t weir_flow_evicted_count(const struct weir_flow_table *table);
uint64_t weir_flow_idle_evicted_count(const struct weir_flow_table *table);
