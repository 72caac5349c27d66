// SPDX-License-Identifier: BSD-3-Clause
//
// Dataplane link: connects to the dataplane, receives the segment, detects the exit of the
// dataplane, and reconnects. Retries every WEIR_LINK_RETRY_MS if the dataplane does not run, does
// not reply or has another control process, every WEIR_LINK_REFUSED_RETRY_MS after any other
// failure, and several times in quick succession when the dataplane's socket appears.
//
// Threads: the thread of the loop. The link waits for the dataplane's reply in libuv's thread pool,
// so that a stalled dataplane does not block the loop. Each change of state is logged once: with
// level warn if the dataplane has exited, with level info if it does not run or is starting, with
// level error for any other failure.
#pragma once

#include <uv.h>

#include "handover.h"
#include "log.h"
#include "segment.h"

#define WEIR_LINK_RETRY_MS 200
// A dataplane that does not reply may still be starting. An error is logged if it has not replied
// after this time.
#define WEIR_LINK_STARTING_MS 5000
// Retry interval after other failures, such as an unsupported layout of the segment.
#define WEIR_LINK_REFUSED_RETRY_MS 2000

struct weir_dataplane_link;

struct weir_dataplane_events {
	// Called when a segment was received. The segment and the descriptors stay valid until
	// `lost` has returned, or until weir_dataplane_link_free. Returns 0, or negative errno with
	// a line in why; the link then releases the segment and tries again later.
	int (*attached)(void *context, struct weir_segment *segment,
		const struct weir_handover *handover, char *why, size_t why_bytes);
	// Called when the dataplane has exited, or if its connection cannot be watched. The link
	// unmaps the segment after this function has returned.
	void (*lost)(void *context);
	// Called when attaching has failed, unless no dataplane is running; may be called
	// repeatedly. error: negative errno; -EPROTO = the layout of the segment is not supported.
	void (*refused)(void *context, int error);
	void *context;
};

// Start to connect. run_dir, log: borrowed. events: copied. Returns 0 or negative errno.
int weir_dataplane_link_create(uv_loop_t *loop, const char *run_dir, struct weir_log *log,
	const struct weir_dataplane_events *events, struct weir_dataplane_link **ret);
// Returns why the last attempt to attach has failed, as one line; NULL = it did not fail, or no
// dataplane is running, or it may still be starting. The text is valid until the next iteration of
// the loop.
const char *weir_dataplane_link_why(const struct weir_dataplane_link *link);
// Disconnect without calling `lost`: the caller must no longer use the segment. The libuv handles
// are closed in the next iterations of the loop. NULL is allowed.
void weir_dataplane_link_free(struct weir_dataplane_link *link);
