// SPDX-License-Identifier: BSD-3-Clause
//
// Counts in messages: "1 key", "2 keys".
//
// Threads: any.
#pragma once

#include <stdint.h>

// The end of a noun for this count: "" or "s", as in "%u key%s", count, weir_plural(count).
static inline const char *weir_plural(uint64_t count) {
	return count == 1 ? "" : "s";
}
