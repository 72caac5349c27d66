// SPDX-License-Identifier: BSD-3-Clause
//
// Dataplane link: connects to the dataplane, receives the segment, detects its exit, and reconnects
// (S4). Tries every WEIR_LINK_RETRY_MS, and at once when the dataplane's socket appears.
//
// Threads: one, that of the loop; waiting for the dataplane's reply is done in libuv's thread pool,
// so a hung dataplane does not block the loop. Each change of state is logged once.
#pragma once

#include <uv.h>

#include "handover.h"
#include "log.h"
#include "segment.h"

#define WEIR_LINK_RETRY_MS 200
#define WEIR_LINK_REFUSED_RETRY_MS 2000 // a segment of another version: it will not change soon

struct weir_dataplane_link;

struct weir_dataplane_events {
	// A segment is there; it and the descriptors stay valid until lost returns. Negative errno
	// and a line in why: it cannot be used; the link releases it and tries again later.
	int (*attached)(void *context, struct weir_segment *segment,
		const struct weir_handover *handover, char *why, size_t why_bytes);
	// The dataplane has exited: after this returns the segment is unmapped.
	void (*lost)(void *context);
	// A dataplane runs and cannot be attached to: negative errno, -EPROTO when its segment has
	// a layout that this program does not serve. May be called again and again.
	void (*refused)(void *context, int error);
	void *context;
};

// Start connecting. run_dir, log: borrowed. Returns 0 or negative errno.
int weir_dataplane_link_create(uv_loop_t *loop, const char *run_dir, struct weir_log *log,
	const struct weir_dataplane_events *events, struct weir_dataplane_link **ret);
// Disconnect without calling lost: the caller must no longer use the segment. Memory is released
// by the loop's next iterations. NULL is fine.
void weir_dataplane_link_free(struct weir_dataplane_link *link);
