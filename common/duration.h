// SPDX-License-Identifier: BSD-3-Clause
//
// Writes durations as text, for messages and tables.
//
// Threads: any.
#pragma once

#include <stdint.h>

#define WEIR_DURATION_BYTES 24

// Rounds a duration to 0.1 s, and writes its two largest units: 15m12s, 3h05m, 2d04h; below a
// minute, writes seconds with one decimal: 4.1s. Returns buffer.
const char *weir_duration_text(uint64_t ms, char buffer[WEIR_DURATION_BYTES]);
