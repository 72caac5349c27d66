// SPDX-License-Identifier: BSD-3-Clause
//
// The text of a keepalived.conf as a tree of statements: includes, conditions (@id), definitions
// ($NAME), comments and quotes are dealt with here; what a statement means is not known.
//
// Threads: any. Pure: files come from the caller.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "import.h"

#define WEIR_KEEPALIVED_WORDS_MAX 64 // of a statement

struct weir_keepalived_files {
	// The n-th file that an include names, as keepalived does: relative to the file that names
	// it, with wildcards. *ret_name and *ret_text are given to the caller to be freed. Returns
	// 0, -ENOENT (no n-th one), or another negative errno.
	int (*open)(void *context, const char *from, const char *pattern, unsigned int n,
		char **ret_name, char **ret_text, size_t *ret_bytes);
	void *context;
	const char *id; // of lines "@id ..."; NULL = none
};

struct weir_keepalived_statement {
	struct weir_import_place place;
	unsigned int count; // of words, at least 1
	const char **word; // the first one is the keyword; NULL behind the last one
	bool block; // has braces
	struct weir_keepalived_statement *children, *next; // in order
};

struct weir_keepalived_tree {
	struct weir_keepalived_statement *statements;
	void *memory; // of all of it
};

// Read a file and what it includes. What is wrong goes to import's errors. The tree is to be freed
// after the last use of a place in it.
void weir_keepalived_read(struct weir_import *import, const struct weir_keepalived_files *files,
	const char *file, const char *text, size_t bytes, struct weir_keepalived_tree *ret);
void weir_keepalived_free(struct weir_keepalived_tree *tree);
