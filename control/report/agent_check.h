// SPDX-License-Identifier: BSD-3-Clause
//
// Agent check: converts the line of a HAProxy agent to a report. docs/reference/agent-protocol.md
// lists the words and their meanings.
//
// The line ends at the first CR or LF. It contains words, separated by spaces, tabs and commas; the
// case of letters is ignored. A word that begins with '#' starts a description. There are two
// classes of words, health and administration. If a line contains several words of one class, the
// last word is used. The format is the format of HAProxy 2.6, plus weight:N and weight:N%.
//
// Threads: any; no shared state.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "report.h"

#define WEIR_AGENT_CHECK_LINE_BYTES 1024 // maximum number of bytes of a line that callers read
#define WEIR_AGENT_CHECK_COMPLAINT_BYTES 64

// The last words received from an agent. A word applies until the agent sends another word of the
// same class. For example, "up" does not end a "drain", because "up" is a word of the class health;
// but "ready" ends the drain. The caller has one struct for each backend, and sets it to zero at
// the start and when the backend's state expires.
struct weir_agent_check {
	uint8_t health; // enum weir_health_word: NONE, READY (up) or DOWN (down, fail, stopped)
	uint8_t administration; // NONE, READY, LAME_DUCK (drain) or DOWN (maint)
};

// Reads a line and overwrites *ret. ret->word: the more severe of the current words of the two
// classes; NONE if the line has no word of either class. complaint: describes the first part of the
// line that was ignored; "" = no part was ignored. Returns 0, or -ENODATA if the line has no end
// yet; in that case nothing is changed.
int weir_agent_check_read(struct weir_agent_check *check, const char *line, size_t bytes,
	struct weir_report *ret, char complaint[WEIR_AGENT_CHECK_COMPLAINT_BYTES]);
