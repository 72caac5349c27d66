// SPDX-License-Identifier: BSD-3-Clause
//
// Flow table: remembers the backend chosen for a flow, and where the flow stands.
// Filled, looked up and swept by one worker (pipeline.c). Knows nothing of services or packets.
// flow_bucket.h has the memory layout, and the fast half of a look-up.
//
// Threads: one table per worker; only that worker calls these. No locks, no allocation after
// create, no system call.
//
// Guarantees:
//   F1 keys are compared in full: two flows are never taken for one.
//   F2 memory is bounded by what was given at creation; a full table refuses an insertion, it
//      never refuses a packet (the caller falls back to the consistent choice).
//   F3 an insertion may evict a half-open flow (SYN seen), the oldest of its buckets, or for IPv6
//      of the buckets beside them when these have none; never an established, closing or UDP flow
//      that is still alive. The room of expired ones is there when the sweep has come by (F6).
//   F4 flows in state SYN seen take at most half_open_percent of the table.
//   F5 every flow that ends (FIN, RST, timeout, eviction) is reported once, with its backend, so
//      that gauges of active flows stay exact. So is the moment when it finishes its work.
//   F6 expiry work per call is bounded; a sweep of the whole table is finished within a second.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "flow_state.h"
#include "policy.h"

// Why a flow ended.
enum weir_flow_end {
	WEIR_FLOW_END_COMPLETED, // FIN seen, then closing timeout or the final RST
	WEIR_FLOW_END_REFUSED, // RST
	WEIR_FLOW_END_TIMED_OUT, // idle for the timeout of its state
	WEIR_FLOW_END_EVICTED, // half-open, made room for a newer one
};

// What a packet tells about its flow. Only the client's half is seen in direct-return modes, and
// the states are right with that half alone:
//   SYN        -> SYN seen (a new flow; also from closing: the client reuses its port)
//   DATA       SYN seen -> established; closing after RST -> established (the RST was not real)
//   FIN        -> closing; further DATA keeps it there and refreshes it (half-closed download)
//   RST        -> closing
//   DATAGRAM   UDP: refreshes
enum weir_flow_event {
	WEIR_FLOW_EVENT_SYN,
	WEIR_FLOW_EVENT_DATA,
	WEIR_FLOW_EVENT_FIN,
	WEIR_FLOW_EVENT_RST,
	WEIR_FLOW_EVENT_DATAGRAM,
};
#define WEIR_FLOW_EVENTS 5u

// Addresses and ports as in the packet (network order). IPv4: first 4 bytes, rest 0.
struct weir_flow_key {
	uint8_t source[16];
	uint8_t destination[16];
	uint16_t source_port;
	uint16_t destination_port;
	uint8_t family; // 4 or 6
	uint8_t protocol;
};

#define WEIR_FLOW_IPV6_SHARE 4u // a table holds one IPv6 flow for so many IPv4 flows, besides them

struct weir_flow_table_params {
	uint32_t flows; // IPv4 flows
	uint32_t half_open_percent; // 1..100
	uint32_t timeout_ms[4]; // by enum weir_flow_state
	int socket; // NUMA node for the memory, SOCKET_ID_ANY for any
	uint64_t hash_seed; // of the hashes that callers give
};

#define WEIR_OUTCOME_KNOWN (-1) // the flow had finished before

// Whom to tell (F5). Called from inside advance, insert, restart, remove and sweep; must be short.
struct weir_flow_listener {
	// The flow has finished its work by its first FIN or RST. At most once per flow, before
	// ended. service_ns of one that completed: from its first packet on; 0 = not measured.
	void (*finished)(
		void *context, uint16_t backend, enum weir_outcome outcome, uint64_t service_ns);
	// It had not: data came after a RST, which was forged. finished will be called again.
	void (*resumed)(void *context, uint16_t backend);
	// The flow is gone from the table. outcome: an enum weir_outcome when it finishes by that
	// (service_ns: to its last packet), WEIR_OUTCOME_KNOWN when it had finished before.
	void (*ended)(void *context, uint16_t backend, enum weir_flow_end end, int outcome,
		uint64_t service_ns);
	void *context;
};

struct weir_flow_table;

// A flow found in the table. Valid until the next insert or sweep.
typedef int64_t weir_flow_ref; // negative: not found

// listener is copied. Returns 0, -EINVAL, -ENOMEM. [set-up]
int weir_flow_table_create(const struct weir_flow_table_params *params,
	const struct weir_flow_listener *listener, struct weir_flow_table **ret);
void weir_flow_table_free(struct weir_flow_table *table);
// Bytes of memory that a table of `flows` takes; docs and start-up messages quote it.
uint64_t weir_flow_table_bytes(uint32_t flows);

// Find a live flow (an expired one is not found). Read only. Negative when there is none.
weir_flow_ref weir_flow_lookup(const struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, uint64_t now_ns);

// The backend of a found flow, its state, and when its last packet came (ms before now).
uint16_t weir_flow_backend(const struct weir_flow_table *table, weir_flow_ref flow);
enum weir_flow_state weir_flow_state(const struct weir_flow_table *table, weir_flow_ref flow);
uint32_t weir_flow_idle_ms(
	const struct weir_flow_table *table, weir_flow_ref flow, uint64_t now_ns);

// A packet of a found flow came: advance its state, refresh its time.
// Returns true when the event starts a new flow in the place of the old (SYN in closing): the
// caller then chooses anew and calls weir_flow_restart.
bool weir_flow_advance(struct weir_flow_table *table, weir_flow_ref flow,
	enum weir_flow_event event, uint64_t now_ns);

// A new flow, for weir_flow_insert and weir_flow_restart. One that begins by FIN or RST has
// finished from the start: that is not reported.
struct weir_flow_start {
	uint64_t now_ns;
	enum weir_flow_event event;
	uint16_t backend;
	bool joined; // event SYN: it is half-open, but began in mid-flow, so its end is no error
	bool measured; // remember when it began, to tell the service time
	bool absent; // weir_flow_absent said so since the last insertion of this key (insert only)
};

// Give a found flow to another backend: its old backend is gone (end: EVICTED), or the flow is a
// new one in the same place (end: COMPLETED; reported as its state says, so REFUSED after an RST).
void weir_flow_restart(struct weir_flow_table *table, weir_flow_ref flow,
	const struct weir_flow_start *start, enum weir_flow_end end);

// End a found flow: its backend is gone and there is no other.
void weir_flow_remove(
	struct weir_flow_table *table, weir_flow_ref flow, enum weir_flow_end end, uint64_t now_ns);

// Enter a new flow. The key must not be in the table (look up first).
// Returns the flow, or -ENOSPC (table full, half-open limit with nothing to evict, or more
// different IPv6 destinations than WEIR_FLOW_DESTINATIONS_MAX): the caller goes on without an
// entry.
weir_flow_ref weir_flow_insert(struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, const struct weir_flow_start *start);

// Expire what is due: a bounded piece of the table per call (F6). Call once per poll loop.
// Returns true when more is due: call again soon, do not sleep.
bool weir_flow_sweep(struct weir_flow_table *table, uint64_t now_ns);

uint32_t weir_flow_count(const struct weir_flow_table *table);
uint32_t weir_flow_half_open_count(const struct weir_flow_table *table);
uint64_t weir_flow_evicted_count(const struct weir_flow_table *table);
