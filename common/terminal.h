// SPDX-License-Identifier: BSD-3-Clause
//
// Foreign text in messages for people.
//
// Threads: any.
#pragma once

#include <stddef.h>

// Text that is safe on a terminal: what is not printable ASCII becomes \xNN, a backslash \\.
// Cut with "..." when the buffer is too small. Returns buffer.
const char *weir_terminal_text(const char *text, char *buffer, size_t bytes);
