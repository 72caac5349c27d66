// SPDX-License-Identifier: BSD-3-Clause
//
// Captures: requests copies of packets from workers (capture.h of the segment), and passes them to
// a client of the control socket. Only one capture runs at a time. The capture belongs to the
// connection that started it. A capture ends when its client stops it, when this connection is
// closed, when the packet limit is reached, or when the dataplane exits. A capture expires if its
// client has not read for WEIR_CAPTURES_UNREAD_MS; another capture can then replace it.
//
// The names of a packet's service and backend are the names at the time when the packet was copied;
// "" = the id has been reused since then.
//
// Threads: the thread of the loop.
#pragma once

#include <uv.h>

#include "audit.h"
#include "capture.h"
#include "tables.h"

#define WEIR_CAPTURES_PACKETS 500u // maximum number of packets returned by one read
#define WEIR_CAPTURES_WAIT_MS 1000 // maximum time that a read waits for the first packet
#define WEIR_CAPTURES_UNREAD_MS 10000

struct weir_captures;

// Why a capture has ended. X(NAME, "name", "text in the audit log")
#define WEIR_CAPTURE_ENDS(X) \
	X(NONE, "", "") /* running */ \
	X(PACKETS, "packets", "packet limit reached") \
	X(NO_DATAPLANE, "no-dataplane", "weir-dataplane exited") \
	X(STOPPED, "stopped", "") /* the client stopped it */ \
	X(CLOSED, "closed", "the connection of the client was closed") \
	X(UNREAD, "unread", "the client did not read packets")

enum weir_capture_end {
#define X(name, key, text) WEIR_CAPTURE_END_##name,
	WEIR_CAPTURE_ENDS(X)
#undef X
};

struct weir_capture_request {
	struct weir_capture_terms terms;
	uint64_t packets; // maximum number of packets; 0 = no limit
	uint64_t connection; // ID of the connection that owns the capture
	struct weir_audit_who who;
	// Filter of the capture as text, which identifies the capture in the audit log.
	char what[WEIR_AUDIT_OBJECT_BYTES];
};

struct weir_captured {
	struct weir_capture_packet packet;
	uint32_t worker;
	char service[WEIR_NAME_BYTES]; // "" = no service
	char backend[WEIR_NAME_BYTES];
	// Number of the publication whose tables the worker used when it copied the packet (the
	// counter notes->publications of the segment).
	uint64_t publications;
};

struct weir_capture_reading {
	struct weir_captured *packets; // sorted by time; allocated on the heap
	uint32_t count;
	// Add this to the time of a packet to get its wall clock time, in ns since 1970.
	int64_t since_1970_ns;
	// Numbers of packets of all workers since the start of the capture. lost: packets that did
	// not fit into a ring. limited: packets that were not copied because of the rate limit.
	uint64_t lost, limited;
	bool more; // the rings contain further packets
	enum weir_capture_end ended;
};

struct weir_capture_status { // status of the last capture
	uint64_t number; // ID of the capture; 0 = no capture yet
	uint64_t connection;
	struct weir_audit_who who;
	uint64_t packets; // number of packets that the client has read
	uint64_t lost, limited;
	enum weir_capture_end ended;
};

// Called once per read, possibly before weir_captures_read returns. error: 0 or -ENOMEM. reading:
// valid during the call; NULL on an error. The callback may take ownership of the packets by
// setting reading->packets to NULL.
typedef void (*weir_capture_done)(void *context, int error, struct weir_capture_reading *reading);

// Creates the module, without a capture. audit: borrowed; gets an entry at the end of each capture.
// Returns 0 or -ENOMEM.
int weir_captures_create(uv_loop_t *loop, struct weir_audit *audit, struct weir_captures **ret);
// Sets the attached dataplane, and ends a running capture. segment: NULL = no dataplane. segment
// and tables are borrowed until the next call.
void weir_captures_bind(struct weir_captures *captures, struct weir_segment *segment,
	const struct weir_tables *tables); // captures NULL is allowed
// Free everything. The libuv handles are closed in the next iterations of the loop. NULL is
// allowed.
void weir_captures_free(struct weir_captures *captures);

// Start a capture. *ret: ID of the capture. Returns 0, -ENOTCONN (no dataplane), -EBUSY (another
// capture is running) or -ENOMEM.
int weir_captures_start(
	struct weir_captures *captures, const struct weir_capture_request *request, uint64_t *ret);
struct weir_capture_status weir_captures_status(const struct weir_captures *captures);
// Reads packets of the last capture. While it is running, waits up to WEIR_CAPTURES_WAIT_MS for the
// first packet. Only one read may be in progress.
void weir_captures_read(struct weir_captures *captures, weir_capture_done done, void *context);
// Ends the last capture if it is running, and the read in progress. end: the reason.
void weir_captures_stop(struct weir_captures *captures, enum weir_capture_end end);
