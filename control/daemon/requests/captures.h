// SPDX-License-Identifier: BSD-3-Clause
//
// Captures: lets workers copy packets for a client of the control socket (capture.h of the
// segment), and passes them to it. One capture at a time. It belongs to the connection that started
// it, and ends with that connection, after its number of packets, or with the dataplane. It expires
// WEIR_CAPTURES_UNREAD_MS after the client's last read; another one may then replace it.
//
// Names are those of the ids at the time of the packet; none for an id that was reused since.
//
// Threads: one, that of the loop.
#pragma once

#include <uv.h>

#include "audit.h"
#include "capture.h"
#include "tables.h"

#define WEIR_CAPTURES_PACKETS 500u // limit of a reading
#define WEIR_CAPTURES_WAIT_MS 1000 // a reading waits this time for the first packet
#define WEIR_CAPTURES_UNREAD_MS 10000

struct weir_captures;

// Why a capture ended. X(NAME, "name", "text in the audit log")
#define WEIR_CAPTURE_ENDS(X) \
	X(NONE, "", "") /* running */ \
	X(PACKETS, "packets", "packet limit reached") \
	X(NO_DATAPLANE, "no-dataplane", "weir-dataplane exited") \
	X(STOPPED, "stopped", "") /* by its client */ \
	X(CLOSED, "closed", "its connection was closed") \
	X(UNREAD, "unread", "its client did not read")

enum weir_capture_end {
#define X(name, key, text) WEIR_CAPTURE_END_##name,
	WEIR_CAPTURE_ENDS(X)
#undef X
};

struct weir_capture_request {
	struct weir_capture_terms terms;
	uint64_t packets; // limit; 0 = none
	uint64_t connection; // owner
	struct weir_audit_who who;
	char what[WEIR_AUDIT_OBJECT_BYTES]; // for the audit
};

struct weir_captured {
	struct weir_capture_packet packet;
	uint32_t worker;
	char service[WEIR_NAME_BYTES]; // "" = none
	char backend[WEIR_NAME_BYTES];
	uint64_t
		publications; // that the worker had adopted, counted as in the notes of the segment
};

struct weir_capture_reading {
	struct weir_captured *packets; // ordered by time; heap
	uint32_t count;
	int64_t since_1970_ns; // of time 0 in a record
	uint64_t lost, limited; // since the start, by all workers
	bool more; // the rings contain further packets
	enum weir_capture_end ended;
};

struct weir_capture_status { // of the last capture
	uint64_t number; // 0 = none yet
	uint64_t connection;
	struct weir_audit_who who;
	uint64_t packets; // read so far
	uint64_t lost, limited;
	enum weir_capture_end ended;
};

// Called once per reading, possibly before weir_captures_read returns. error: 0 or -ENOMEM.
// reading: valid during the call, except packets, which the callback may take (set it NULL); NULL
// on error.
typedef void (*weir_capture_done)(void *context, int error, struct weir_capture_reading *reading);

// audit: borrowed; gets the end of each capture. Returns 0 or -ENOMEM.
int weir_captures_create(uv_loop_t *loop, struct weir_audit *audit, struct weir_captures **ret);
// Set the attached dataplane, or NULL for none. Both are borrowed until the next call.
void weir_captures_bind(struct weir_captures *captures, struct weir_segment *segment,
	const struct weir_tables *tables); // captures NULL is allowed
// Handles close in the next iterations of the loop. NULL is allowed.
void weir_captures_free(struct weir_captures *captures);

// Returns 0, -ENOTCONN (no dataplane), -ENOTSUP (it cannot capture), -EBUSY (another capture is in
// use) or -ENOMEM. ret: its number.
int weir_captures_start(
	struct weir_captures *captures, const struct weir_capture_request *request, uint64_t *ret);
struct weir_capture_status weir_captures_status(const struct weir_captures *captures);
// Read packets of the last capture; waits up to WEIR_CAPTURES_WAIT_MS for the first one. No other
// reading may be in progress.
void weir_captures_read(struct weir_captures *captures, weir_capture_done done, void *context);
// End the last capture, unless it has ended, and the reading in progress.
void weir_captures_stop(struct weir_captures *captures, enum weir_capture_end end);
