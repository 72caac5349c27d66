// SPDX-License-Identifier: BSD-3-Clause
//
// "Did you mean": finds the known word nearest to a mistyped one. Used for keys of the
// configuration and of scenarios, for commands and for options.
//
// Threads: any.
#pragma once

#include <stdint.h>

// The candidate nearest to a word by edit distance, else the one with the same beginning; NULL if
// none is close.
const char *weir_nearest(const char *word, const char *const *candidates, uint32_t count);
