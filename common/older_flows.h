// SPDX-License-Identifier: BSD-3-Clause
//
// Text about flows that are older than the last change of backends or weights, for messages about a
// restart of the dataplane.
//
// Threads: any.
#pragma once

#include <inttypes.h>
#include <stdio.h>

#define WEIR_OLDER_FLOWS_BYTES 112

// Writes the last part of a message; this part begins with a comma. Example of a whole message:
// "the restart breaks up to 20 of 50 open flows, 9 of them only if they began before the last
// change of backends or weights". flows: the number in this part, 9 in the example; for 0 flows,
// writes "". Returns text.
static inline const char *weir_older_flows_text(uint64_t flows, char text[WEIR_OLDER_FLOWS_BYTES]) {
	text[0] = '\0';
	if (flows > 0) {
		snprintf(text, WEIR_OLDER_FLOWS_BYTES,
			", %" PRIu64
			" of them only if %s began before the last change of backends or weights",
			flows, flows == 1 ? "it" : "they");
	}
	return text;
}
