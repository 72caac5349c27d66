// SPDX-License-Identifier: BSD-3-Clause
//
// Steals: moves buckets of flows from busy workers to less busy workers. In every tick,
// bucket_moves.h selects the moves. This module sends the requests to the victims through the
// mailboxes of the segment, and passes their responses and the owners of buckets to bucket_moves.h.
// Buckets move only while stealing is on (weir_news.stealing). workers.steal configures this; an
// operator can override the configuration. The operator's setting is stored in the segment, so that
// the next control process uses it, too.
//
// Threads: the thread of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "bucket_moves.h"
#include "log.h"
#include "mailboxes.h"

struct weir_steals;

// Creates the module, without a segment. mailboxes: borrowed until weir_steals_free. Returns 0 or
// -ENOMEM.
int weir_steals_create(
	struct weir_mailboxes *mailboxes, const struct weir_log *log, struct weir_steals **ret);
// Free everything. Call this function after weir_mailboxes_fini. NULL is allowed.
void weir_steals_free(struct weir_steals *steals);

// Attaches a segment, which must stay mapped until weir_steals_detach. The operator's setting is
// read from the first segment of this process, and written to later segments. If out of memory,
// workers do not steal until a later tick has allocated the moves.
void weir_steals_attach(struct weir_steals *steals, const struct weir_segment *segment);
void weir_steals_detach(struct weir_steals *steals); // NULL is allowed
// Set the configured value (workers.steal).
void weir_steals_configure(struct weir_steals *steals, bool on);
// Sets the operator's setting; UNSET = the configured value applies.
void weir_steals_set(struct weir_steals *steals, enum weir_stealing stealing);
// Runs a tick; call this function every WEIR_BUCKET_TICK_MS.
void weir_steals_tick(struct weir_steals *steals);

// --- status ---

// Returns why workers do not steal buckets now; NULL = they steal.
const char *weir_steals_off(const struct weir_steals *steals);
// Like weir_steals_off, but also returns a text if workers steal although the configuration
// disables it.
const char *weir_steals_why(const struct weir_steals *steals);
// Returns why workers cannot steal buckets, regardless of the settings; NULL = they can.
const char *weir_steals_impossible(const struct weir_steals *steals);
enum weir_stealing weir_steals_set_to(const struct weir_steals *steals);
bool weir_steals_configured(const struct weir_steals *steals);
// Returns the moves in the attached segment; NULL = there are none, see weir_steals_impossible.
const struct weir_bucket_moves *weir_steals_moves(const struct weir_steals *steals);
