// SPDX-License-Identifier: BSD-3-Clause
//
// Durations in messages and tables, in one notation.
//
// Threads: any.
#pragma once

#include <stdint.h>

#define WEIR_DURATION_BYTES 24

// Writes the two largest units of a duration, or seconds with one decimal if it is shorter than a
// minute: 4.1s, 15m12s, 3h05m, 2d04h. Returns buffer.
const char *weir_duration_text(uint64_t ms, char buffer[WEIR_DURATION_BYTES]);
