// SPDX-License-Identifier: BSD-3-Clause
//
// Steals: has workers with less to do take buckets of flows from those with more. Every tick
// bucket_moves.h decides; here the victims are asked through the segment's mailboxes, and their
// responses and the owners of buckets go back to it. Workers only steal while this allows it
// (weir_news.stealing): as configured by workers.steal, or as an operator has set it, which
// outlives this process in the segment.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "bucket_moves.h"
#include "log.h"
#include "mailboxes.h"

struct weir_steals;

// mailboxes: borrowed until weir_steals_free. Returns 0 or -ENOMEM.
int weir_steals_create(
	struct weir_mailboxes *mailboxes, const struct weir_log *log, struct weir_steals **ret);
// After weir_mailboxes_fini. NULL is fine.
void weir_steals_free(struct weir_steals *steals);

// A segment was attached, which stays until weir_steals_detach. What an operator has set goes to
// it; to the first one that this process sees it is taken from there. Without memory workers do not
// steal until a tick finds some.
void weir_steals_attach(struct weir_steals *steals, const struct weir_segment *segment);
void weir_steals_detach(struct weir_steals *steals); // NULL is fine
// As the configuration has it (workers.steal).
void weir_steals_configure(struct weir_steals *steals, bool on);
// As an operator has set it; UNSET: as configured.
void weir_steals_set(struct weir_steals *steals, enum weir_stealing stealing);
// Call every WEIR_BUCKET_TICK_MS.
void weir_steals_tick(struct weir_steals *steals);

// --- to look at ---

// Why workers do not steal now; NULL: they do.
const char *weir_steals_off(const struct weir_steals *steals);
// The same; or while they do against the configuration, why they do.
const char *weir_steals_why(const struct weir_steals *steals);
// Why they cannot, whatever is configured or set; NULL: they can.
const char *weir_steals_impossible(const struct weir_steals *steals);
enum weir_stealing weir_steals_set_to(const struct weir_steals *steals);
bool weir_steals_configured(const struct weir_steals *steals);
// Of the segment that is attached; NULL: its flows are not in buckets.
const struct weir_bucket_moves *weir_steals_moves(const struct weir_steals *steals);
