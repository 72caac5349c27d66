// SPDX-License-Identifier: BSD-3-Clause
//
// Writes a text in several steps.
//
// Threads: any.
#pragma once

#include <stddef.h>

// Appends to the text in a buffer of `bytes` bytes. A text that is too long is truncated.
__attribute__((format(printf, 3, 4))) void weir_append(
	char *text, size_t bytes, const char *format, ...);
