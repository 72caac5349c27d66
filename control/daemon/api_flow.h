// SPDX-License-Identifier: BSD-3-Clause
//
// Flow lookups: asks every worker which backend has a flow, and puts the answers into words.
// Questions and answers go through the segment's mailboxes; a worker that does not answer within
// WEIR_LOOKUP_MS is done without.
//
// Threads: one, that of the loop.
#pragma once

#include <uv.h>

#define WEIR_LOOKUP_MS 200

struct weir_lookups;

// Returns 0 or negative errno.
int weir_lookups_create(uv_loop_t *loop, struct weir_lookups **ret);
// The dataplane is gone: fail what is under way.
void weir_lookups_abandon(struct weir_lookups *lookups);
// Memory is released by the loop's next turns. NULL is fine.
void weir_lookups_free(struct weir_lookups *lookups);
