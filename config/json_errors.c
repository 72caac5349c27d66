// SPDX-License-Identifier: BSD-3-Clause
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_reader.h"

#define KEY_SHOWN 64 // maximum bytes of an unknown key in a path

struct list { // list of errors or of warnings
	struct weir_config_error **error;
	uint32_t *count, *left_out;
};

static bool is_known(const struct list *list, const struct weir_config_error *error) {
	for (uint32_t i = 0; i < *list->count; i++) {
		const struct weir_config_error *other = &(*list->error)[i];

		if (other->line == error->line && other->column == error->column &&
			strcmp(other->path, error->path) == 0 &&
			strcmp(other->reason, error->reason) == 0) {
			return true;
		}
	}
	return false;
}

// Adds an error unless the list already contains it: if several overlays inherit a value from the
// root, an error in this value is found once for each overlay.
static void add(struct weir_json_reader *reader, const struct list *list,
	struct weir_config_error *error, const char *format, va_list arguments) {
	char text[sizeof(error->reason)];

	vsnprintf(text, sizeof(text), format, arguments);
	weir_printable(text, error->reason, sizeof(error->reason));
	if (is_known(list, error)) {
		return;
	}
	if (*list->count >= WEIR_JSON_ERRORS_MAX) {
		(*list->left_out)++;
		return;
	}
	if ((*list->count & (*list->count - 1)) == 0) {
		size_t room = *list->count ? (size_t)*list->count * 2 : 1;
		void *grown = realloc(*list->error, room * sizeof(*error));

		if (grown == NULL) {
			reader->out_of_memory = true;
			return;
		}
		*list->error = grown;
	}
	(*list->error)[(*list->count)++] = *error;
}

static void write_path(const struct weir_json_place *place, char *path, size_t bytes) {
	char key[KEY_SHOWN];
	size_t used;

	if (place->parent == NULL) {
		path[0] = '\0';
		return;
	}
	write_path(place->parent, path, bytes);
	used = strlen(path);
	if (place->key != NULL) {
		snprintf(path + used, bytes - used, "%s%s", used ? "." : "",
			weir_printable(place->key, key, sizeof(key)));
	} else {
		snprintf(path + used, bytes - used, "[%u]", place->index);
	}
}

// Returns the node (json_position.h) of a place. base: the node of the object to search: the root
// of the file, or the overlay.
static uint32_t find_node(
	const struct weir_json_reader *reader, const struct weir_json_place *place, uint32_t base) {
	uint32_t parent;

	if (place->parent == NULL) {
		return base;
	}
	if (place->node != WEIR_JSON_NO_NODE && reader->overlay_path == NULL) {
		return place->node;
	}
	parent = find_node(reader, place->parent, base);
	return place->key != NULL ? weir_json_member(reader->positions, parent, place->key)
				  : weir_json_element(reader->positions, parent, place->index);
}

// Returns the node of a place. If the value is not in the file, returns the node of the object that
// would contain it. *overlaid: whether the node is in the overlay.
static uint32_t find_position(const struct weir_json_reader *reader,
	const struct weir_json_place *place, bool *overlaid) {
	*overlaid = false;
	for (;; place = place->parent) {
		uint32_t node = WEIR_JSON_NO_NODE;

		if (reader->overlay_path != NULL) {
			node = find_node(reader, place, reader->overlay);
			*overlaid = node != WEIR_JSON_NO_NODE;
		}
		if (node == WEIR_JSON_NO_NODE) {
			node = find_node(reader, place, 0);
		}
		if (node != WEIR_JSON_NO_NODE || place->parent == NULL) {
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
	if (reader->positions == NULL) {
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

// If the list has WEIR_JSON_ERRORS_MAX errors, only counts the error and returns true. The caller
// then does nothing else, because finding the positions of 65,000 elements would take seconds. With
// overlays, returns false, because the error must first be compared with earlier errors.
static bool only_count(const struct weir_json_reader *reader, const struct list *list) {
	if (reader->overlay_path || *list->count < WEIR_JSON_ERRORS_MAX) {
		return false;
	}
	(*list->left_out)++;
	return true;
}

// place: NULL = no place; *error then has the line and column, or 0 for the whole file.
static void add_error(struct weir_json_reader *reader, struct weir_config_error *error,
	const struct weir_json_place *place, bool at_key, const char *format, va_list arguments) {
	const struct list list = {
		&reader->errors->error, &reader->errors->count, &reader->left_out};

	reader->found++;
	if (only_count(reader, &list)) {
		return;
	}
	if (place) {
		set_place(reader, error, place, at_key);
	}
	add(reader, &list, error, format, arguments);
}

void weir_json_error(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *format, ...) {
	struct weir_config_error error = {0};
	va_list arguments;

	va_start(arguments, format);
	add_error(reader, &error, place, false, format, arguments);
	va_end(arguments);
}

void weir_json_error_key(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *format, ...) {
	struct weir_config_error error = {0};
	va_list arguments;

	va_start(arguments, format);
	add_error(reader, &error, place, true, format, arguments);
	va_end(arguments);
}

void weir_json_error_at(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *key, const char *format, ...) {
	const struct weir_json_place member = weir_json_place_member(place, key);
	struct weir_config_error error = {0};
	va_list arguments;

	va_start(arguments, format);
	add_error(reader, &error, &member, false, format, arguments);
	va_end(arguments);
}

void weir_json_warning(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *format, ...) {
	const struct list list = {&reader->errors->warning, &reader->errors->warning_count,
		&reader->warnings_left_out};
	struct weir_config_error warning = {0};
	va_list arguments;

	if (only_count(reader, &list)) {
		return;
	}
	set_place(reader, &warning, place, false);
	va_start(arguments, format);
	add(reader, &list, &warning, format, arguments);
	va_end(arguments);
}

void weir_json_error_file(
	struct weir_json_reader *reader, int line, int column, const char *format, ...) {
	struct weir_config_error error = {.line = line, .column = column};
	va_list arguments;

	va_start(arguments, format);
	add_error(reader, &error, NULL, false, format, arguments);
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

static void finish(const struct list *list, const char *what) {
	struct weir_config_error *last;

	if (*list->count > 1) {
		qsort(*list->error, *list->count, sizeof(**list->error), compare_errors);
	}
	if (*list->left_out > 0) {
		last = &(*list->error)[*list->count - 1];
		*last = (struct weir_config_error){0};
		snprintf(last->reason, sizeof(last->reason),
			"%u more %s not shown; fix the entries above first", *list->left_out + 1,
			what);
	}
}

void weir_json_finish(struct weir_json_reader *reader) {
	struct weir_config_errors *errors = reader->errors;
	const struct list list = {&errors->error, &errors->count, &reader->left_out};
	const struct list warnings = {
		&errors->warning, &errors->warning_count, &reader->warnings_left_out};

	finish(&list, "errors");
	finish(&warnings, "warnings");
}

void weir_config_errors_fini(struct weir_config_errors *errors) {
	free(errors->error);
	free(errors->warning);
	*errors = (struct weir_config_errors){0};
}

const char *weir_config_error_format(
	const char *file, const struct weir_config_error *error, char *buffer, size_t bytes) {
	char place[32] = "";

	if (error->line > 0 && error->column > 0) {
		snprintf(place, sizeof(place), ":%d:%d", error->line, error->column);
	} else if (error->line > 0) {
		snprintf(place, sizeof(place), ":%d", error->line);
	}
	snprintf(buffer, bytes, "%s%s: %s%s%s", file, place, error->path,
		error->path[0] != '\0' ? ": " : "", error->reason);
	return buffer;
}

json_t *weir_config_errors_json(const struct weir_config_error *error, uint32_t count) {
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++) {
		json_t *item = json_pack("{s:i, s:i, s:s, s:s}", "line", error[i].line, "column",
			error[i].column, "path", error[i].path, "reason", error[i].reason);

		if (json_array_append_new(list, item) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
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
