// SPDX-License-Identifier: BSD-3-Clause
//
// Shared limit: the limit of a backend's active flows, counted over all workers of an instance
// (SRE book, chapter 20: the limit of a client task). Each backend has one shared word, the number
// of slots that workers hold. Called by policy.c, flow_control.c and the functions of policy.h.
//
// A slot is in use by an established flow, reserved for a handshake, or idle. A worker takes idle
// slots in slices before it chooses the backend, and gives idle slots back about every millisecond,
// or at once when it has too many idle slots or the limit was lowered. Therefore most flows begin
// and end without a write to the shared word, and one worker alone can use the whole limit.
//
// A flow that no choice has admitted takes its slot unconditionally: a flow that was spilled, that
// moved from another worker, that began before the limit was set, or whose handshake lost its
// reservation. While the word is above the limit, no worker takes another slot.
//
// A TCP flow reserves a slot with its SYN. To withstand forged SYNs, a reservation lasts for one to
// two WEIR_LIMIT_HANDSHAKE_TICKS: less than the second after which a rejected client sends its SYN
// again (RFC 6298), so that forged SYNs delay clients, and do not exclude them. If more
// reservations lapse in that time than are confirmed, and more than a quarter of the worker's share
// of the limit, the worker reserves no slots at this backend for WEIR_LIMIT_MISTRUST_TICKS, and
// then until the backend has fewer half-open flows than that quarter. Datagrams reserve no slots,
// because a flow may consist of one request and its response.
//
// Guarantees:
//   L1 A choice admits a flow only while the word, including the flow, is at most the limit.
//   L2 The word is the sum of the slots that workers hold; each worker holds at least its slots in
//      use.
//   L3 An idle slot is given back to the word after one tick and one iteration of its worker; until
//      then at most (workers - 1) * max(1, limit / (4 * workers)) slots are held idle by other
//      workers. A worker that found a backend full checks again after one tick, plus one tick per
//      128 backends of the service.
//
// Threads: words are shared by all workers (relaxed atomics: no other data depends on them); parts
// and the queue belong to the worker. No allocation, lock, clock, or division. At most
// WEIR_LIMIT_TRIES compare-and-swaps per flow.
#pragma once

#include "policy.h"

#define WEIR_LIMIT_TICK_SHIFT 20 // a tick is 2^20 ns, about a millisecond
#define WEIR_LIMIT_HANDSHAKE_TICKS 256u // about a quarter of a second
#define WEIR_LIMIT_MISTRUST_TICKS 10240u
#define WEIR_LIMIT_TRIES 8u
#define WEIR_LIMIT_STEP 32u // backends per call of weir_shared_limit_turn

// Slots of one backend that one worker holds.
struct weir_limit_part { // 28 bytes
	uint32_t held; // number of slots: in use, reserved and idle
	uint32_t reserved; // slots reserved for handshakes
	uint32_t before; // reservations that may be older than `since`
	uint32_t kept; // handshakes completed with a reservation, since `since`
	uint32_t since; // tick: start of the current interval
	uint32_t mistrust; // tick until which no slot is reserved; 0 = slots are reserved
	uint16_t next; // next backend in the queue
	uint8_t queued;
	uint8_t reserved0;
};
_Static_assert(sizeof(struct weir_limit_part) == 28, "private memory per backend and worker");

// Share limits between `workers` workers. words, parts: [worker->backend_count], zeroed, owned by
// the caller; words: one array for all workers. Call once, before any other function.
void weir_shared_limit_init(struct weir_policy_worker *worker, struct weir_limit_word *words,
	struct weir_limit_part *parts, uint32_t workers);

// Record that the backend has no slot left, until the client's next check.
void weir_shared_limit_mark_full(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);

// Check backends that were full again, if the time for a check has come. Returns whether the caller
// must update the keys of its window.
bool weir_shared_limit_look(
	const struct weir_policy_worker *worker, struct weir_policy_client *client);

// Give idle slots back and end old reservations; called once per iteration of the worker. Returns
// whether slots remain to be processed soon: the worker must then not sleep for longer than a tick.
bool weir_shared_limit_turn(struct weir_policy_worker *worker, uint64_t now_ns);
