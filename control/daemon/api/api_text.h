// SPDX-License-Identifier: BSD-3-Clause
//
// Texts of replies: converts JSON to the line that is sent to a client. A long list is converted
// row by row. Used by api.c; api_audit.c uses weir_api_safe_string.
//
// Threads: the thread of the event loop.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "api.h"

#define WEIR_API_DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(10))

// Returns text as a JSON string; NULL = out of memory. If text is not valid UTF-8, each byte above
// 0x7f in `text` is first overwritten with '?'.
json_t *weir_api_safe_string(char *text);

// A reply to a request for a list, {"ok":true,"result":...}, with the rows that were written so
// far.
struct weir_api_list {
	struct weir_api_rows rows;
	char *text; // or NULL
	size_t bytes, room;
	const char *end; // closing characters of the text
	bool began; // at least one row of the current list was written
};

// Writes the part of the reply before the first row. not_published: why some changes are not
// published; "" = no such reason. head, member and rows: as in weir_api_answer_rows, but the caller
// keeps its reference to head. Returns 0 or -ENOMEM; call weir_api_list_release in both cases.
int weir_api_list_begin(struct weir_api_list *list, char *not_published, const json_t *head,
	const char *member, const struct weir_api_rows *rows);
// Writes the next row, the beginning of the next list, or the end of the reply after the last row.
// Returns 1 after a row or a beginning, 0 after the end, or negative errno: -ENOMEM, or the error
// of `next` of struct weir_api_rows.
int weir_api_list_next(struct weir_api_list *list);
// Release the list and the context of its rows. Returns the text of the reply, owned by the caller,
// or NULL.
char *weir_api_list_release(struct weir_api_list *list);
