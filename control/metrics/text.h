// SPDX-License-Identifier: BSD-3-Clause
//
// Text buffer that grows as needed. If an allocation fails, `failed` becomes true and the text no
// longer changes, so callers need to check for errors only once, at the end.
//
// Threads: a text is used by one thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct weir_text {
	char *data; // no NUL at the end; the owner of the text frees it
	size_t bytes, room;
	bool failed; // out of memory: data is incomplete
};

void weir_text_add(struct weir_text *text, const char *data, size_t bytes);
void weir_text_string(struct weir_text *text, const char *string);
void weir_text_integer(struct weir_text *text, long long number);
// Append a number with up to twelve significant digits.
void weir_text_real(struct weir_text *text, double number);
// Appends a label value or help line. Escapes \ and line ends and, if `quotes` is true, also ".
// Replaces other control characters by '?'.
void weir_text_escaped(struct weir_text *text, const char *string, bool quotes);
