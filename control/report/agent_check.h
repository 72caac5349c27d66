// SPDX-License-Identifier: BSD-3-Clause
//
// Agent check: the line that HAProxy's agents say, as a report. docs/reference/agent-protocol.md
// has the words and what each means.
//
// The line is what came up to the first CR or LF. Its words are separated by spaces, tabs and
// commas, in any case; a word that begins with '#' is the start of a description. Of several words
// of a class the last one counts. All as HAProxy 2.6 does it, plus weight:N and weight:N%.
//
// Threads: pure functions.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "report.h"

#define WEIR_AGENT_CHECK_LINE_BYTES 1024 // longer ones need not be read
#define WEIR_AGENT_CHECK_COMPLAINT_BYTES 64

// What an agent said so far; each class stands until the agent says another word of it: "up" does
// not end a "drain", only "ready" does. The caller keeps one for each backend, zeroed at first and
// when the backend's word is forgotten.
struct weir_agent_check {
	uint8_t health; // enum weir_health_word: NONE, READY (up) or DOWN (down, fail, stopped)
	uint8_t administration; // NONE, READY, LAME_DUCK (drain) or DOWN (maint)
};

// Read a line. *ret is overwritten; its word is the worse one of both classes, and NONE if the line
// has no word of either. complaint is about the first part of the line that was ignored, "" if
// there is none. Returns 0, or -ENODATA if there is no end of line in it: then nothing of it
// counts.
int weir_agent_check_read(struct weir_agent_check *check, const char *line, size_t bytes,
	struct weir_report *ret, char complaint[WEIR_AGENT_CHECK_COMPLAINT_BYTES]);
