// SPDX-License-Identifier: BSD-3-Clause
//
// Texts of replies: converts JSON to the line that is sent to a client. A long list is converted
// row by row. Used only by api.c.
//
// Threads: the thread of the event loop.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api.h"

#define WEIR_API_DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(10))

// Converts text to a JSON string. If text is not valid UTF-8, first overwrites each byte above 0x7f
// in `text` with '?'. NULL: out of memory.
json_t *weir_api_safe_string(char *text);

// The reply to a request for a list, {"ok":true,"result":...}, with the rows written so far.
struct weir_api_list {
	struct weir_api_rows rows;
	char *text; // or NULL
	size_t bytes, room;
	const char *end; // closing characters of the text
	bool began; // has at least one row
};

// Writes everything that precedes the first row. not_published: why some changes are not published;
// "" = all are published. head, member and rows: as in weir_api_answer_rows, but the caller keeps
// its reference to head. Returns 0 or -ENOMEM; call weir_api_list_release in both cases.
int weir_api_list_begin(struct weir_api_list *list, char *not_published, const json_t *head,
	const char *member, const struct weir_api_rows *rows);
// Writes the next row, or the end of the list after the last row. Returns 1 after a row, 0 after
// the end, or negative errno.
int weir_api_list_next(struct weir_api_list *list);
// Release the list. Returns its text, owned by the caller, or NULL.
char *weir_api_list_release(struct weir_api_list *list);
