// SPDX-License-Identifier: BSD-3-Clause
//
// Texts of replies: how JSON becomes the line that a client gets, and that of a long list row by
// row. For api.c only. Independent of clients.
//
// Threads: one, that of the event loop.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api.h"

#define WEIR_API_DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(10))

// Text for JSON: replaces truncated characters and bytes that are not UTF-8, in text too. NULL: out
// of memory.
json_t *weir_api_safe_string(char *text);

// The reply to a request for a list: {"ok":true,"result":...}, as far as its rows have come.
struct weir_api_list {
	struct weir_api_rows rows;
	char *text; // or NULL
	size_t bytes, room;
	const char *end; // of the text
	bool began; // has a row
};

// Write everything in front of the first row. not_published: why not everything is, "" = all is.
// head, member and rows as in weir_api_answer_rows, but head stays the caller's. Returns 0 or
// -ENOMEM; weir_api_list_release is due in any case.
int weir_api_list_begin(struct weir_api_list *list, char *not_published, const json_t *head,
	const char *member, const struct weir_api_rows *rows);
// Write the next row, or the end. Returns 1 after a row, 0 after the end, or negative errno.
int weir_api_list_next(struct weir_api_list *list);
// Free what the list owns. Returns its text, which becomes the caller's, or NULL.
char *weir_api_list_release(struct weir_api_list *list);
