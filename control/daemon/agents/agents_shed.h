// SPDX-License-Identifier: BSD-3-Clause
//
// Agents' sheds: the orders to agents to end connections. An order is sent repeatedly until an
// answer reports that the order is over, or until WEIR_AGENTS_SHED_LATE_MS after its deadline.
//
// Threads: only the event loop's thread.
#pragma once

#include "agents_requests.h"

struct weir_agents_sheds;

// Create without orders. sockets, keys, counts: must outlive *ret. Returns 0 or -ENOMEM.
int weir_agents_sheds_create(uv_loop_t *loop, struct weir_agents_sockets *sockets,
	const struct weir_agent_keys *keys, struct weir_agents_counts *counts,
	struct weir_agents_sheds **ret);
void weir_agents_sheds_on_ended(
	struct weir_agents_sheds *sheds, weir_agents_shed_ended ended, void *context);

// Orders an agent to end connections. process, clock_ms: results of weir_agents_prober_clock.
// Returns 0, -EINVAL, -EALREADY or -EBUSY: see weir_agents_order_shed.
int weir_agents_sheds_order(struct weir_agents_sheds *sheds, const struct weir_agents_peer *peer,
	uint64_t process, uint64_t clock_ms, const struct weir_agents_shed *order);
// Processes an answer to an order, received from the address of an agent. Calls the callback of
// weir_agents_sheds_on_ended if the order has ended.
void weir_agents_sheds_take(struct weir_agents_sheds *sheds, const struct weir_agents_peer *peer,
	const uint8_t *bytes, size_t count);
// Returns the table of orders in flight, for weir_agents_requests_cancel and
// weir_agents_requests_unsent.
struct weir_agents_requests *weir_agents_sheds_requests(struct weir_agents_sheds *sheds);

// Free everything. The libuv handles are closed in the next iterations of the loop. NULL is
// allowed.
void weir_agents_sheds_free(struct weir_agents_sheds *sheds);
