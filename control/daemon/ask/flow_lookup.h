// SPDX-License-Identifier: BSD-3-Clause
//
// Flow lookup: asks every worker which backend a flow has, and collects the responses. Questions
// and responses go through the segment's mailboxes; a worker that does not respond within
// WEIR_LOOKUP_MS is left out. The deletion of a flow is a look-up that ends what it finds.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mailboxes.h"

#define WEIR_LOOKUP_MS 200
#define WEIR_LOOKUPS_MAX 32 // in flight at once: fits a mailbox, whatever the workers do
#define WEIR_LOOKUPS_OPEN 24 // beyond this only deletions, which not every client may ask for

struct weir_lookups;

struct weir_lookup_result { // what the workers responded
	uint32_t workers; // that were there to ask
	uint64_t responded; // bitmap by worker
	uint32_t worker; // whose response is the best one
	// The best one: a response that found the flow wins, then one that has a backend for it.
	struct weir_message response;
	uint16_t chosen[WEIR_WORKERS_MAX]; // by worker, of those that responded
};
_Static_assert(WEIR_WORKERS_MAX <= 64, "bitmaps of workers");

static inline bool weir_lookup_responded(const struct weir_lookup_result *result, uint32_t worker) {
	return (result->responded >> worker & 1) != 0;
}

// Called once for each lookup. error: 0, -ETIMEDOUT (no worker responded) or -ENOTCONN (the
// dataplane exited); result: valid during the call, NULL on error.
typedef void (*weir_lookup_done)(void *context, int error, const struct weir_lookup_result *result);

// mailboxes: borrowed. Returns 0 or -ENOMEM.
int weir_lookups_create(
	uv_loop_t *loop, struct weir_mailboxes *mailboxes, struct weir_lookups **ret);
// Ask all workers of the segment that the mailboxes are bound to, which must stay bound until done
// or weir_lookups_abandon. question: WEIR_MESSAGE_FLOW_LOOKUP, or WEIR_MESSAGE_FLOW_DELETE where
// the segment has flow pages; copied. Returns 0, -ENOTCONN (no dataplane), -EBUSY
// (too many are in flight) or -ENOMEM; done is then not called.
int weir_lookups_ask(struct weir_lookups *lookups, const struct weir_message *question,
	weir_lookup_done done, void *context);
// The dataplane has exited: fail all pending lookups.
void weir_lookups_abandon(struct weir_lookups *lookups); // NULL is fine
// After weir_mailboxes_fini. NULL is fine.
void weir_lookups_free(struct weir_lookups *lookups);
