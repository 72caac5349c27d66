// SPDX-License-Identifier: BSD-3-Clause
//
// A packet as capture.read gives it: its bytes, and its verdict as text. What is
// missing or not what it should be is left out: daemons of other versions may send fewer keys.
//
// Threads: any. Nothing is printed; text is safe on a terminal.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A text of the packet, "" where there is none. Valid as long as the packet.
const char *weir_captured_text(const json_t *packet, const char *key);

// The packet's first bytes, at most bytes of them. Returns how many; 0 also where the data is no
// base64.
size_t weir_captured_data(const json_t *packet, uint8_t *data, size_t bytes);

// One line: "forward to web-2 of web (new flow) on lan", "drop: no_backend, service web".
// Returns buffer.
const char *weir_captured_verdict(const json_t *packet, char *buffer, size_t bytes);

// Names of the drop reasons, in their order.
extern const char *const weir_captured_reasons[];
extern const uint32_t weir_captured_reason_count;

// What a drop reason means, and the command that shows more of it, or NULL for a reason that this
// weirctl does not know.
const char *weir_captured_reason_meaning(const char *reason);
const char *weir_captured_reason_look(const char *reason);
