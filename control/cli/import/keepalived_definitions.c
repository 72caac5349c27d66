// SPDX-License-Identifier: BSD-3-Clause
#include "keepalived_definitions.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t name_bytes(const char *text) {
	size_t bytes = 0;

	while (isalnum((unsigned char)text[bytes]) || text[bytes] == '_') {
		bytes++;
	}
	return bytes;
}

static bool is_name(const char *own, const char *name, size_t bytes) {
	return strlen(own) == bytes && memcmp(own, name, bytes) == 0;
}

// --- values -------------------------------------------------------------------------------

// Returns the value of a built-in definition of keepalived, or NULL. path: buffer for a value that
// is a path or a number.
static const char *built_in(const char *file, const char *name, size_t bytes, char *path) {
	static const char *const names[][2] = {{"_INSTANCE", ""}, {"_HASH", "#"}, {"_BANG", "!"}};
	const char *slash = strrchr(file, '/');

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (is_name(names[i][0], name, bytes)) {
			return names[i][1];
		}
	}
	if (is_name("_RANDOM", name,
		    bytes)) { // "${_RANDOM 1 9}" is replaced with its smallest value, 1
		snprintf(path, WEIR_KEEPALIVED_LINE_BYTES, "%ld", strtol(name + bytes, NULL, 10));
		return path;
	}
	if (!is_name("_PWD", name, bytes)) {
		return NULL;
	}
	snprintf(path, WEIR_KEEPALIVED_LINE_BYTES, "%.*s", slash != NULL ? (int)(slash - file) : 1,
		slash != NULL ? file : ".");
	return path;
}

static const char *defined(const struct weir_keepalived_definitions *definitions, const char *file,
	const char *name, size_t bytes, char *path) {
	for (unsigned int i = 0; i < definitions->count; i++) {
		if (is_name(definitions->definition[i].name, name, bytes)) {
			return definitions->definition[i].value;
		}
	}
	return built_in(file, name, bytes, path);
}

// Append the text. Text that does not fit into the buffer is dropped.
static void append(struct weir_keepalived_expansion *expansion, const char *text, size_t bytes) {
	size_t room = sizeof(expansion->line) - 1 - expansion->used;
	size_t n = bytes < room ? bytes : room;

	memcpy(expansion->line + expansion->used, text, n);
	expansion->used += n;
}

// Replace "$NAME" or "${NAME}" at the beginning of the text. Returns the length of the replaced
// text.
static size_t replace(const struct weir_keepalived_definitions *definitions, const char *file,
	const char *text, struct weir_keepalived_expansion *expansion) {
	bool braces = text[1] == '{';
	const char *name = text + 1 + braces, *value, *end;
	size_t bytes = name_bytes(name), length = 1 + bytes;

	end = braces ? strchr(name + bytes, '}') : NULL;
	if (bytes == 0 || (braces && end == NULL)) {
		append(expansion, text, 1);
		return 1;
	}
	if (braces) { // braces may contain arguments: "${_RANDOM 1 9}"
		length = (size_t)(end - text) + 1;
	}
	value = defined(definitions, file, name, bytes, expansion->path);
	if (value == NULL) { // unknown name, such as a variable of a script: kept, without braces
		append(expansion, "$", 1);
		append(expansion, name, bytes);
		return length;
	}
	expansion->any = true;
	bytes = strcspn(value, "\n");
	append(expansion, value, bytes);
	if (value[bytes] != '\0' && expansion->rest == NULL) {
		expansion->rest = value + bytes + 1;
	}
	return length;
}

bool weir_keepalived_expand(const struct weir_keepalived_definitions *definitions, const char *file,
	const char *text, struct weir_keepalived_expansion *expansion) {
	expansion->used = 0;
	expansion->rest = NULL;
	expansion->any = false;
	while (*text != '\0') {
		size_t bytes = strcspn(text, "$");

		if (bytes > 0) {
			append(expansion, text, bytes);
		} else {
			bytes = replace(definitions, file, text, expansion);
		}
		text += bytes;
	}
	expansion->line[expansion->used] = '\0';
	return expansion->used < sizeof(expansion->line) - 1;
}

// --- definitions --------------------------------------------------------------------------

// Returns the position of the comment in a line, or the length of the line if it has no comment.
static size_t comment_at(const char *line, size_t bytes) {
	bool quoted = false;
	size_t at = 0;

	for (; at < bytes && (quoted || strchr("#!", line[at]) == NULL); at++) {
		quoted ^= line[at] == '"';
	}
	return at;
}

// Returns the length of a line without its comment and without a "\" at its end. *ret_more: whether
// the line has such a "\", and so continues on the next line.
static size_t line_bytes(const char *line, bool *ret_more) {
	size_t bytes = strlen(line);

	while (bytes > 0 && isspace((unsigned char)line[bytes - 1])) {
		bytes--;
	}
	*ret_more = bytes > 0 && line[bytes - 1] == '\\';
	bytes = comment_at(line, bytes - *ret_more);
	while (bytes > 0 && isspace((unsigned char)line[bytes - 1])) {
		bytes--;
	}
	return bytes;
}

int weir_keepalived_set(struct weir_keepalived_definitions *definitions, const char *name,
	size_t bytes, const char *value) {
	struct weir_keepalived_definition *definition = definitions->definition;
	struct weir_keepalived_definition *end = definition + definitions->count;
	char *copy = strdup(value), *own_name;

	while (definition < end && !is_name(definition->name, name, bytes)) {
		definition++;
	}
	if (definition < end && copy != NULL) {
		free(definition->value);
		definition->value = copy;
		return 0;
	}
	own_name = strndup(name, bytes);
	if (copy == NULL || own_name == NULL ||
		definitions->count == WEIR_KEEPALIVED_DEFINITIONS_MAX) {
		int r = copy == NULL || own_name == NULL ? -ENOMEM : -ENOSPC;

		free(copy);
		free(own_name);
		return r;
	}
	*definition = (struct weir_keepalived_definition){own_name, copy};
	definitions->count++;
	return 0;
}

int weir_keepalived_define_more(struct weir_keepalived_definitions *definitions, const char *line) {
	struct weir_keepalived_definition *definition = definitions->unfinished;
	size_t before = strlen(definition->value), bytes;
	char *value;
	bool more;

	bytes = line_bytes(line, &more);
	definitions->unfinished = NULL;
	if (before + bytes > WEIR_KEEPALIVED_DEFINITION_BYTES) {
		return -E2BIG;
	}
	value = realloc(definition->value, before + 1 + bytes + 1);
	if (value == NULL) {
		return -ENOMEM;
	}
	if (before > 0) {
		value[before++] = '\n';
	}
	memcpy(value + before, line, bytes);
	value[before + bytes] = '\0';
	definition->value = value;
	definitions->unfinished = more ? definition : NULL;
	return 0;
}

int weir_keepalived_define(struct weir_keepalived_definitions *definitions, const char *line) {
	size_t bytes = line[0] == '$' ? name_bytes(line + 1) : 0;
	const char *value = line + 1 + bytes;
	int r;

	if (bytes == 0 || *value != '=') {
		return 0;
	}
	r = weir_keepalived_set(definitions, line + 1, bytes, "");
	if (r < 0) {
		return r;
	}
	for (unsigned int i = 0; i < definitions->count; i++) {
		if (is_name(definitions->definition[i].name, line + 1, bytes)) {
			definitions->unfinished = &definitions->definition[i];
		}
	}
	r = weir_keepalived_define_more(definitions, value + 1 + strspn(value + 1, " \t"));
	return r < 0 ? r : 1;
}

void weir_keepalived_definitions_fini(struct weir_keepalived_definitions *definitions) {
	for (unsigned int i = 0; i < definitions->count; i++) {
		free(definitions->definition[i].name);
		free(definitions->definition[i].value);
	}
	definitions->count = 0;
}
