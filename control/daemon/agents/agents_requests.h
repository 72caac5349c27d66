// SPDX-License-Identifier: BSD-3-Clause
//
// Agents' requests: the requests of one kind that are in flight to agents, in a table of fixed
// size. A timer sends the requests, so that weir_agents_requests_add does not call any callback.
// The timer also ends a request at its deadline, if no answer has ended the request before.
//
// Threads: only the event loop's thread.
#pragma once

#include "agents_prober.h"

struct weir_agents_requests;

struct weir_agents_requests_of { // pointers are borrowed
	uv_loop_t *loop;
	struct weir_agents_sockets *sockets;
	const struct weir_agent_keys *keys;
	uint32_t most; // maximum number of requests in flight
	// A request is sent again after this time. 0 = a request is sent once, and ends immediately
	// if it cannot be sent.
	uint32_t again_ms;
	// Writes the datagram of the request in a slot.
	void (*encode)(void *context, uint32_t slot, const struct weir_agent_key *key,
		uint8_t to[WEIR_AGENT_MESSAGE_BYTES]);
	// Called when a request has ended without a final answer: at its deadline, because it could
	// not be sent (only if again_ms is 0), or because it was cancelled. Must call
	// weir_agents_requests_remove.
	void (*over)(void *context, uint32_t slot);
	void *context;
};

struct weir_agents_request { // identifies a request; its answer has the same values
	uint64_t balancer, agent; // random IDs of the sending and of the receiving process
	uint64_t id; // set by weir_agents_requests_add
};

// Create a table for requests of one kind. of: copied. Returns 0 or -ENOMEM.
int weir_agents_requests_create(
	const struct weir_agents_requests_of *of, struct weir_agents_requests **ret);
// Free the table. The libuv handles are closed in the next iterations of the loop. NULL is allowed.
void weir_agents_requests_free(struct weir_agents_requests *requests);

// Add a request, which is sent in the next iteration of the loop. peer: copied; each agent address
// has its own peer->balancer, by which the table distinguishes the agents. duration_ms: time until
// the deadline. *request: request->id is set to the next id; ids are never reused. Returns the
// slot, from 0 to `most` - 1, or -EBUSY (no free slot).
int weir_agents_requests_add(struct weir_agents_requests *requests,
	const struct weir_agents_peer *peer, struct weir_agents_request *request,
	uint32_t duration_ms);
// Returns the slot of a request that was sent or could not be sent, or -ENOENT. A request whose
// deadline has passed keeps its slot until the next iteration of the loop.
int weir_agents_requests_find(
	const struct weir_agents_requests *requests, const struct weir_agents_request *request);
bool weir_agents_requests_is_used(const struct weir_agents_requests *requests, uint32_t slot);
// Returns whether the deadline of the request in this slot has passed, or the request was cancelled
// or has ended because it could not be sent.
bool weir_agents_requests_is_late(const struct weir_agents_requests *requests, uint32_t slot);
// Frees the slot of a request; no callback is called. Returns the time in ms since the request was
// added. Call this function before the callback that reports the result, because that callback may
// add another request.
uint32_t weir_agents_requests_remove(struct weir_agents_requests *requests, uint32_t slot);

// Call this function when a datagram with this owner could not be sent. Returns false if the
// datagram does not belong to one of these requests.
bool weir_agents_requests_unsent(struct weir_agents_requests *requests, const void *owner);
// Call this function when an agent is no longer configured. The requests to this agent end in the
// next iteration of the loop.
void weir_agents_requests_cancel(
	struct weir_agents_requests *requests, const struct weir_agents_peer *peer);
