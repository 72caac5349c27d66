// SPDX-License-Identifier: BSD-3-Clause
//
// Definitions of a keepalived.conf. A line "$NAME=value" defines a name. If the line ends with "\",
// the value continues on the next line. "$NAME" or "${NAME}" is replaced with the value. keepalived
// also has built-in definitions, such as ${_PWD}.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Maximum length of a line after its definitions are replaced, with its NUL.
#define WEIR_KEEPALIVED_LINE_BYTES 8192
#define WEIR_KEEPALIVED_DEFINITIONS_MAX 1024
#define WEIR_KEEPALIVED_DEFINITION_BYTES 65536

struct weir_keepalived_definition {
	char *name, *value; // lines of the value are separated by "\n"
};

struct weir_keepalived_definitions { // zeroed at first
	struct weir_keepalived_definition definition[WEIR_KEEPALIVED_DEFINITIONS_MAX];
	unsigned int count;
	// Definition whose value continues on the next line of the file; NULL = none.
	struct weir_keepalived_definition *unfinished;
};

struct weir_keepalived_expansion {
	char line[WEIR_KEEPALIVED_LINE_BYTES];
	size_t used;
	const char *rest; // further lines of a definition, valid until the definition is set again;
			  // NULL = none
	bool any; // at least one name was replaced by its value
	char path[WEIR_KEEPALIVED_LINE_BYTES]; // buffer for the value of a built-in definition
};

void weir_keepalived_definitions_fini(struct weir_keepalived_definitions *definitions);

// Add or replace a definition. bytes: length of the name. Returns 0, -ENOSPC (too many definitions)
// or -ENOMEM.
int weir_keepalived_set(struct weir_keepalived_definitions *definitions, const char *name,
	size_t bytes, const char *value);
// Read a line "$NAME=value". Returns 1, or 0 if the line is not a definition, or -ENOSPC, -E2BIG or
// -ENOMEM.
int weir_keepalived_define(struct weir_keepalived_definitions *definitions, const char *line);
// Read the next line of an unfinished definition. Returns 0, -E2BIG or -ENOMEM.
int weir_keepalived_define_more(struct weir_keepalived_definitions *definitions, const char *line);

// Replace the names in a line with their values. Does not replace names inside the values. Keeps
// unknown names, but without braces. file: name of the file that contains the line, for ${_PWD}.
// Returns false if the line has no room for a further byte, and so may be truncated.
bool weir_keepalived_expand(const struct weir_keepalived_definitions *definitions, const char *file,
	const char *text, struct weir_keepalived_expansion *ret);
