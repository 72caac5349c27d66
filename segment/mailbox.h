// SPDX-License-Identifier: BSD-3-Clause
//
// Mailboxes: requests of control to a worker, and the responses. One ring each way per worker,
// single producer and single consumer, never blocking. A worker responds to at most one request per
// turn of its poll loop.
#pragma once

#include <stdbool.h>

#include "layout.h"

enum weir_message_kind {
	WEIR_MESSAGE_FLOW_LOOKUP = 1, // which backend this flow has, which one it would get
	// Give this bucket to another worker. The response says whether the worker will; what
	// follows once it has confirmed is between the workers, and control sees the new owner in
	// weir_bucket_owners. Refused, nothing has changed. Not sent to a dataplane whose header
	// says that flows are not in buckets.
	WEIR_MESSAGE_STEAL,
};

struct weir_message { // WEIR_MESSAGE_BYTES
	uint64_t sequence; // chosen by control, repeated in the response
	uint32_t kind; // enum weir_message_kind
	uint32_t reserved;
	union {
		struct { // WEIR_MESSAGE_FLOW_LOOKUP
			uint8_t source[16];
			uint8_t destination[16];
			uint16_t source_port; // host order
			uint16_t destination_port; // host order
			uint8_t family;
			uint8_t protocol;
			// response
			uint8_t found; // in this worker's flow table
			uint8_t state; // enum weir_flow_state when found
			uint16_t backend; // of the flow when found, else WEIR_BACKEND_NONE
			uint16_t chosen; // the backend that the Maglev table gives now
			uint16_t service; // WEIR_SERVICE_NONE: no service owns the destination
			uint16_t reserved;
			uint32_t slot; // of the Maglev table
			uint32_t idle_ms; // since the flow's last packet
			uint64_t hash;
		} flow;
		struct { // WEIR_MESSAGE_STEAL
			uint64_t deadline_ns; // CLOCK_MONOTONIC: refused as late afterwards
			uint32_t bucket; // below WEIR_BUCKETS
			uint32_t thief; // the worker that is to have it
			// response
			uint32_t answer; // enum weir_bucket_answer
			uint32_t reserved;
		} steal;
		uint8_t bytes[WEIR_MESSAGE_BYTES - 16];
	};
};
_Static_assert(sizeof(struct weir_message) == WEIR_MESSAGE_BYTES, "segment ABI");

// A ring as one side sees it: what the producer writes and what the consumer writes lie in
// different memories. `head` and `tail` of the other side are untrusted: a distance beyond the
// ring's size counts as full to the producer, and as empty to the consumer, who then starts anew.

// Put a copy of message into the ring. Returns false when it is full. [its producer]
bool weir_mailbox_send(struct weir_mailbox_ring *ring, const struct weir_ring_position *position,
	const struct weir_message *message);
// Take the oldest message. Returns false when there is none. [its consumer]
bool weir_mailbox_receive(const struct weir_mailbox_ring *ring, struct weir_ring_position *position,
	struct weir_message *ret);
