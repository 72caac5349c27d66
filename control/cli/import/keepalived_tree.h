// SPDX-License-Identifier: BSD-3-Clause
//
// Parses the text of a keepalived.conf into a tree of statements. Handles includes, conditions
// (@id), definitions ($NAME, also on several lines), sequences (~SEQ), comments and quotes. Does
// not interpret statements, with one exception: a virtual_server ends all open blocks, because
// their "}" is missing.
//
// Threads: any; no shared state. The caller reads the files.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "import.h"

#define WEIR_KEEPALIVED_WORDS_MAX 256 // words of a statement; further words are left out

struct weir_keepalived_files {
	// Read the n-th file of an include. As in keepalived, the pattern may have wildcards, and
	// is relative to the directory of the including file. The caller frees *ret_name and
	// *ret_text. Returns 0, -ENOENT (there is no n-th file), or another negative errno. An
	// error applies to the n-th file if *ret_name is set, otherwise to the whole include.
	int (*open)(void *context, const char *from, const char *pattern, unsigned int n,
		char **ret_name, char **ret_text, size_t *ret_bytes);
	void *context;
	const char *id; // selects lines "@id ..."; NULL = none
};

struct weir_keepalived_statement {
	struct weir_import_place place;
	unsigned int count; // number of words, at least 1
	const char **word; // first word: the keyword; NULL after the last word
	bool block; // the statement has braces
	struct weir_keepalived_statement *children, *next; // in the order of the file
};

struct weir_keepalived_tree {
	struct weir_keepalived_statement *statements;
	void *memory; // all memory of the tree
};

// Read a file and its includes. Errors are added to import. Do not free the tree while the `place`
// of one of its statements is in use.
void weir_keepalived_read(struct weir_import *import, const struct weir_keepalived_files *files,
	const char *file, const char *text, size_t bytes, struct weir_keepalived_tree *ret);
void weir_keepalived_free(struct weir_keepalived_tree *tree);
