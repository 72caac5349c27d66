// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of weirctl import keepalived: parts of its configuration, and of the result.
#pragma once

#include "import_lab.h"

#define REAL "real_server 10.0.0.1 80 {\n }\n"

// Follows other text. The import has this service, whatever the other text is.
#define GOOD "virtual_server 192.0.2.9 80 {\n protocol TCP\n" REAL "}\n"

// Whether a note is about a statement with this part.
static inline bool has_note(const struct lab *lab, const char *part) {
	const json_t *row;
	size_t i;

	json_array_foreach (lab->import.notes, i, row) {
		if (strstr(text_in(row, "what"), part) != NULL) {
			return true;
		}
	}
	return false;
}
