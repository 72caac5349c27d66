// SPDX-License-Identifier: BSD-3-Clause
#include "keepalived_tree.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 4096 // after expanding definitions
#define DEPTH_MAX 16 // of blocks
#define INCLUDES_MAX 8 // nesting depth
#define FILES_MAX 1000
#define DEFINITIONS_MAX 256

struct chunk { // bytes per allocation of the tree
	struct chunk *next;
	char data[];
};

struct level { // an open block
	struct weir_keepalived_statement *statement; // NULL: the file
	struct weir_keepalived_statement **tail; // of its statements
	struct weir_keepalived_statement *last; // that a "{" on the next line belongs to
};

struct definition {
	const char *name, *value;
};

struct reader {
	struct weir_import *import;
	const struct weir_keepalived_files *files;
	struct weir_keepalived_tree *tree;
	struct weir_import_place place;
	struct level level[DEPTH_MAX];
	unsigned int depth; // of the innermost block
	unsigned int includes, opened; // nesting depth of includes; files so far
	struct definition definition[DEFINITIONS_MAX];
	unsigned int definitions;
	const char *word[WEIR_KEEPALIVED_WORDS_MAX + 1]; // of the current statement
	unsigned int words;
};

#define COMPLAIN(reader, ...) weir_import_error((reader)->import, &(reader)->place, __VA_ARGS__)

static void read_text(struct reader *reader, const char *file, const char *text, size_t bytes);

// --- memory -------------------------------------------------------------------------------

// Allocate zeroed memory. NULL: none; import->failed is set.
static void *take(struct reader *reader, size_t bytes) {
	struct chunk *chunk = calloc(1, sizeof(*chunk) + bytes);

	if (chunk == NULL) {
		reader->import->failed = true;
		return NULL;
	}
	chunk->next = reader->tree->memory;
	reader->tree->memory = chunk;
	return chunk->data;
}

static const char *keep(struct reader *reader, const char *text, size_t bytes) {
	char *copy = take(reader, bytes + 1);

	if (copy != NULL) {
		memcpy(copy, text, bytes);
	}
	return copy;
}

void weir_keepalived_free(struct weir_keepalived_tree *tree) {
	struct chunk *chunk = tree->memory;

	while (chunk != NULL) {
		struct chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
	*tree = (struct weir_keepalived_tree){0};
}

// --- includes -----------------------------------------------------------------------------

static void include(struct reader *reader, const char *pattern) {
	const struct weir_keepalived_files *files = reader->files;
	struct weir_import_place place = reader->place;

	if (reader->includes == INCLUDES_MAX) {
		COMPLAIN(reader,
			"includes are nested more than %d deep: does a file include itself?",
			INCLUDES_MAX);
		return;
	}
	reader->includes++;
	for (unsigned int n = 0; !reader->import->failed; n++) {
		char *name, *text;
		size_t bytes;
		int r = reader->opened == FILES_MAX ? -EMFILE
						    : files->open(files->context, place.file,
							      pattern, n, &name, &text, &bytes);

		reader->place = place;
		if (r < 0) {
			if (r != -ENOENT || n == 0) {
				COMPLAIN(reader, "include \"%s\": %s", pattern, strerror(-r));
			}
			break;
		}
		reader->opened++;
		read_text(reader, keep(reader, name, strlen(name)), text, bytes);
		free(name);
		free(text);
	}
	reader->place = place;
	reader->includes--;
}

// --- statements ---------------------------------------------------------------------------

static struct weir_keepalived_statement *end_statement(struct reader *reader) {
	struct level *level = &reader->level[reader->depth];
	struct weir_keepalived_statement *statement;
	unsigned int words = reader->words;

	reader->words = 0;
	if (words == 0) {
		return NULL;
	}
	if (strncmp(reader->word[0], "include", strlen("include")) == 0) {
		if (words != 2) {
			COMPLAIN(reader, "%s needs one file or pattern", reader->word[0]);
		} else {
			include(reader, reader->word[1]);
		}
		return NULL;
	}
	statement = take(reader, sizeof(*statement));
	if (statement == NULL) {
		return NULL;
	}
	statement->word = take(reader, (words + 1) * sizeof(*statement->word));
	if (statement->word == NULL) {
		return NULL;
	}
	memcpy(statement->word, reader->word, words * sizeof(*statement->word));
	statement->count = words;
	statement->place = reader->place;
	*level->tail = statement;
	level->tail = &statement->next;
	level->last = statement;
	return statement;
}

static void open_block(struct reader *reader) {
	struct weir_keepalived_statement *statement = end_statement(reader);

	if (statement == NULL) {
		statement = reader->level[reader->depth].last;
	}
	if (statement == NULL || statement->block) {
		COMPLAIN(reader,
			"\"{\" without a name before it: write the name of the block there");
		return;
	}
	if (reader->depth + 1 == DEPTH_MAX) {
		COMPLAIN(reader, "blocks are nested more than %d deep: a \"}\" may be missing",
			DEPTH_MAX - 1);
		return;
	}
	statement->block = true;
	reader->depth++;
	reader->level[reader->depth] =
		(struct level){.statement = statement, .tail = &statement->children};
}

static void close_block(struct reader *reader) {
	(void)end_statement(reader);
	if (reader->depth == 0) {
		COMPLAIN(reader, "\"}\" without a block that is open: remove it, or add the \"{\"");
		return;
	}
	reader->depth--;
	reader->level[reader->depth].last = NULL;
}

// --- lines --------------------------------------------------------------------------------

// Copy a word without its quotes. Returns its length in the text; 0 after an error.
static size_t take_word(struct reader *reader, const char *text) {
	char word[LINE_BYTES];
	size_t bytes = 0, at = 0;
	bool quoted = false;

	for (; text[at] != '\0' && (quoted || strchr(" \t\r{}#!", text[at]) == NULL); at++) {
		if (text[at] == '"') {
			quoted = !quoted;
			continue;
		}
		if (quoted && text[at] == '\\' && (text[at + 1] == '"' || text[at + 1] == '\\')) {
			at++;
		}
		word[bytes++] = text[at];
	}
	if (quoted) {
		COMPLAIN(reader, "a quote is not closed: add the \"\\\"\" in the same line");
		return 0;
	}
	if (reader->words == WEIR_KEEPALIVED_WORDS_MAX) {
		COMPLAIN(reader, "has more than %d words", WEIR_KEEPALIVED_WORDS_MAX);
		return 0;
	}
	reader->word[reader->words] = keep(reader, word, bytes);
	if (reader->word[reader->words] == NULL) {
		return 0;
	}
	reader->words++;
	return at;
}

static void read_words(struct reader *reader, const char *text) {
	reader->words = 0;
	while (*text != '\0' && *text != '#' && *text != '!') {
		size_t bytes = 1;

		if (*text == '{') {
			open_block(reader);
		} else if (*text == '}') {
			close_block(reader);
		} else if (strchr(" \t\r", *text) == NULL) {
			bytes = take_word(reader, text);
		}
		if (bytes == 0) {
			break;
		}
		text += bytes;
	}
	(void)end_statement(reader);
}

static size_t name_bytes(const char *text) {
	size_t bytes = 0;

	while (isalnum((unsigned char)text[bytes]) || text[bytes] == '_') {
		bytes++;
	}
	return bytes;
}

static const char *defined(const struct reader *reader, const char *name, size_t bytes) {
	for (unsigned int i = reader->definitions; i-- > 0;) {
		const struct definition *definition = &reader->definition[i];

		if (strlen(definition->name) == bytes &&
			memcmp(definition->name, name, bytes) == 0) {
			return definition->value;
		}
	}
	return NULL;
}

// Replace $NAME and ${NAME} in a line by their values. Returns 0, or -EINVAL after an error.
static int expand(struct reader *reader, const char *text, char line[LINE_BYTES]) {
	size_t used = 0;

	while (*text != '\0') {
		bool braces = text[0] == '$' && text[1] == '{';
		size_t bytes = text[0] == '$' ? name_bytes(text + 1 + braces) : 0;
		const char *value;

		if (bytes == 0 || (braces && text[2 + bytes] != '}')) {
			if (used + 1 >= LINE_BYTES) {
				break;
			}
			line[used++] = *text++;
			continue;
		}
		value = defined(reader, text + 1 + braces, bytes);
		if (value == NULL && !braces) { // of a script, or in a comment
			value = "$";
			bytes = 0;
		}
		if (value == NULL) {
			COMPLAIN(reader, "$%.*s is not defined in an earlier line: add $%.*s=...",
				(int)bytes, text + 1 + braces, (int)bytes, text + 1 + braces);
			return -EINVAL;
		}
		if (used + strlen(value) >= LINE_BYTES) {
			break;
		}
		memcpy(line + used, value, strlen(value));
		used += strlen(value);
		text += 1 + bytes + 2 * braces;
	}
	line[used] = '\0';
	if (*text != '\0') {
		COMPLAIN(reader, "is longer than %d bytes after expanding definitions",
			LINE_BYTES - 1);
		return -EINVAL;
	}
	return 0;
}

// "$NAME=value": returns whether the line is a definition.
static bool define(struct reader *reader, const char *line) {
	size_t bytes = line[0] == '$' ? name_bytes(line + 1) : 0;
	const char *value = line + 1 + bytes;
	struct definition *definition = &reader->definition[reader->definitions];
	char expanded[LINE_BYTES];
	size_t length;

	if (bytes == 0 || *value != '=') {
		return false;
	}
	if (reader->definitions == DEFINITIONS_MAX) {
		COMPLAIN(reader, "is definition number %d: the limit is %d", DEFINITIONS_MAX + 1,
			DEFINITIONS_MAX);
		return true;
	}
	if (expand(reader, value + 1, expanded) < 0) {
		return true;
	}
	length = strlen(expanded);
	while (length > 0 && isspace((unsigned char)expanded[length - 1])) {
		length--;
	}
	if (length > 0 && expanded[length - 1] == '\\') {
		COMPLAIN(reader, "a definition of several lines is not supported: write its "
				 "statements where it is used");
		return true;
	}
	definition->name = keep(reader, line + 1, bytes);
	definition->value = keep(reader, expanded, length);
	reader->definitions += definition->name != NULL && definition->value != NULL;
	return true;
}

// "@id rest", "@^id rest": returns whether the rest applies; *ret_line is set to it.
static bool is_meant(struct reader *reader, const char **ret_line) {
	const char *line = *ret_line, *id = reader->files->id;
	bool inverted = line[0] == '@' && line[1] == '^', meant;
	const char *name = line + 1 + inverted;
	size_t bytes = strcspn(name, " \t\r");
	char what[WEIR_IMPORT_TEXT_BYTES];

	if (line[0] != '@') {
		return true;
	}
	meant = id != NULL && strlen(id) == bytes && memcmp(id, name, bytes) == 0;
	meant = meant != inverted;
	*ret_line = name + bytes + strspn(name + bytes, " \t\r");
	snprintf(what, sizeof(what), "@%s%.*s", inverted ? "^" : "", (int)(bytes < 40 ? bytes : 40),
		name);
	if (!meant && !inverted) {
		weir_import_note(reader->import, &reader->place, WEIR_IMPORT_LEFT_OUT, what,
			"the line applies to another host than --id; without --id to none");
	}
	return meant;
}

static void read_line(struct reader *reader, const char *line) {
	char expanded[LINE_BYTES];

	line += strspn(line, " \t\r");
	if (!is_meant(reader, &line) || *line == '#' || *line == '!' || define(reader, line)) {
		return;
	}
	if (line[0] == '~' && (strncmp(line, "~SEQ", 4) == 0 || strncmp(line, "~LST", 4) == 0)) {
		COMPLAIN(reader, "%.4s is not supported: write its statements one by one", line);
		return;
	}
	if (expand(reader, line, expanded) == 0) {
		read_words(reader, expanded);
	}
}

static void read_text(struct reader *reader, const char *file, const char *text, size_t bytes) {
	const char *end = text + bytes;

	reader->place = (struct weir_import_place){.file = file};
	while (text < end && !reader->import->failed) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t length = stop != NULL ? (size_t)(stop - text) : (size_t)(end - text);
		char line[LINE_BYTES];

		reader->place.line++;
		if (length >= sizeof(line) || memchr(text, '\0', length) != NULL) {
			COMPLAIN(reader,
				"is not a line of a keepalived.conf: is this another file?");
		} else {
			int number = reader->place.line;

			memcpy(line, text, length);
			line[length] = '\0';
			read_line(reader, line);
			reader->place = (struct weir_import_place){.file = file, .line = number};
		}
		text = stop != NULL ? stop + 1 : end;
	}
}

void weir_keepalived_read(struct weir_import *import, const struct weir_keepalived_files *files,
	const char *file, const char *text, size_t bytes, struct weir_keepalived_tree *ret) {
	struct reader *reader = calloc(1, sizeof(*reader));

	*ret = (struct weir_keepalived_tree){0};
	if (reader == NULL) {
		import->failed = true;
		return;
	}
	reader->import = import;
	reader->files = files;
	reader->tree = ret;
	reader->level[0].tail = &ret->statements;
	read_text(reader, file, text, bytes);
	for (; reader->depth > 0 && !import->failed; reader->depth--) {
		const struct weir_keepalived_statement *open =
			reader->level[reader->depth].statement;

		weir_import_error(import, &open->place,
			"the block \"%s\" is not closed: add a \"}\" at its end", open->word[0]);
	}
	free(reader);
}
