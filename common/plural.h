// SPDX-License-Identifier: BSD-3-Clause
//
// Singular and plural of nouns in messages: "1 key", "2 keys".
//
// Threads: any.
#pragma once

#include <stdint.h>

// Returns the ending of a noun for this count, "" or "s". Example: "%u key%s", count,
// weir_plural(count).
static inline const char *weir_plural(uint64_t count) {
	return count == 1 ? "" : "s";
}
