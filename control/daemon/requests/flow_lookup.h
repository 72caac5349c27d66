// SPDX-License-Identifier: BSD-3-Clause
//
// Flow lookup: looks up the backend of a flow, or of new flows of a client (affinity). Sends a
// request to all workers through the mailboxes of the segment, and collects the responses, until
// all workers have responded or one has found the flow or entry, but for at most WEIR_LOOKUP_MS. A
// request can also delete the flow if a worker finds it. A request to delete an affinity entry goes
// to one worker only: a second worker could delete an entry that was created for the client in the
// meantime.
//
// Threads: the thread of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mailboxes.h"

#define WEIR_LOOKUP_MS 200
// Maximum number of lookups in progress. A mailbox has room for twice this number of messages, but
// other modules use it as well, and a stalled worker does not empty it.
#define WEIR_LOOKUPS_MAX 32
// A new lookup that deletes nothing is refused if this number of lookups is in progress.
#define WEIR_LOOKUPS_OPEN 24

struct weir_lookups;

struct weir_lookup_result {
	uint32_t workers; // number of workers
	uint64_t responded; // bitmap by worker
	uint32_t worker; // worker that has sent the best response
	// The best response: a response that contains the flow or entry; otherwise a response with
	// a backend for the flow; otherwise any response.
	struct weir_message response;
	// Backend that each worker would choose for the flow; only for workers that have responded.
	uint16_t chosen[WEIR_WORKERS_MAX];
};
_Static_assert(WEIR_WORKERS_MAX <= 64, "bitmaps of workers");

static inline bool weir_lookup_responded(const struct weir_lookup_result *result, uint32_t worker) {
	return (result->responded >> worker & 1) != 0;
}

// Returns whether all workers have responded, and would choose the same backend.
static inline bool weir_lookup_agrees(const struct weir_lookup_result *result) {
	for (uint32_t worker = 0; worker < result->workers; worker++) {
		if (!weir_lookup_responded(result, worker) ||
			result->chosen[worker] != result->chosen[0]) {
			return false;
		}
	}
	return true;
}

// Called once per lookup. error: 0, -ETIMEDOUT (no worker responded) or -ENOTCONN (the dataplane
// has exited). result: valid during the call; NULL on an error.
typedef void (*weir_lookup_done)(void *context, int error, const struct weir_lookup_result *result);

// Creates the module, without lookups. mailboxes: borrowed. Returns 0 or -ENOMEM.
int weir_lookups_create(
	uv_loop_t *loop, struct weir_mailboxes *mailboxes, struct weir_lookups **ret);
// Sends a lookup to the workers of the segment to which the mailboxes are bound. The mailboxes must
// stay bound to this segment until `done` is called, or until weir_lookups_abandon. request:
// WEIR_MESSAGE_FLOW_LOOKUP, FLOW_DELETE, SOURCE_LOOKUP or SOURCE_DELETE; copied.
// Returns 0, -ENOTCONN (no dataplane), -EBUSY (too many lookups in progress) or -ENOMEM; `done` is
// called only if the result is 0.
int weir_lookups_start(struct weir_lookups *lookups, const struct weir_message *request,
	weir_lookup_done done, void *context);
// Fails all lookups in progress, because the dataplane has exited.
void weir_lookups_abandon(struct weir_lookups *lookups); // NULL is allowed
// Free everything. Call this function after weir_mailboxes_fini. NULL is allowed.
void weir_lookups_free(struct weir_lookups *lookups);
