// SPDX-License-Identifier: BSD-3-Clause
#include "import_report.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "plural.h"

// Maximum number of line numbers that are printed for a group, in addition to the first.
#define LINES_NAMED 5
#define KEY_BYTES 1024

struct group { // notes that differ only in names and numbers
	const json_t *first;
	unsigned int kind; // enum weir_import_kind
	size_t count, order;
	const json_t *next[LINES_NAMED];
};

struct groups {
	struct group *group;
	size_t count;
	json_t *by_key; // {key: index}
};

static const char *text_of(const json_t *row, const char *key) {
	return json_string_value(json_object_get(row, key));
}

static void print_place(FILE *out, const json_t *row) {
	json_int_t line = json_integer_value(json_object_get(row, "line"));

	fprintf(out, "%s:", text_of(row, "file"));
	if (line > 0) {
		fprintf(out, "%" JSON_INTEGER_FORMAT ":", line);
	}
}

static void print_note(FILE *out, const json_t *note, size_t more) {
	print_place(out, note);
	fprintf(out, " %s: %s", text_of(note, "kind"), text_of(note, "what"));
	if (more > 0) {
		fprintf(out, ", and %zu more", more);
	}
	fprintf(out, ": %s", text_of(note, "why"));
}

static unsigned int kind_of(const json_t *note) {
	unsigned int kind = 0;

	while (kind + 1 < WEIR_IMPORT_KIND_COUNT &&
		strcmp(weir_import_kind_names[kind], text_of(note, "kind")) != 0) {
		kind++;
	}
	return kind;
}

// Write the key of a group of notes: the kind and the reason of the note. In the reason, each word
// that begins with a quote or contains a digit is replaced by "#", so that notes that differ only
// in names and numbers have the same key.
static void key_of(const json_t *note, char key[KEY_BYTES]) {
	const char *why = text_of(note, "why");
	size_t used = (size_t)snprintf(key, KEY_BYTES, "%u", kind_of(note));

	while (*why != '\0' && used + 2 < KEY_BYTES) {
		size_t bytes = strcspn(why, " ");
		bool varies = *why == '"';

		for (size_t i = 0; i < bytes; i++) {
			varies |= isdigit((unsigned char)why[i]);
		}
		key[used++] = ' ';
		if (varies) {
			key[used++] = '#';
		}
		for (size_t i = 0; !varies && i < bytes && used + 1 < KEY_BYTES; i++) {
			key[used++] = why[i];
		}
		why += bytes + (why[bytes] == ' ');
	}
	key[used] = '\0';
}

static void add(struct groups *groups, const json_t *note) {
	char key[KEY_BYTES];
	const json_t *index;
	struct group *group;

	key_of(note, key);
	index = json_object_get(groups->by_key, key);
	if (index == NULL) {
		group = &groups->group[groups->count];
		*group = (struct group){
			.first = note, .kind = kind_of(note), .count = 1, .order = groups->count};
		json_object_set_new(groups->by_key, key, json_integer((json_int_t)groups->count++));
		return;
	}
	group = &groups->group[json_integer_value(index)];
	if (group->count <= LINES_NAMED) {
		group->next[group->count - 1] = note;
	}
	group->count++;
}

static int by_weight(const void *a, const void *b) {
	const struct group *left = a, *right = b;

	if (left->kind != right->kind) {
		return left->kind < right->kind ? -1 : 1;
	}
	if (left->count != right->count) {
		return left->count > right->count ? -1 : 1;
	}
	return left->order < right->order ? -1 : 1;
}

static void print_group(FILE *out, const struct group *group) {
	size_t more = group->count - 1, named = more < LINES_NAMED ? more : LINES_NAMED;
	const char *file = text_of(group->first, "file");

	print_note(out, group->first, more);
	for (size_t i = 0; i < named; i++) {
		const json_t *note = group->next[i];
		bool same = strcmp(text_of(note, "file"), file) == 0;

		fprintf(out, "%s %s%s%" JSON_INTEGER_FORMAT,
			i > 0      ? ","
			: more > 1 ? "; lines"
				   : "; line",
			same ? "" : text_of(note, "file"), same ? "" : ":",
			json_integer_value(json_object_get(note, "line")));
	}
	fprintf(out, "%s\n", more > named ? ", ..." : "");
}

static void print_groups(FILE *out, const struct weir_import *import) {
	size_t notes = json_array_size(import->notes), shown, i;
	struct groups groups = {
		.group = calloc(notes + 1, sizeof(*groups.group)), .by_key = json_object()};
	json_t *note;

	if (groups.group != NULL && groups.by_key != NULL) {
		json_array_foreach (import->notes, i, note) {
			add(&groups, note);
		}
		qsort(groups.group, groups.count, sizeof(*groups.group), by_weight);
	}
	shown = groups.count < WEIR_IMPORT_REPORT_LINES ? groups.count : WEIR_IMPORT_REPORT_LINES;
	for (i = 0; i < shown; i++) {
		print_group(out, &groups.group[i]);
	}
	if (shown < notes) {
		fprintf(out, "%zu notes of %zu kind%s: --all prints each note\n", notes,
			groups.count, weir_plural(groups.count));
	}
	free(groups.group);
	json_decref(groups.by_key);
}

void weir_import_report_print(FILE *out, const struct weir_import *import, bool all) {
	json_t *row;
	size_t i;

	if (all) {
		json_array_foreach (import->notes, i, row) {
			print_note(out, row, 0);
			fprintf(out, "\n");
		}
	} else {
		print_groups(out, import);
	}
	json_array_foreach (import->errors, i, row) {
		print_place(out, row);
		fprintf(out, " error: %s\n", text_of(row, "reason"));
	}
	if (import->more_errors > 0) {
		fprintf(out, "and %u more error%s\n", import->more_errors,
			weir_plural(import->more_errors));
	}
}
