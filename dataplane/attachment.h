// SPDX-License-Identifier: BSD-3-Clause
//
// Attachment: logs when weir-control attaches and detaches, once per change. A weir-control that
// cannot use this dataplane, for example because its configuration needs more ids, detaches at once
// and tries again every few seconds (dataplane_link.h): only its first attempt is logged, until an
// attempt lasts.
//
// Threads: one, never a worker.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"

// Time until an attachment by the process that was attached last is logged.
#define WEIR_ATTACHMENT_LASTS_MS 1000

struct weir_attachment { // initialize with zeros
	int pid; // pid of the attached weir-control; 0 = none
	int logged_pid; // pid in the last line about an attachment; 0 = there is none
	bool is_logged; // the attachment of `pid` was logged
	uint64_t since_ms; // start of the attachment of `pid`
};

// Updates the attachment, and logs a change. Call about every 100 ms. pid: attached weir-control, 0
// = none. has_tables: whether weir-control has published tables. now_ms: monotonic.
void weir_attachment_update(struct weir_attachment *attachment, const struct weir_log *log, int pid,
	bool has_tables, uint64_t now_ms);
