// SPDX-License-Identifier: BSD-3-Clause
//
// Agents' steals: the requests to agents for permission to move a flow.
//
// Threads: only the event loop's thread.
#pragma once

#include "agents_requests.h"

struct weir_agents_steals;

// Create without requests. sockets, keys, counts: must outlive *ret. Returns 0 or -ENOMEM.
int weir_agents_steals_create(uv_loop_t *loop, struct weir_agents_sockets *sockets,
	const struct weir_agent_keys *keys, struct weir_agents_counts *counts,
	struct weir_agents_steals **ret);
void weir_agents_steals_on_ended(
	struct weir_agents_steals *steals, weir_agents_steal_ended ended, void *context);

// Sends an agent a request for permission to move a flow. process, clock_ms: results of
// weir_agents_prober_clock. Returns 0, -EINVAL, -EALREADY or -EBUSY: see weir_agents_request_steal.
int weir_agents_steals_request(struct weir_agents_steals *steals,
	const struct weir_agents_peer *peer, uint64_t process, uint64_t clock_ms,
	const struct weir_agents_steal *request);
// Processes an answer to a steal request, received from the address of an agent. Calls the callback
// of weir_agents_steals_on_ended if the answer is accepted.
void weir_agents_steals_take(struct weir_agents_steals *steals, const struct weir_agents_peer *peer,
	const uint8_t *bytes, size_t count);
// Returns the table of requests in flight, for weir_agents_requests_cancel and
// weir_agents_requests_unsent.
struct weir_agents_requests *weir_agents_steals_requests(struct weir_agents_steals *steals);

// Free everything. The libuv handles are closed in the next iterations of the loop. NULL is
// allowed.
void weir_agents_steals_free(struct weir_agents_steals *steals);
