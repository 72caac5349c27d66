// SPDX-License-Identifier: BSD-3-Clause
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_reader.h"

#define KEY_SHOWN 64 // bytes of an unknown key repeated in a path

static struct weir_config_error *add_error(struct weir_reader *reader) {
	struct weir_config_errors *errors = reader->errors;

	if (errors->count >= WEIR_CONFIG_ERRORS_MAX) {
		reader->left_out++;
		return NULL;
	}
	if ((errors->count & (errors->count - 1)) == 0) {
		size_t room = errors->count ? (size_t)errors->count * 2 : 1;
		void *grown = realloc(errors->error, room * sizeof(*errors->error));

		if (!grown) {
			reader->out_of_memory = true;
			return NULL;
		}
		errors->error = grown;
	}
	errors->error[errors->count] = (struct weir_config_error){0};
	return &errors->error[errors->count++];
}

static void write_path(const struct weir_place *place, char *path, size_t bytes) {
	char key[KEY_SHOWN];
	size_t used;

	if (!place->parent) {
		path[0] = '\0';
		return;
	}
	write_path(place->parent, path, bytes);
	used = strlen(path);
	if (place->key) {
		snprintf(path + used, bytes - used, "%s%s", used ? "." : "",
			weir_printable(place->key, key, sizeof(key)));
	} else {
		snprintf(path + used, bytes - used, "[%u]", place->index);
	}
}

static void set_reason(struct weir_config_error *error, const char *format, va_list arguments) {
	char text[sizeof(error->reason)];

	vsnprintf(text, sizeof(text), format, arguments);
	weir_printable(text, error->reason, sizeof(error->reason));
}

static void set_place(const struct weir_reader *reader, struct weir_config_error *error,
	const struct weir_place *place) {
	write_path(place, error->path, sizeof(error->path));
	// What is not in the file stands where its parent does.
	while (place->node == WEIR_JSON_NO_NODE && place->parent) {
		place = place->parent;
	}
	if (reader->positions && place->node < reader->positions->count) {
		const struct weir_json_node *node = &reader->positions->node[place->node];

		error->line = (int)node->line;
		error->column = (int)node->column;
	}
}

void weir_reader_error(
	struct weir_reader *reader, const struct weir_place *place, const char *format, ...) {
	struct weir_config_error *error = add_error(reader);
	va_list arguments;

	if (!error) {
		return;
	}
	set_place(reader, error, place);
	va_start(arguments, format);
	set_reason(error, format, arguments);
	va_end(arguments);
}

void weir_reader_error_at(struct weir_reader *reader, const struct weir_place *place,
	const char *key, const char *format, ...) {
	struct weir_config_error *error = add_error(reader);
	struct weir_place member;
	va_list arguments;

	if (!error) {
		return;
	}
	member = weir_place_member(reader, place, key);
	set_place(reader, error, &member);
	va_start(arguments, format);
	set_reason(error, format, arguments);
	va_end(arguments);
}

void weir_reader_error_file(
	struct weir_reader *reader, int line, int column, const char *format, ...) {
	struct weir_config_error *error = add_error(reader);
	va_list arguments;

	if (!error) {
		return;
	}
	error->line = line;
	error->column = column;
	va_start(arguments, format);
	set_reason(error, format, arguments);
	va_end(arguments);
}

static int compare_errors(const void *a, const void *b) {
	const struct weir_config_error *x = a, *y = b;

	if (x->line != y->line) {
		return x->line < y->line ? -1 : 1;
	}
	if (x->column != y->column) {
		return x->column < y->column ? -1 : 1;
	}
	if (strcmp(x->path, y->path) != 0) {
		return strcmp(x->path, y->path);
	}
	return strcmp(x->reason, y->reason);
}

void weir_reader_finish(struct weir_reader *reader) {
	struct weir_config_errors *errors = reader->errors;
	struct weir_config_error *last;

	if (errors->count > 1) {
		qsort(errors->error, errors->count, sizeof(*errors->error), compare_errors);
	}
	if (reader->left_out > 0) {
		uint32_t left_out = reader->left_out + 1;

		last = &errors->error[errors->count - 1];
		*last = (struct weir_config_error){0};
		snprintf(last->reason, sizeof(last->reason),
			"%u more errors are not shown; correct these first", left_out);
	}
}

struct weir_place weir_place_member(
	const struct weir_reader *reader, const struct weir_place *parent, const char *key) {
	struct weir_place place = {.parent = parent, .key = key, .node = WEIR_JSON_NO_NODE};

	if (reader->positions) {
		place.node = weir_json_member(reader->positions, parent->node, key);
	}
	return place;
}

struct weir_place weir_place_element(
	const struct weir_reader *reader, const struct weir_place *parent, uint32_t index) {
	struct weir_place place = {.parent = parent, .index = index, .node = WEIR_JSON_NO_NODE};

	if (reader->positions) {
		place.node = weir_json_element(reader->positions, parent->node, index);
	}
	return place;
}

const char *weir_printable(const char *text, char *buffer, size_t bytes) {
	size_t i;

	for (i = 0; text[i] && i + 1 < bytes; i++) {
		buffer[i] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
	}
	buffer[i] = '\0';
	if (text[i] && bytes > 4) {
		memcpy(buffer + bytes - 4, "...", 4);
	}
	return buffer;
}
