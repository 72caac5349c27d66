// SPDX-License-Identifier: BSD-3-Clause
//
// Captures: has the workers copy packets for a client of the control socket (capture.h of the
// segment), and hands them to it. One capture at a time. It belongs to the connection that began it
// and ends with it, with its number of packets, or with the dataplane. Its order runs out
// WEIR_CAPTURES_UNREAD_MS after the client has last read; from then on another one may take its
// place.
//
// Names are those that ids had for the worker that recorded the packet; none for an id that has
// come to another service or backend since.
//
// Threads: one, that of the loop.
#pragma once

#include <uv.h>

#include "audit.h"
#include "capture.h"
#include "tables.h"

#define WEIR_CAPTURES_PACKETS 500u // of one reading, at most
#define WEIR_CAPTURES_WAIT_MS 1000 // a reading waits so long for the first one
#define WEIR_CAPTURES_UNREAD_MS 10000

struct weir_captures;

// Why a capture has ended. X(NAME, "name", "for the audit")
#define WEIR_CAPTURE_ENDS(X) \
	X(NONE, "", "") /* it has not */ \
	X(PACKETS, "packets", "it has all its packets") \
	X(NO_DATAPLANE, "no-dataplane", "weir-dataplane has gone") \
	X(STOPPED, "stopped", "") /* as its client asked */ \
	X(CLOSED, "closed", "its connection was closed") \
	X(UNREAD, "unread", "its client did not read")

enum weir_capture_end {
#define X(name, key, text) WEIR_CAPTURE_END_##name,
	WEIR_CAPTURE_ENDS(X)
#undef X
};

struct weir_capture_request {
	struct weir_capture_terms terms;
	uint64_t packets; // it ends after so many; 0 = none
	uint64_t connection; // whose it is
	struct weir_audit_who who;
	char what[WEIR_AUDIT_OBJECT_BYTES]; // for the audit
};

struct weir_captured {
	struct weir_capture_packet packet;
	uint32_t worker;
	char service[WEIR_NAME_BYTES]; // "" = none
	char backend[WEIR_NAME_BYTES];
};

struct weir_capture_reading {
	struct weir_captured *packets; // in the order of their time; heap
	uint32_t count;
	int64_t since_1970_ns; // that of a record's time 0
	uint64_t lost, limited; // since the start, by all workers
	bool more; // the rings hold others
	enum weir_capture_end ended;
};

struct weir_capture_status { // of the last capture
	uint64_t number; // 0 = there was none
	uint64_t connection;
	struct weir_audit_who who;
	uint64_t packets; // read so far
	uint64_t lost, limited;
	enum weir_capture_end ended;
};

// Called once for each reading, perhaps before weir_captures_read returns. error: 0 or -ENOMEM;
// reading: valid during the call, but packets, which may be taken (set it NULL); NULL on error.
typedef void (*weir_capture_done)(void *context, int error, struct weir_capture_reading *reading);

// audit: borrowed; gets the end of each capture. Returns 0 or -ENOMEM.
int weir_captures_create(uv_loop_t *loop, struct weir_audit *audit, struct weir_captures **ret);
// A dataplane was attached, or (NULL) has gone. Both are borrowed until the next call.
void weir_captures_bind(struct weir_captures *captures, struct weir_segment *segment,
	const struct weir_tables *tables); // captures NULL is fine
// Memory is released by the loop's next iterations. NULL is fine.
void weir_captures_free(struct weir_captures *captures);

// Returns 0, -ENOTCONN (no dataplane), -ENOTSUP (it does not capture), -EBUSY (another capture is
// read) or -ENOMEM. ret: its number.
int weir_captures_start(
	struct weir_captures *captures, const struct weir_capture_request *request, uint64_t *ret);
struct weir_capture_status weir_captures_status(const struct weir_captures *captures);
// Read what there is, or what comes within WEIR_CAPTURES_WAIT_MS. Of the last capture; none of its
// readings is under way.
void weir_captures_read(struct weir_captures *captures, weir_capture_done done, void *context);
// End the last capture, unless it has ended; a reading that is under way ends, too.
void weir_captures_stop(struct weir_captures *captures, enum weir_capture_end end);
