// SPDX-License-Identifier: BSD-3-Clause
//
// Positions in a JSON text: line and column of each value and key of a parsed text, for error
// messages. jansson keeps no positions. config.c and the simulator fill the index once per text;
// json_reader.c, json_errors.c and the simulator use it.
//
// Values are numbered in document order: 0 is the root, and the members of a container follow the
// container. jansson also keeps members in document order. Therefore a caller can step through the
// values of jansson and the nodes of the index together.
//
// Threads: any; an index does not change after it is made.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define WEIR_JSON_NO_NODE UINT32_MAX

struct weir_json_node {
	uint32_t at; // offset of the value
	uint32_t line, column; // position of the value, 1-based; columns count bytes
	uint32_t key_line, key_column; // position of the key; 0 outside of objects
	uint32_t key; // offset of the key's text, after the quote
	uint32_t key_bytes; // length in the text, with unresolved escapes
	uint32_t next; // index of the next value after this value and its members
};

struct weir_json_index {
	const char *text; // borrowed
	struct weir_json_node *node;
	uint32_t count;
};

// Make the index of a text that a JSON parser has accepted. The text must outlive the index.
// Returns 0, -EINVAL (invalid JSON, or 2 GiB or more), -ENOMEM.
int weir_json_index_init(struct weir_json_index *index, const char *text, size_t bytes);
void weir_json_index_fini(struct weir_json_index *index);

// weir_json_first returns the first member of a container, weir_json_sibling the next member after
// `node`. Both return WEIR_JSON_NO_NODE if there is none, or if the argument is WEIR_JSON_NO_NODE.
uint32_t weir_json_first(const struct weir_json_index *index, uint32_t container);
uint32_t weir_json_sibling(const struct weir_json_index *index, uint32_t container, uint32_t node);

// Find the member of an object by key, the element of an array by index, or a value by JSON path,
// such as "services[2].backends[0].address" ("" = the root). A key that the text writes with
// escapes is not found. Return WEIR_JSON_NO_NODE if there is none.
uint32_t weir_json_member(const struct weir_json_index *index, uint32_t object, const char *key);
uint32_t weir_json_element(const struct weir_json_index *index, uint32_t array, uint32_t number);
uint32_t weir_json_find(const struct weir_json_index *index, const char *path);
