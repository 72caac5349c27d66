// SPDX-License-Identifier: BSD-3-Clause
#include "json_position.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct scanner {
	const char *text;
	size_t bytes, at;
	size_t line_start;
	uint32_t line;
	struct weir_json_node *node;
	uint32_t count, room;
};

static void skip_space(struct scanner *s) {
	while (s->at < s->bytes) {
		char c = s->text[s->at];

		if (c == '\n') {
			s->line++;
			s->line_start = s->at + 1;
		} else if (c != ' ' && c != '\t' && c != '\r') {
			break;
		}
		s->at++;
	}
}

static uint32_t column(const struct scanner *s) {
	return (uint32_t)(s->at - s->line_start) + 1;
}

static bool skip_string(struct scanner *s) {
	for (s->at++; s->at < s->bytes; s->at++) {
		if (s->text[s->at] == '\\') {
			s->at++;
		} else if (s->text[s->at] == '"') {
			s->at++;
			return true;
		}
	}
	return false;
}

static void skip_word(struct scanner *s) {
	while (s->at < s->bytes && strchr(" \t\r\n,]}:", s->text[s->at]) == NULL) {
		s->at++;
	}
}

static int add_node(struct scanner *s, const struct weir_json_node *node) {
	if (s->count == s->room) {
		uint32_t room = s->room ? s->room * 2 : 64;
		struct weir_json_node *grown = realloc(s->node, room * sizeof(*grown));

		if (grown == NULL) {
			return -ENOMEM;
		}
		s->node = grown;
		s->room = room;
	}
	s->node[s->count++] = *node;
	return 0;
}

// Scan the key of a member of an object, and the colon after the key.
static int scan_key(struct scanner *s, struct weir_json_node *node) {
	if (s->at >= s->bytes || s->text[s->at] != '"') {
		return -EINVAL;
	}
	node->key_line = s->line;
	node->key_column = column(s);
	node->key = (uint32_t)s->at + 1;
	if (!skip_string(s)) {
		return -EINVAL;
	}
	node->key_bytes = (uint32_t)(s->at - node->key - 1);
	skip_space(s);
	if (s->at >= s->bytes || s->text[s->at] != ':') {
		return -EINVAL;
	}
	s->at++;
	skip_space(s);
	return 0;
}

// Scan a value, with its key if the value is a member of an object. *open: the enclosing container.
// If the value is a container, *open is set to the value.
static int scan_value(struct scanner *s, uint32_t *open) {
	struct weir_json_node node = {.next = *open};
	size_t start;
	int r;

	if (*open != WEIR_JSON_NO_NODE && s->text[s->node[*open].at] == '{') {
		r = scan_key(s, &node);
		if (r) {
			return r;
		}
	}
	if (s->at >= s->bytes) {
		return -EINVAL;
	}
	start = s->at;
	node.at = (uint32_t)start;
	node.line = s->line;
	node.column = column(s);
	r = add_node(s, &node);
	if (r) {
		return r;
	}
	if (s->text[start] == '{' || s->text[start] == '[') {
		*open = s->count - 1;
		s->at++;
		return 0;
	}
	s->node[s->count - 1].next = s->count;
	if (s->text[start] == '"') {
		return skip_string(s) ? 0 : -EINVAL;
	}
	skip_word(s);
	return s->at > start ? 0 : -EINVAL;
}

// Scans the text. While a container is open, its `next` holds the index of the enclosing container.
static int scan(struct scanner *s) {
	uint32_t open = WEIR_JSON_NO_NODE;

	do {
		char c;

		skip_space(s);
		if (s->at >= s->bytes) {
			return -EINVAL;
		}
		c = s->text[s->at];
		if (open != WEIR_JSON_NO_NODE && (c == '}' || c == ']')) {
			uint32_t closed = open;

			open = s->node[closed].next;
			s->node[closed].next = s->count;
			s->at++;
		} else if (open != WEIR_JSON_NO_NODE && c == ',') {
			s->at++;
		} else {
			int r = scan_value(s, &open);

			if (r) {
				return r;
			}
		}
	} while (open != WEIR_JSON_NO_NODE);
	return 0;
}

int weir_json_index_init(struct weir_json_index *index, const char *text, size_t bytes) {
	struct scanner s = {.text = text, .bytes = bytes, .line = 1};
	int r;

	if (bytes >= 1u << 31) {
		return -EINVAL;
	}
	r = scan(&s);
	if (r) {
		free(s.node);
		return r;
	}
	*index = (struct weir_json_index){.text = text, .node = s.node, .count = s.count};
	return 0;
}

void weir_json_index_fini(struct weir_json_index *index) {
	free(index->node);
	*index = (struct weir_json_index){0};
}

uint32_t weir_json_first(const struct weir_json_index *index, uint32_t container) {
	if (container >= index->count || index->node[container].next == container + 1) {
		return WEIR_JSON_NO_NODE;
	}
	return container + 1;
}

uint32_t weir_json_sibling(const struct weir_json_index *index, uint32_t container, uint32_t node) {
	uint32_t next;

	if (container >= index->count || node >= index->count) {
		return WEIR_JSON_NO_NODE;
	}
	next = index->node[node].next;
	return next < index->node[container].next ? next : WEIR_JSON_NO_NODE;
}

static uint32_t member(
	const struct weir_json_index *index, uint32_t object, const char *key, size_t bytes) {
	for (uint32_t n = weir_json_first(index, object); n != WEIR_JSON_NO_NODE;
		n = weir_json_sibling(index, object, n)) {
		const struct weir_json_node *node = &index->node[n];

		if (node->key_line && node->key_bytes == bytes &&
			memcmp(index->text + node->key, key, bytes) == 0) {
			return n;
		}
	}
	return WEIR_JSON_NO_NODE;
}

uint32_t weir_json_member(const struct weir_json_index *index, uint32_t object, const char *key) {
	return member(index, object, key, strlen(key));
}

uint32_t weir_json_element(const struct weir_json_index *index, uint32_t array, uint32_t number) {
	uint32_t n = weir_json_first(index, array);

	if (n != WEIR_JSON_NO_NODE && index->text[index->node[array].at] != '[') {
		return WEIR_JSON_NO_NODE;
	}
	while (n != WEIR_JSON_NO_NODE && number > 0) {
		n = weir_json_sibling(index, array, n);
		number--;
	}
	return n;
}

uint32_t weir_json_find(const struct weir_json_index *index, const char *path) {
	uint32_t node = index->count ? 0 : WEIR_JSON_NO_NODE;

	while (*path && node != WEIR_JSON_NO_NODE) {
		if (*path == '[') {
			char *end;
			unsigned long number = strtoul(path + 1, &end, 10);

			if (end == path + 1 || *end != ']' || number >= UINT32_MAX) {
				return WEIR_JSON_NO_NODE;
			}
			node = weir_json_element(index, node, (uint32_t)number);
			path = end + 1;
		} else {
			size_t bytes;

			path += *path == '.';
			bytes = strcspn(path, ".[");
			node = member(index, node, path, bytes);
			path += bytes;
		}
	}
	return node;
}
