// SPDX-License-Identifier: BSD-3-Clause
//
// Shared limit: the limit of a backend's active flows, counted over all workers of an instance
// (SRE book, chapter 20: the limit of a client task). Each backend has one shared word, the number
// of slots that workers hold. Called by policy.c, flow_control.c and the functions of policy.h.
//
// A slot is in use by an established flow, reserved for a handshake, or idle. A worker takes idle
// slots in slices before it chooses the backend, and gives idle ones back about every millisecond,
// or at once when there are too many or the limit has fallen. So most flows begin and end without a
// write to the shared word, and one worker alone can use the whole limit.
//
// A flow that no choice has admitted takes its slot unconditionally: one that was spilled, that
// moved here from another worker, that began before the limit, or whose handshake lost its
// reservation. The word is then above the limit, and no worker takes a slot until it has fallen.
//
// A TCP flow reserves a slot with its SYN. To withstand forged SYNs, a reservation lasts for one to
// two WEIR_LIMIT_HANDSHAKE_TICKS: less than the second after which a rejected client sends its SYN
// again (RFC 6298), so that they delay clients, and do not exclude them. When more of them lapse in
// that time than are confirmed, and more than a quarter of the worker's share of the limit, the
// worker reserves none at this backend for WEIR_LIMIT_MISTRUST_TICKS, and then until fewer flows
// than that are half-open. Datagrams reserve nothing, because a request and its response may be all
// of a flow.
//
// Guarantees:
//   L1 a choice admits a flow only while the word is at most the limit, including the flow.
//   L2 the word is the sum of what the workers hold; each holds at least the slots in use.
//   L3 an idle slot is back in the word after one tick and a turn of its worker; until then at most
//      (workers - 1) * max(1, limit / (4 * workers)) slots are held idle by others. A worker that
//      found a backend full looks again after one tick, and one more per 128 backends of the
//      service.
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

// What one worker holds of one backend.
struct weir_limit_part { // 28 bytes
	uint32_t held; // slots: in use, reserved, idle
	uint32_t reserved; // for handshakes
	uint32_t before; // reservations that may be older than `since`
	uint32_t kept; // handshakes completed with a reservation, since `since`
	uint32_t since; // tick: start of the current interval
	uint32_t mistrust; // tick until which nothing is reserved; 0 = trusted
	uint16_t next; // in the queue
	uint8_t queued;
	uint8_t reserved0;
};
_Static_assert(sizeof(struct weir_limit_part) == 28, "private memory per backend and worker");

// Share limits between `workers` workers. words, parts: [worker->backend_count], zeroed, owned by
// the caller; words are those of all workers. Call once, before any other function.
void weir_shared_limit_init(struct weir_policy_worker *worker, struct weir_limit_word *words,
	struct weir_limit_part *parts, uint32_t workers);

// Record that the backend has no slot left, until the client's next look.
void weir_shared_limit_mark_full(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);

// Look again at the backends that were full, if it is time. True: the caller updates the keys of
// its window.
bool weir_shared_limit_look(
	const struct weir_policy_worker *worker, struct weir_policy_client *client);

// Once per turn of the worker: give idle slots back, end old reservations. Returns whether it has
// more to do soon: the worker must not sleep for longer than a tick.
bool weir_shared_limit_turn(struct weir_policy_worker *worker, uint64_t now_ns);
