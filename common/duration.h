// SPDX-License-Identifier: BSD-3-Clause
//
// Writes durations as text, for messages and tables.
//
// Threads: any.
#pragma once

#include <stdint.h>

#define WEIR_DURATION_BYTES 24

// Writes the two largest units of a duration: 15m12s, 3h05m, 2d04h. Writes a duration of less than
// a minute as seconds with one decimal: 4.1s. Returns buffer.
const char *weir_duration_text(uint64_t ms, char buffer[WEIR_DURATION_BYTES]);
