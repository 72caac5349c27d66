// SPDX-License-Identifier: BSD-3-Clause
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_reader.h"

#define KEY_SHOWN 64 // bytes of an unknown key repeated in a path

static bool is_known(
	const struct weir_config_errors *errors, const struct weir_config_error *error) {
	for (uint32_t i = 0; i < errors->count; i++) {
		const struct weir_config_error *other = &errors->error[i];

		if (other->line == error->line && other->column == error->column &&
			strcmp(other->path, error->path) == 0 &&
			strcmp(other->reason, error->reason) == 0) {
			return true;
		}
	}
	return false;
}

// Values that several overlays have from the root would be reported once for each.
static void add_error(struct weir_json_reader *reader, struct weir_config_error *error,
	const char *format, va_list arguments) {
	struct weir_config_errors *errors = reader->errors;
	char text[sizeof(error->reason)];

	vsnprintf(text, sizeof(text), format, arguments);
	weir_printable(text, error->reason, sizeof(error->reason));
	reader->found++;
	if (is_known(errors, error)) {
		return;
	}
	if (errors->count >= WEIR_JSON_ERRORS_MAX) {
		reader->left_out++;
		return;
	}
	if ((errors->count & (errors->count - 1)) == 0) {
		size_t room = errors->count ? (size_t)errors->count * 2 : 1;
		void *grown = realloc(errors->error, room * sizeof(*errors->error));

		if (!grown) {
			reader->out_of_memory = true;
			return;
		}
		errors->error = grown;
	}
	errors->error[errors->count++] = *error;
}

static void write_path(const struct weir_json_place *place, char *path, size_t bytes) {
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

// The node of a place, when the root of the place is the node `base`.
static uint32_t find_node(
	const struct weir_json_reader *reader, const struct weir_json_place *place, uint32_t base) {
	uint32_t parent;

	if (!place->parent) {
		return base;
	}
	if (place->node != WEIR_JSON_NO_NODE && !reader->overlay_path) {
		return place->node;
	}
	parent = find_node(reader, place->parent, base);
	return place->key ? weir_json_member(reader->positions, parent, place->key)
			  : weir_json_element(reader->positions, parent, place->index);
}

// The node of a place; what is not in the file stands where its parent does. *overlaid: it is in
// the overlay.
static uint32_t find_position(const struct weir_json_reader *reader,
	const struct weir_json_place *place, bool *overlaid) {
	*overlaid = false;
	for (;; place = place->parent) {
		uint32_t node = WEIR_JSON_NO_NODE;

		if (reader->overlay_path) {
			node = find_node(reader, place, reader->overlay);
			*overlaid = node != WEIR_JSON_NO_NODE;
		}
		if (node == WEIR_JSON_NO_NODE) {
			node = find_node(reader, place, 0);
		}
		if (node != WEIR_JSON_NO_NODE || !place->parent) {
			return node;
		}
	}
}

static void set_place(const struct weir_json_reader *reader, struct weir_config_error *error,
	const struct weir_json_place *place, bool at_key) {
	const struct weir_json_node *node;
	char path[sizeof(error->path)];
	bool overlaid;
	uint32_t number;

	write_path(place, path, sizeof(path));
	snprintf(error->path, sizeof(error->path), "%s", path);
	if (!reader->positions) {
		return;
	}
	number = find_position(reader, place, &overlaid);
	if (overlaid) {
		snprintf(error->path, sizeof(error->path), "%.40s%s%.150s", reader->overlay_path,
			path[0] ? "." : "", path);
	}
	if (number >= reader->positions->count) {
		return;
	}
	node = &reader->positions->node[number];
	at_key = (at_key || reader->at_keys) && node->key_line > 0;
	error->line = (int)(at_key ? node->key_line : node->line);
	error->column = (int)(at_key ? node->key_column : node->column);
}

void weir_json_error(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *format, ...) {
	struct weir_config_error error = {0};
	va_list arguments;

	set_place(reader, &error, place, false);
	va_start(arguments, format);
	add_error(reader, &error, format, arguments);
	va_end(arguments);
}

void weir_json_error_key(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *format, ...) {
	struct weir_config_error error = {0};
	va_list arguments;

	set_place(reader, &error, place, true);
	va_start(arguments, format);
	add_error(reader, &error, format, arguments);
	va_end(arguments);
}

void weir_json_error_at(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *key, const char *format, ...) {
	const struct weir_json_place member = weir_json_place_member(place, key);
	struct weir_config_error error = {0};
	va_list arguments;

	set_place(reader, &error, &member, false);
	va_start(arguments, format);
	add_error(reader, &error, format, arguments);
	va_end(arguments);
}

void weir_json_error_file(
	struct weir_json_reader *reader, int line, int column, const char *format, ...) {
	struct weir_config_error error = {.line = line, .column = column};
	va_list arguments;

	va_start(arguments, format);
	add_error(reader, &error, format, arguments);
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

void weir_json_finish(struct weir_json_reader *reader) {
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
			"%u more errors not shown; fix these first", left_out);
	}
}

void weir_config_errors_fini(struct weir_config_errors *errors) {
	free(errors->error);
	*errors = (struct weir_config_errors){0};
}

struct weir_json_place weir_json_place_member(
	const struct weir_json_place *parent, const char *key) {
	return (struct weir_json_place){.parent = parent, .key = key, .node = WEIR_JSON_NO_NODE};
}

struct weir_json_place weir_json_place_element(
	const struct weir_json_place *parent, uint32_t index) {
	return (struct weir_json_place){
		.parent = parent, .index = index, .node = WEIR_JSON_NO_NODE};
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
