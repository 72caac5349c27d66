// SPDX-License-Identifier: BSD-3-Clause
//
// "Did you mean": the known word nearest to a mistyped one. Used for keys of the configuration and
// of scenarios, for commands and for options.
//
// Threads: any.
#pragma once

#include <stdint.h>

// The candidate nearest to a word by edit distance, or NULL when none is near.
const char *weir_nearest(const char *word, const char *const *candidates, uint32_t count);
