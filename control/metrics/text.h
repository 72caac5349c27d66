// SPDX-License-Identifier: BSD-3-Clause
//
// Text that grows as it is written. After a failed allocation it stays as it is, and says so in the
// end: nobody has to look at every line.
//
// Threads: one text is used by one thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct weir_text {
	char *data; // not terminated; free it
	size_t bytes, room;
	bool failed; // out of memory: data is incomplete
};

void weir_text_add(struct weir_text *text, const char *data, size_t bytes);
void weir_text_string(struct weir_text *text, const char *string);
void weir_text_integer(struct weir_text *text, long long number);
// With up to twelve digits that count.
void weir_text_real(struct weir_text *text, double number);
// As the value of a label or a line of help: \, " and line ends are escaped, other control
// characters replaced.
void weir_text_escaped(struct weir_text *text, const char *string, bool quotes);
