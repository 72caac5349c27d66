// SPDX-License-Identifier: BSD-3-Clause
//
// Shed orders: the accepted orders to end connections, and their progress. An order is carried out
// once. If the same order arrives again, its answer is sent again. An entry is kept at least until
// the deadline of its order. An order that has no entry and arrives after its deadline is answered
// LATE. Only one order is carried out at a time. Another order that arrives meanwhile is answered
// BUSY, and is never carried out: its balancer can then assume that the order has ended no
// connection. A token bucket for all orders together limits the rate.
//
// Guarantees:
//   R1 an order ends at most `count` connections, regardless of how often and in which sequence
//      this order and other orders arrive.
//   R2 after its deadline an order ends no connection.
//   R3 in any period, all orders together end at most the number of connections that the rates of
//      the orders permit, plus one burst.
//
// Threads: one. Uses no clock and no socket.
#pragma once

#include <stdbool.h>

#include "agent_message.h"

#define WEIR_SHED_ORDERS 64
#define WEIR_SHED_AHEAD_MS WEIR_AGENT_STEAL_AHEAD_MS // maximum time from now until a deadline

struct weir_shed_order {
	struct weir_agent_shed order; // order.id 0 = unused entry
	struct weir_agent_shed_answer answer;
	bool looked; // the numbers of connections in the answer are known
};

struct weir_shed_orders { // zeroed = no order
	struct weir_shed_order entry[WEIR_SHED_ORDERS];
	struct weir_shed_order *active; // order that is being carried out; NULL = none
	uint64_t next_us; // token bucket: time from which the next connection may be ended
};

enum weir_shed_verdict {
	WEIR_SHED_NEW, // carry out the order, which is now the active order
	// The order has arrived before, or arrived while another order was in progress. Send the
	// answer in the entry, unless the order is the active order and `looked` is false.
	WEIR_SHED_KNOWN,
	WEIR_SHED_LATE, // answer LATE; the order is not stored
	WEIR_SHED_REFUSED, // the order gets no answer; *refusal has the reason
};

// Classify an authentic order. agent: the random number that identifies this process. clock_ms: the
// monotonic clock of answers. *ret: with NEW and KNOWN, the entry of the order. *refusal: with
// REFUSED, the reason: AGENT (the order is for another process), VALUE (the deadline is too far
// ahead), REPLAY (the balancer has sent a newer order) or RATE (no entry is free).
enum weir_shed_verdict weir_shed_orders_take(struct weir_shed_orders *orders,
	const struct weir_agent_shed *order, uint64_t agent, uint64_t clock_ms,
	struct weir_shed_order **ret, enum weir_agent_refusal *refusal);

// Returns how many connections the active order may end now; 0 if there is no active order.
// burst_ms: size of the token bucket, given as the time that fills it. The bucket has room for at
// least one token.
uint32_t weir_shed_orders_allowance(
	const struct weir_shed_orders *orders, uint64_t clock_ms, uint32_t burst_ms);
// Count connections that the active order has ended. Each connection uses one token. ended: at most
// the allowance.
void weir_shed_orders_spend(
	struct weir_shed_orders *orders, uint32_t ended, uint64_t clock_ms, uint32_t burst_ms);
// Returns whether the active order is over: its count or its deadline is reached.
bool weir_shed_orders_is_over(const struct weir_shed_orders *orders, uint64_t clock_ms);
// End the active order with this result.
void weir_shed_orders_end(struct weir_shed_orders *orders, enum weir_agent_shed_result result);

// Begin the answer to an order: set the result, and copy the fields of the order that an answer
// repeats.
struct weir_agent_shed_answer weir_shed_answer_begin(
	const struct weir_agent_shed *order, enum weir_agent_shed_result result);
