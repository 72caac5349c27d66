// SPDX-License-Identifier: BSD-3-Clause
//
// Shared limit: the limit of a backend's active flows, counted over all workers of an instance
// (SRE book, chapter 20: the limit of a client task). Each flow that counts uses a slot of the
// limit. Each backend has one shared word: the number of slots that all workers hold. Called by
// policy.c, flow_control.c and the functions of policy.h. The pipeline of a worker and weir-control
// (policy compare) call weir_shared_limit_init and weir_shared_limit_turn.
//
// A slot is in use by an established flow, reserved for a handshake, or idle. A worker takes idle
// slots in slices when it has chosen the backend and has no idle slot, and gives idle slots back
// about every millisecond, or immediately when it has too many idle slots or the word is above the
// limit. Therefore most flows begin and end without a write to the shared word, and one worker
// alone can use the whole limit.
//
// Some flows have no slot yet when they need one: flows that were spilled, that moved from another
// worker, that began before the limit was set or with a datagram, or that have no reservation (any
// more). Such flows take a slot even above the limit. While the word is above the limit, workers
// take no slots for other flows.
//
// A TCP flow reserves an idle slot with its SYN. Forged SYNs reserve slots, too. Therefore a
// reservation lasts only for one to two WEIR_LIMIT_HANDSHAKE_TICKS. A rejected client sends its
// SYN again after a second (RFC 6298), when these reservations have ended. Therefore forged SYNs
// delay clients, but do not exclude them. The worker counts the reservations that expire without
// a completed handshake. The worker stops reserving slots of a backend if this number is higher
// than the number of completed handshakes in the same interval, and higher than a quarter of the
// worker's share of the limit. The pause lasts for WEIR_LIMIT_MISTRUST_TICKS. It is repeated if the
// backend then has more half-open flows than a quarter of the worker's share of the limit.
// Datagrams reserve no slots, because a flow may consist of one request and its response.
//
// Guarantees:
//   L1 A choice admits a flow, other than a spilled flow, only if the word, including the slot of
//      this flow, was at most the limit when the worker read it.
//   L2 The word is the sum of the slots that workers hold; each worker holds at least its slots in
//      use.
//   L3 A worker gives an idle slot back within one tick and one iteration, or more iterations if
//      its queue has more than WEIR_LIMIT_STEP backends. Until then, the other workers hold at
//      most (workers - 1) * max(1, limit / (4 * workers)) idle slots. A worker that found a
//      backend full checks the backend again after one tick, plus one tick per 128 candidates of
//      the service.
//
// Threads: words are shared by all workers (relaxed atomics: no other data depends on them); parts
// and the queue belong to the worker. No allocation, lock, clock, or division. At most
// WEIR_LIMIT_TRIES compare-and-swaps for each backend that a choice tries.
#pragma once

#include "policy.h"

#define WEIR_LIMIT_TICK_SHIFT 20 // a tick is 2^20 ns, about a millisecond
// About a quarter of a second: the length of an interval of reservations.
#define WEIR_LIMIT_HANDSHAKE_TICKS 256u
#define WEIR_LIMIT_MISTRUST_TICKS 10240u
#define WEIR_LIMIT_TRIES 8u
#define WEIR_LIMIT_STEP 32u // maximum number of backends per call to weir_shared_limit_turn

// The slots of one backend that one worker holds.
struct weir_limit_part { // 28 bytes
	uint32_t held; // number of slots: in use, reserved and idle
	uint32_t reserved; // slots reserved for handshakes
	uint32_t before; // number of reservations that may be older than `since`
	uint32_t kept; // number of handshakes with a reservation that were completed since `since`
	uint32_t since; // tick at the start of the current interval
	uint32_t mistrust; // no slots are reserved until this tick; 0 = slots are reserved
	uint16_t next; // next backend in the queue
	uint8_t queued;
	uint8_t reserved0;
};
_Static_assert(sizeof(struct weir_limit_part) == 28, "bytes of memory per backend and worker");

// Share limits between `workers` workers. words, parts: [worker->backend_count], zeroed at first,
// owned by the caller; words: the same array for all workers. Call once, before any other function.
void weir_shared_limit_init(struct weir_policy_worker *worker, struct weir_limit_word *words,
	struct weir_limit_part *parts, uint32_t workers);

// Record that the backend has no slot left, until the client's next check.
void weir_shared_limit_mark_full(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);

// If it is time to check full backends, allows the policy to choose these backends again, and
// returns true. The caller must then recompute the keys of its windows.
bool weir_shared_limit_look(
	const struct weir_policy_worker *worker, struct weir_policy_client *client);

// Gives idle slots back and ends old reservations. Call once per iteration of the worker, at least
// once per tick. Returns true if backends of this tick remain to be processed: call again soon.
bool weir_shared_limit_turn(struct weir_policy_worker *worker, uint64_t now_ns);
