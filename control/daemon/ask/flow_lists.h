// SPDX-License-Identifier: BSD-3-Clause
//
// Flow lists: asks the workers for the flows that they have, or to end them
// (WEIR_MESSAGE_FLOW_LIST of mailbox.h), a piece of their tables at a time. All workers are asked
// for the same lines at once: with a shared table each flow is in one worker's answer, unless its
// bucket moves to another worker within that millisecond, or a new flow has it move within the
// table. A deletion therefore passes over the tables until it finds nothing more. One list or
// deletion is worked on at a time, for a slice of WEIR_FLOW_LISTS_SLICE_MS; the others wait for
// their turn.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "flow_walk.h"

#define WEIR_FLOW_LISTS_MAX 16 // lists and deletions that wait
#define WEIR_FLOW_LISTS_PAGE 1024u // a list ends once it has so many flows, or a few more
#define WEIR_FLOW_LISTS_SLICE_MS 50 // or after this time, with what it has
#define WEIR_FLOW_LISTS_ALL UINT32_MAX // workers

struct weir_flow_lists;

struct weir_flow_found {
	struct weir_listed_flow flow; // its family and protocol were checked, nothing else
	uint32_t worker;
};

struct weir_flow_list_result {
	struct weir_flow_found *flows; // NULL if they were to be ended
	uint32_t count; // of flows[]
	uint64_t ended;
	uint32_t next; // line to go on from
	bool more; // lines are left
	bool incomplete; // a worker did not answer in time
};

// Called once for each question. error: 0, -ENOTCONN (the dataplane exited) or -ENOMEM; result:
// valid during the call, but flows, which may be taken (set it NULL), NULL on error.
typedef void (*weir_flow_list_done)(void *context, int error, struct weir_flow_list_result *result);

// mailboxes: borrowed. Returns 0 or -ENOMEM.
int weir_flow_lists_create(
	uv_loop_t *loop, struct weir_mailboxes *mailboxes, struct weir_flow_lists **ret);
// Ask for the flows that a WEIR_MESSAGE_FLOW_LIST describes, from line `first` on; or end them all
// to the end of the table. worker: this one only. question: copied; lines and page are ours.
// Returns 0, -ENOTCONN (no dataplane), -ENOTSUP (it is an older one), -EBUSY (WEIR_FLOW_LISTS_MAX
// wait) or -ENOMEM; done is then not called.
int weir_flow_lists_ask(struct weir_flow_lists *lists, const struct weir_message *question,
	uint32_t first, uint32_t worker, weir_flow_list_done done, void *context);
// The dataplane has exited: fail all of them.
void weir_flow_lists_abandon(struct weir_flow_lists *lists); // NULL is fine
// After weir_mailboxes_fini. NULL is fine.
void weir_flow_lists_free(struct weir_flow_lists *lists);
