// SPDX-License-Identifier: BSD-3-Clause
//
// Texts of replies: converts JSON to the line that is sent to a client; a long list is converted
// row by row. Used only by api.c. Independent of clients.
//
// Threads: the thread of the event loop.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api.h"

#define WEIR_API_DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(10))

// Convert text to a JSON string. Replaces truncated characters and bytes that are not UTF-8, in
// text as well. NULL: out of memory.
json_t *weir_api_safe_string(char *text);

// The reply to a request for a list, {"ok":true,"result":...}, with its rows so far.
struct weir_api_list {
	struct weir_api_rows rows;
	char *text; // or NULL
	size_t bytes, room;
	const char *end; // closing characters of the text
	bool began; // has at least one row
};

// Write everything before the first row. not_published: why not everything is published; "" =
// everything is published. head, member and rows: as in weir_api_answer_rows, but the caller keeps
// its reference of head. Returns 0 or -ENOMEM; call weir_api_list_release in both cases.
int weir_api_list_begin(struct weir_api_list *list, char *not_published, const json_t *head,
	const char *member, const struct weir_api_rows *rows);
// Write the next row; after the last row, the end. Returns 1 after a row, 0 after the end, or
// negative errno.
int weir_api_list_next(struct weir_api_list *list);
// Release the list. Returns its text, owned by the caller, or NULL.
char *weir_api_list_release(struct weir_api_list *list);
