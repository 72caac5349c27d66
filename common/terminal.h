// SPDX-License-Identifier: BSD-3-Clause
//
// Makes untrusted text safe for messages on a terminal.
//
// Threads: any.
#pragma once

#include <stddef.h>

// Make text safe for a terminal: a byte that is not printable ASCII becomes \xNN, and a backslash
// before an x becomes \\. The text is truncated with "..." if the buffer is too small. bytes: at
// least 1. Returns buffer.
const char *weir_terminal_text(const char *text, char *buffer, size_t bytes);
