// SPDX-License-Identifier: BSD-3-Clause
//
// Mailboxes: carry control's requests to a worker, and the worker's responses. Each worker has
// one ring for requests and one ring for responses. Each ring has a single producer and a single
// consumer, and never blocks. A worker responds to at most one request per iteration of its poll
// loop.
#pragma once

#include <stdbool.h>

#include "layout.h"

enum weir_message_kind {
	// Look up the backend of a flow, and the backend that would be chosen now
	WEIR_MESSAGE_FLOW_LOOKUP = 1,
	// Move this bucket to another worker. The response is a confirmation or a refusal. After
	// a confirmation the workers move the bucket, and control reads the new owner from
	// weir_bucket_owners. A refusal changes nothing. Not sent if the segment's header shows
	// that the dataplane does not use buckets.
	WEIR_MESSAGE_STEAL,
	// List the flows that wait for an answer to their SYN, in a range of the table
	WEIR_MESSAGE_FLOW_WAITING = 3,
	WEIR_MESSAGE_FLOW_MOVE = 4, // move a waiting flow to another backend
	WEIR_MESSAGE_FLOW_LIST = 5, // list or end the flows in a range of the table
	WEIR_MESSAGE_FLOW_DELETE = 6, // look up a flow and end it
	// Look up the affinity entry of a source, and the backend that its new flows get. All
	// workers have the same affinity table: any worker can answer this kind of request and the
	// next two kinds.
	WEIR_MESSAGE_SOURCE_LOOKUP = 7,
	WEIR_MESSAGE_SOURCE_DELETE = 8, // look up the affinity entry of a source and remove it
	WEIR_MESSAGE_SOURCE_WALK = 9, // list or remove affinity entries in a range of the table
};

// Answers of a worker to WEIR_MESSAGE_FLOW_MOVE. X(NAME, "name", "meaning")
#define WEIR_MOVE_ANSWERS(X) \
	X(NONE, "none", "the worker does not support this kind of message") \
	X(MOVED, "moved", "the flow was moved to the new backend") \
	X(CHANGED, "changed", "a packet of the flow arrived, or its state or backend has changed") \
	X(GONE, "gone", "the flow is not in the worker's flow table") \
	X(UNUSABLE, "unusable", "the new backend accepts no new flows of the service") \
	X(LIMIT, "limit", \
		"the new backend is at its limit, or the flow table has too many half-open flows") \
	X(LATE, "late", "the request arrived after its deadline")

enum weir_move_answer {
#define X(name, key, text) WEIR_MOVE_##name,
	WEIR_MOVE_ANSWERS(X)
#undef X
		WEIR_MOVE_ANSWER_COUNT,
};

#define WEIR_WAITING_BACKENDS 4
#define WEIR_WAITING_LINES 256u // maximum number of table lines that a worker reads for one message
#define WEIR_LIST_LINES 256u // maximum number of table lines for one WEIR_MESSAGE_FLOW_LIST
#define WEIR_WAITING_FLOWS4 5
#define WEIR_WAITING_FLOWS6 2
#define WEIR_WAITED_MS 16u

// Result of the lookup of a source in the affinity table, for new flows of the source.
enum weir_source_entry {
	WEIR_SOURCE_ENTRY_NONE, // no entry, or the service does not use the table
	// the dataplane has no affinity table: the Maglev table selects the backend
	WEIR_SOURCE_ENTRY_NO_TABLE,
	WEIR_SOURCE_ENTRY_KNOWN, // new flows of the source go to the backend of its entry
	WEIR_SOURCE_ENTRY_STALE, // the backend of the entry takes no new flows
};

// A TCP flow that waits for an answer to its SYN. Addresses and ports in network order.
struct weir_waiting_flow4 {
	uint8_t source[4];
	uint8_t destination[4];
	uint16_t source_port;
	uint16_t destination_port;
	uint32_t stamp; // upper half: state and time of the last packet; lower half: backend
};
_Static_assert(sizeof(struct weir_waiting_flow4) == 16, "segment ABI");

struct weir_waiting_flow6 {
	uint8_t source[16];
	uint8_t destination[16];
	uint16_t source_port;
	uint16_t destination_port;
	uint32_t stamp;
};
_Static_assert(sizeof(struct weir_waiting_flow6) == 40, "segment ABI");

struct weir_message { // WEIR_MESSAGE_BYTES
	uint64_t sequence; // chosen by control, copied to the response
	uint32_t kind; // enum weir_message_kind
	uint32_t reserved;
	union {
		struct { // WEIR_MESSAGE_FLOW_LOOKUP, WEIR_MESSAGE_FLOW_DELETE
			uint8_t source[16];
			uint8_t destination[16];
			uint16_t source_port; // host order
			uint16_t destination_port; // host order
			uint8_t family;
			uint8_t protocol;
			// response
			uint8_t found; // the flow is in this worker's flow table
			uint8_t state; // enum weir_flow_state when found
			uint16_t backend; // backend of the flow when found, else WEIR_BACKEND_NONE
			// Backend of the source's entry if `entry` is KNOWN, else the backend that
			// the Maglev table selects now
			uint16_t chosen;
			uint16_t service; // WEIR_SERVICE_NONE: no service has this destination
			uint8_t entry; // enum weir_source_entry, for a new flow
			uint8_t reserved;
			uint32_t slot; // slot of the Maglev table
			uint32_t idle_ms; // time since the flow's last packet
			uint64_t hash;
		} flow;
		struct { // WEIR_MESSAGE_STEAL
			// CLOCK_MONOTONIC; after this time, the worker refuses the request as late
			uint64_t deadline_ns;
			uint32_t bucket; // index, below WEIR_BUCKETS
			uint32_t thief; // worker that receives the bucket
			// response
			uint32_t answer; // enum weir_bucket_answer
			uint32_t reserved;
		} steal;
		// WEIR_MESSAGE_FLOW_WAITING: lists the worker's TCP flows whose client has sent a
		// SYN and, for idle_ms, no other packet. Covers the table's lines from `first` to
		// `last` - 1. The worker reads at most WEIR_WAITING_LINES of its lines, and skips
		// the lines of other workers. Send the request again with `first` = `next`
		// until `next` is `lines` or `last`.
		struct {
			uint32_t first; // line
			uint32_t last; // line; a number beyond the table means the end of the table
			uint32_t idle_ms;
			uint16_t backend[WEIR_WAITING_BACKENDS]; // WEIR_BACKEND_NONE = unused
			// response
			uint8_t answered; // 1
			uint8_t family; // family of the flows: 4 or 6
			uint8_t count; // number of flows
			// minimum time that the flows have waited, in units of WEIR_WAITED_MS;
			// at most 255
			uint8_t waited;
			uint32_t next; // next line to read; above first, except at the table's end
			uint32_t lines; // number of lines of the table
			union {
				struct weir_waiting_flow4 flow4[WEIR_WAITING_FLOWS4];
				struct weir_waiting_flow6 flow6[WEIR_WAITING_FLOWS6];
			};
		} waiting;
		struct { // WEIR_MESSAGE_FLOW_MOVE
			uint8_t source[16];
			uint8_t destination[16];
			uint16_t source_port; // network order, as in struct weir_waiting_flow4
			uint16_t destination_port;
			uint8_t family;
			uint8_t answer; // response: enum weir_move_answer
			uint16_t to; // the new backend
			// `stamp` of struct weir_waiting_flow4 or weir_waiting_flow6
			uint32_t stamp;
			uint32_t reserved;
			// CLOCK_MONOTONIC; at most 10 s after the flow was listed
			uint64_t deadline_ns;
		} move;
		// WEIR_MESSAGE_FLOW_LIST: lists or ends the worker's flows in the table's lines
		// from `first` to `last` - 1. The worker reads at most WEIR_LIST_LINES lines
		// and WEIR_FLOW_PAGE_FLOWS flows, and writes the matching flows to one of its
		// pages, or ends the matching flows. Send the request again with `first` = `next`
		// until `next` is `lines` or `last`.
		struct {
			uint32_t first; // line
			uint32_t last; // line; a number beyond the table means the end of the table
			uint16_t backend; // WEIR_BACKEND_NONE = all backends
			uint16_t service; // WEIR_SERVICE_NONE = all services
			uint8_t states; // one bit per enum weir_flow_state
			uint8_t family; // family of the client's prefix: 4 or 6; 0 = all clients
			uint8_t client_bits; // number of leading bits of client[] to compare
			uint8_t protocol; // 0 = TCP and UDP
			uint8_t client[16];
			uint8_t page; // index of the page, below WEIR_FLOW_PAGES
			uint8_t end; // 1: end the flows instead of writing them to the page
			// response
			uint8_t answered; // 1
			uint8_t reserved;
			uint32_t count; // number of flows on the page, or of ended flows
			uint32_t next; // next line to read; above first, except at the table's end
			uint32_t lines; // number of lines of the table
		} list;
		struct { // WEIR_MESSAGE_SOURCE_LOOKUP, WEIR_MESSAGE_SOURCE_DELETE
			uint8_t address[16]; // an address of the source
			uint8_t family;
			// response
			uint8_t answered; // 1
			uint8_t found; // the source has an entry
			uint8_t entry; // enum weir_source_entry; before the entry was removed
			uint16_t service; // request: id of the service
			// Response: backend of the entry when found, else WEIR_BACKEND_NONE.
			// Request of SOURCE_DELETE: remove the entry only if it has this backend;
			// WEIR_BACKEND_NONE = any.
			uint16_t backend;
			uint16_t chosen; // the backend that new flows get (see flow.chosen)
			uint8_t proven; // see affinity.h
			uint8_t reserved;
			uint32_t left_ms; // time until the entry expires
			uint32_t slot; // slot of the Maglev table
			uint32_t reserved1;
			uint64_t hash;
		} source;
		// WEIR_MESSAGE_SOURCE_WALK: lists or removes the affinity entries in the table's
		// lines from `first` to `last` - 1. The worker reads at most WEIR_LIST_LINES lines.
		// The worker either removes the matching entries, or writes the backends of all
		// entries to one of its pages: backends of proven entries from the start of the
		// page, other backends from the end of the page. Send the request again with
		// `first` = `next` until `next` is `lines` or `last`.
		struct {
			uint32_t first; // line
			uint32_t last; // line; a number beyond the table means the end of the table
			uint16_t backend; // removal: WEIR_BACKEND_NONE = all backends
			uint16_t service; // removal: WEIR_SERVICE_NONE = all services
			uint8_t page; // index of the page, below WEIR_FLOW_PAGES
			uint8_t remove; // 1: remove the entries instead of writing them to the page
			// response
			uint8_t answered; // 1
			uint8_t reserved;
			uint32_t proven; // number of proven entries on the page
			uint32_t others; // number of other entries on the page, or of removed
					 // entries
			uint32_t next; // next line to read; above first, except at the table's end
			uint32_t lines; // number of lines of the table; 0 = no table
		} walk;
		uint8_t bytes[WEIR_MESSAGE_BYTES - 16];
	};
};
_Static_assert(sizeof(struct weir_message) == WEIR_MESSAGE_BYTES, "segment ABI");

// The producer's and the consumer's fields of a ring are in different memory areas. The position
// read from the other process is untrusted. If the distance between the positions is above the
// ring's size, the producer treats the ring as full, and the consumer treats it as empty and
// resynchronizes.

// Add a copy of a message to a ring. position: the consumer's read position. Returns false if the
// ring is full. [producer]
bool weir_mailbox_send(struct weir_mailbox_ring *ring, const struct weir_ring_position *position,
	const struct weir_message *message);
// Take the oldest message out of a ring. position: the consumer's read position, which is advanced.
// Returns false if the ring is empty. [consumer]
bool weir_mailbox_receive(const struct weir_mailbox_ring *ring, struct weir_ring_position *position,
	struct weir_message *ret);
