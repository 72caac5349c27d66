// SPDX-License-Identifier: BSD-3-Clause
//
// Agent check: converts the line of a HAProxy agent to a report. docs/reference/agent-protocol.md
// has the words and their meanings.
//
// The line ends at the first CR or LF. Its words are separated by spaces, tabs and commas, in any
// case; a word that begins with '#' starts a description. Of several words of a class the last one
// counts. All this is compatible with HAProxy 2.6, plus weight:N and weight:N%.
//
// Threads: pure functions.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "report.h"

#define WEIR_AGENT_CHECK_LINE_BYTES 1024 // longer lines need not be read
#define WEIR_AGENT_CHECK_COMPLAINT_BYTES 64

// Words received from an agent so far. Each class stays until the agent sends another word of that
// class: "up" does not end a "drain", only "ready" does. The caller keeps one for each backend,
// zeroed at first and when the backend's state expires.
struct weir_agent_check {
	uint8_t health; // enum weir_health_word: NONE, READY (up) or DOWN (down, fail, stopped)
	uint8_t administration; // NONE, READY, LAME_DUCK (drain) or DOWN (maint)
};

// Read a line. *ret is overwritten; its word is the worse of both classes, and NONE if the line has
// no word of either. complaint describes the first ignored part of the line, "" if none was
// ignored. Returns 0, or -ENODATA if the line has no end yet: then all of it is ignored.
int weir_agent_check_read(struct weir_agent_check *check, const char *line, size_t bytes,
	struct weir_report *ret, char complaint[WEIR_AGENT_CHECK_COMPLAINT_BYTES]);
