// SPDX-License-Identifier: BSD-3-Clause
#include "shed_orders.h"

#define MS_US 1000u

struct weir_agent_shed_answer weir_shed_answer_begin(
	const struct weir_agent_shed *order, enum weir_agent_shed_result result) {
	return (struct weir_agent_shed_answer){.agent = order->agent,
		.balancer = order->balancer,
		.id = order->id,
		.result = (uint8_t)result};
}

// Returns the entry of an order, or NULL. *newer: set to true if the balancer has already sent an
// order with a higher ID; otherwise unchanged.
static struct weir_shed_order *find(
	struct weir_shed_orders *orders, const struct weir_agent_shed *order, bool *newer) {
	struct weir_shed_order *found = NULL;

	for (uint32_t i = 0; i < WEIR_SHED_ORDERS; i++) {
		struct weir_shed_order *entry = &orders->entry[i];

		if (entry->order.id == 0 || entry->order.balancer != order->balancer) {
			continue;
		}
		*newer |= entry->order.id > order->id;
		if (entry->order.id == order->id) {
			found = entry;
		}
	}
	return found;
}

// Returns an entry that can be used for a new order: an unused entry, or else, except the active
// order, the entry with the earliest deadline that has passed. Returns NULL if there is none: an
// entry is kept at least until its deadline, because the balancer can repeat the order until then.
static struct weir_shed_order *find_room(struct weir_shed_orders *orders, uint64_t clock_ms) {
	struct weir_shed_order *room = NULL;

	for (uint32_t i = 0; i < WEIR_SHED_ORDERS; i++) {
		struct weir_shed_order *entry = &orders->entry[i];

		if (entry->order.id == 0) {
			return entry;
		}
		if (entry != orders->active && entry->order.deadline_ms <= clock_ms &&
			(room == NULL || entry->order.deadline_ms < room->order.deadline_ms)) {
			room = entry;
		}
	}
	return room;
}

enum weir_shed_verdict weir_shed_orders_take(struct weir_shed_orders *orders,
	const struct weir_agent_shed *order, uint64_t agent, uint64_t clock_ms,
	struct weir_shed_order **ret, enum weir_agent_refusal *refusal) {
	bool newer = false;
	struct weir_shed_order *entry = find(orders, order, &newer);

	if (order->agent != agent) {
		*refusal = WEIR_AGENT_REFUSAL_AGENT;
		return WEIR_SHED_REFUSED;
	}
	if (entry != NULL) {
		*ret = entry;
		return WEIR_SHED_KNOWN;
	}
	if (newer) {
		*refusal = WEIR_AGENT_REFUSAL_REPLAY;
		return WEIR_SHED_REFUSED;
	}
	if (order->deadline_ms <= clock_ms) {
		return WEIR_SHED_LATE;
	}
	if (order->deadline_ms - clock_ms > WEIR_SHED_AHEAD_MS) {
		*refusal = WEIR_AGENT_REFUSAL_VALUE;
		return WEIR_SHED_REFUSED;
	}
	entry = find_room(orders, clock_ms);
	if (entry == NULL) {
		*refusal = WEIR_AGENT_REFUSAL_RATE;
		return WEIR_SHED_REFUSED;
	}
	*ret = entry;
	*entry = (struct weir_shed_order){.order = *order,
		.answer = weir_shed_answer_begin(order,
			orders->active == NULL ? WEIR_AGENT_SHED_ACTIVE : WEIR_AGENT_SHED_BUSY)};
	if (orders->active != NULL) {
		return WEIR_SHED_KNOWN;
	}
	orders->active = entry;
	return WEIR_SHED_NEW;
}

// --- rate limit ---------------------------------------------------------------------------

// Returns the time between two tokens, in microseconds, rounded up so that the rate of the order is
// not exceeded. One connection may be ended for each token.
static uint64_t interval_us(const struct weir_agent_shed *order) {
	return (UINT64_C(1000000000) + order->rate_milli_per_s - 1) / order->rate_milli_per_s;
}

// Returns the time of the oldest token in the bucket; if the bucket is empty, the time of the next
// token. The bucket holds the tokens of the last burst_ms, or one token if burst_ms is shorter than
// the interval between two tokens.
static uint64_t first_us(
	const struct weir_shed_orders *orders, uint64_t clock_ms, uint32_t burst_ms) {
	uint64_t one_us = interval_us(&orders->active->order), now_us = clock_ms * MS_US;
	uint64_t burst_us = burst_ms * (uint64_t)MS_US;
	uint64_t back_us = burst_us > one_us ? burst_us - one_us : 0;
	uint64_t least_us = now_us > back_us ? now_us - back_us : 0;

	return orders->next_us > least_us ? orders->next_us : least_us;
}

uint32_t weir_shed_orders_allowance(
	const struct weir_shed_orders *orders, uint64_t clock_ms, uint32_t burst_ms) {
	const struct weir_shed_order *active = orders->active;
	uint64_t first, tokens, left;

	if (active == NULL || weir_shed_orders_is_over(orders, clock_ms)) {
		return 0;
	}
	first = first_us(orders, clock_ms, burst_ms);
	if (first > clock_ms * MS_US) {
		return 0;
	}
	left = active->order.count - active->answer.ended;
	tokens = (clock_ms * MS_US - first) / interval_us(&active->order) + 1;
	return (uint32_t)(tokens < left ? tokens : left);
}

void weir_shed_orders_spend(
	struct weir_shed_orders *orders, uint32_t ended, uint64_t clock_ms, uint32_t burst_ms) {
	if (orders->active != NULL && ended > 0) {
		orders->active->answer.ended += ended;
		orders->next_us = first_us(orders, clock_ms, burst_ms) +
				  ended * interval_us(&orders->active->order);
	}
}

bool weir_shed_orders_is_over(const struct weir_shed_orders *orders, uint64_t clock_ms) {
	const struct weir_shed_order *active = orders->active;

	return active != NULL && (active->answer.ended >= active->order.count ||
					 active->order.deadline_ms <= clock_ms);
}

void weir_shed_orders_end(struct weir_shed_orders *orders, enum weir_agent_shed_result result) {
	if (orders->active != NULL) {
		orders->active->answer.result = (uint8_t)result;
		orders->active = NULL;
	}
}
