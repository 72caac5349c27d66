// SPDX-License-Identifier: BSD-3-Clause
//
// "Did you mean": finds the known word nearest to a mistyped word. Used for keys and values of the
// configuration and of scenarios, for commands, and for options and their values.
//
// Threads: any.
#pragma once

#include <stdint.h>

// Returns the candidate that is nearest to a word by edit distance. If no candidate is near enough,
// returns the candidate that has the longest common prefix with the word, or NULL if this prefix is
// too short.
const char *weir_nearest(const char *word, const char *const *candidates, uint32_t count);
