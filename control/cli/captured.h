// SPDX-License-Identifier: BSD-3-Clause
//
// A packet of capture.read: its bytes, and its action as text. Keys may be missing or invalid,
// because weir-control may be of another version: the text then has "-", or omits the value.
//
// Threads: any. Prints nothing. The text of weir_captured_verdict is safe for a terminal.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Returns the text value of a key of the packet, or "" if the packet lacks the key. The text is
// valid until the packet is freed, and is not escaped for a terminal.
const char *weir_captured_text(const json_t *packet, const char *key);

// Copy the start of the packet, at most `bytes` bytes. Returns the length, or 0 if the data is not
// valid base64.
size_t weir_captured_data(const json_t *packet, uint8_t *data, size_t bytes);

// Write the action of the dataplane for the packet as one line, such as "forward to web-2 of web
// (new flow) on lan" or "drop: no_backend, service web". Returns buffer.
const char *weir_captured_verdict(const json_t *packet, char *buffer, size_t bytes);

// Names of the drop reasons, in the order of enum weir_drop_reason.
extern const char *const weir_captured_reasons[];
extern const uint32_t weir_captured_reason_count;

// weir_captured_reason_meaning returns the meaning of a drop reason, or NULL for a reason that this
// version of weirctl does not have. weir_captured_reason_look returns the command that shows
// details of a reason, never NULL; the caller replaces SERVICE in it by the service of the packet.
const char *weir_captured_reason_meaning(const char *reason);
const char *weir_captured_reason_look(const char *reason);
