// SPDX-License-Identifier: BSD-3-Clause
//
// Pattern: regular expressions of the configuration, in the syntax of PCRE2. They match bytes, not
// characters. The work of a search is limited, because the searched bytes come from servers.
//
// Threads: any.
#pragma once

#include <stddef.h>

#define WEIR_PATTERN_WHY_BYTES 160

// Checks the syntax. Returns 0, -EINVAL, or -ENOMEM; on an error, writes the reason to why.
int weir_pattern_check(const char *pattern, char why[WEIR_PATTERN_WHY_BYTES]);

// Searches for a valid pattern in data, which may contain NUL bytes. Cost: some microseconds to
// compile the pattern, and at most some milliseconds for the search. Returns 1 (found), 0 (not
// found), -E2BIG (the limit of the search was reached), or -ENOMEM.
int weir_pattern_search(const char *pattern, const void *data, size_t bytes);
