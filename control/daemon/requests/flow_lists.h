// SPDX-License-Identifier: BSD-3-Clause
//
// Flow lists: requests lists of flows from the workers, or the deletion of flows
// (WEIR_MESSAGE_FLOW_LIST of mailbox.h). Each request is for a range of lines of the flow tables.
// All workers get requests for the same lines. With a shared table, each flow is in the response of
// exactly one worker.
// A flow can be missed in two cases: its bucket moves to another worker while the workers respond
// (about 1 ms), or an insertion moves the flow to a line that was already read. A deletion is
// therefore repeated until a pass deletes no flow, up to a maximum number of passes.
// The affinity table, which all workers share, is counted or cleared in the same way
// (WEIR_MESSAGE_SOURCE_WALK), but by one worker. If this worker does not respond, another worker
// repeats the walk.
// Only one list, deletion or count runs at a time, for a slice of WEIR_FLOW_LISTS_SLICE_MS; other
// requests are queued.
//
// Threads: the thread of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "table_walk.h"

#define WEIR_FLOW_LISTS_MAX 16 // maximum number of lists, deletions and counts, queued or running
#define WEIR_FLOW_LISTS_PAGE 1024u // a list ends when it has found at least this number of flows
// After this time, a list ends, and a deletion or count waits while the next request runs.
#define WEIR_FLOW_LISTS_SLICE_MS 50
#define WEIR_FLOW_LISTS_ALL UINT32_MAX // value for a worker index: all workers

struct weir_flow_lists;

struct weir_flow_found {
	struct weir_listed_flow flow; // only family and protocol were validated
	uint32_t worker;
};

// The numbers of affinity entries of a backend.
struct weir_source_count {
	uint32_t proven, others;
};

struct weir_flow_list_result {
	struct weir_flow_found *flows; // NULL unless flows were listed
	uint32_t count; // number of elements of flows[]
	uint64_t ended; // number of deleted flows or affinity entries
	struct weir_source_count *sources; // by backend; NULL unless affinity entries were counted
	uint32_t source_backends; // number of elements of sources[]
	uint64_t source_entries; // entries for which the affinity table has room; 0 = no table
	uint32_t next; // first line of the next list
	bool more; // the tables have further lines
	// Some lines were not searched: a worker did not respond in time, now or recently, or its
	// responses made no progress.
	bool incomplete;
};

// Called once per request. error: 0, -ENOTCONN (the dataplane has exited) or -ENOMEM. result: valid
// during the call; NULL on an error. The callback may take ownership of the flows by setting
// result->flows to NULL, and of the counts by setting result->sources to NULL.
typedef void (*weir_flow_list_done)(void *context, int error, struct weir_flow_list_result *result);

// Creates the module, without requests. mailboxes: borrowed. Returns 0 or -ENOMEM.
int weir_flow_lists_create(
	uv_loop_t *loop, struct weir_mailboxes *mailboxes, struct weir_flow_lists **ret);
// Lists flows that match `request`, a WEIR_MESSAGE_FLOW_LIST, starting at line `first`; or, if the
// request is for a deletion, deletes all flows that match. request: copied; this function sets its
// lines and page. worker: index of one worker, or WEIR_FLOW_LISTS_ALL. Returns 0, -ENOTCONN (no
// dataplane), -EBUSY (there are WEIR_FLOW_LISTS_MAX requests) or -ENOMEM; `done` is called only if
// the result is 0.
int weir_flow_lists_start(struct weir_flow_lists *lists, const struct weir_message *request,
	uint32_t first, uint32_t worker, weir_flow_list_done done, void *context);
// Counts all affinity entries, or deletes the entries that match `request`, a
// WEIR_MESSAGE_SOURCE_WALK. request: copied; this function sets its lines and page. Return values
// as for weir_flow_lists_start.
int weir_flow_lists_start_sources(struct weir_flow_lists *lists, const struct weir_message *request,
	weir_flow_list_done done, void *context);
// Fails all requests, because the dataplane has exited.
void weir_flow_lists_abandon(struct weir_flow_lists *lists); // NULL is allowed
// Free everything. Call this function after weir_mailboxes_fini. NULL is allowed.
void weir_flow_lists_free(struct weir_flow_lists *lists);
