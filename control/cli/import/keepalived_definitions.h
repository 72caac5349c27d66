// SPDX-License-Identifier: BSD-3-Clause
//
// Definitions of a keepalived.conf: "$NAME=value", also of several lines, and "$NAME" or "${NAME}"
// where they are used. keepalived has some of its own, such as ${_PWD}.
//
// Threads: any. Pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define WEIR_KEEPALIVED_LINE_BYTES 8192 // after expanding definitions
#define WEIR_KEEPALIVED_DEFINITIONS_MAX 1024
#define WEIR_KEEPALIVED_DEFINITION_BYTES 65536

struct weir_keepalived_definition {
	char *name, *value; // lines of the value are separated by "\n"
};

struct weir_keepalived_definitions { // zeroed at first
	struct weir_keepalived_definition definition[WEIR_KEEPALIVED_DEFINITIONS_MAX];
	unsigned int count;
	// The value continues on the next line of the file; NULL = none.
	struct weir_keepalived_definition *unfinished;
};

struct weir_keepalived_expansion {
	char line[WEIR_KEEPALIVED_LINE_BYTES];
	size_t used;
	const char *rest; // further lines of a definition, until the definition is set again; NULL
			  // = none
	bool any; // a definition was replaced
	char path[WEIR_KEEPALIVED_LINE_BYTES];
};

void weir_keepalived_definitions_fini(struct weir_keepalived_definitions *definitions);

// Define, or define again. Returns 0, -ENOSPC (too many), -ENOMEM.
int weir_keepalived_set(struct weir_keepalived_definitions *definitions, const char *name,
	size_t bytes, const char *value);
// A line "$NAME=value". Returns 1, 0 if it is another line, or negative errno as above.
int weir_keepalived_define(struct weir_keepalived_definitions *definitions, const char *line);
// The next line of an unfinished definition. Returns 0, -E2BIG, -ENOMEM.
int weir_keepalived_define_more(struct weir_keepalived_definitions *definitions, const char *line);

// Replace the names in a line by their values, once: values may contain further names. Unknown
// names stay. file: contains the line. Returns false if the line was truncated.
bool weir_keepalived_expand(const struct weir_keepalived_definitions *definitions, const char *file,
	const char *text, struct weir_keepalived_expansion *ret);
