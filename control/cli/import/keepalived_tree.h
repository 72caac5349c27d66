// SPDX-License-Identifier: BSD-3-Clause
//
// The text of a keepalived.conf as a tree of statements: handles includes, conditions (@id),
// definitions ($NAME, also of several lines), comments and quotes, but not the meaning of a
// statement, except that a virtual_server is in no other block: the "}" of one before it is
// missing.
//
// Threads: any. Pure: the caller reads the files.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "import.h"

#define WEIR_KEEPALIVED_WORDS_MAX 256 // of a statement; further ones are left out

struct weir_keepalived_files {
	// The n-th file of an include, resolved as in keepalived: relative to the including file,
	// with wildcards. The caller frees *ret_name and *ret_text. Returns 0, -ENOENT (no n-th
	// one), or another negative errno: of the n-th file if *ret_name is set, else of all of
	// them.
	int (*open)(void *context, const char *from, const char *pattern, unsigned int n,
		char **ret_name, char **ret_text, size_t *ret_bytes);
	void *context;
	const char *id; // for lines "@id ..."; NULL = none
};

struct weir_keepalived_statement {
	struct weir_import_place place;
	unsigned int count; // of words, at least 1
	const char **word; // the first one is the keyword; NULL after the last one
	bool block; // has braces
	struct weir_keepalived_statement *children, *next; // in order
};

struct weir_keepalived_tree {
	struct weir_keepalived_statement *statements;
	void *memory; // all memory of the tree
};

// Read a file and its includes. Errors are added to import. Free the tree after the last use of a
// place in it.
void weir_keepalived_read(struct weir_import *import, const struct weir_keepalived_files *files,
	const char *file, const char *text, size_t bytes, struct weir_keepalived_tree *ret);
void weir_keepalived_free(struct weir_keepalived_tree *tree);
