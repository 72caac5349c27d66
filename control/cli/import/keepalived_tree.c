// SPDX-License-Identifier: BSD-3-Clause
#include "keepalived_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keepalived_definitions.h"
#include "keepalived_private.h"

#define LINE_BYTES WEIR_KEEPALIVED_LINE_BYTES
#define DEPTH_MAX 16 // maximum nesting depth of blocks; the file itself counts as one
#define INCLUDES_MAX 8 // maximum nesting depth of includes
#define FILES_MAX 5000
#define LOOKS_MAX 20000 // maximum number of attempts to open included files
#define BYTES_MAX (64u << 20) // maximum bytes of all included files together
#define KEPT_MAX (256u << 20) // maximum bytes of memory while lines use definitions
#define NUMBER_MOST 1000000000 // maximum of the numbers in a sequence (~SEQ)
#define EXPANSIONS_MAX 8 // maximum nesting depth of definitions and sequences
// Maximum number of lines that use a definition, or come from a definition or a sequence.
#define EXPANDED_MAX 100000

struct chunk { // one allocation; all chunks are freed with the tree
	struct chunk *next;
	char data[];
};

struct level { // an open block
	struct weir_keepalived_statement *statement; // NULL = the file itself
	struct weir_keepalived_statement **tail; // end of the list of its statements
	// Last statement; a "{" at the start of the next line opens its block.
	struct weir_keepalived_statement *last;
};

struct reader {
	struct weir_import *import;
	const struct weir_keepalived_files *files;
	struct weir_keepalived_tree *tree;
	struct weir_import_place place;
	struct level level[DEPTH_MAX];
	unsigned int depth; // nesting depth of the innermost block
	unsigned int includes, opened; // nesting depth of includes; opened files so far
	unsigned int looks; // attempts counted so far for LOOKS_MAX
	size_t included_bytes; // bytes of included files so far
	size_t kept; // bytes of memory so far
	struct weir_keepalived_definitions definitions;
	unsigned int expanded; // lines counted so far for EXPANDED_MAX
	const char *word[WEIR_KEEPALIVED_WORDS_MAX + 1]; // words of the current statement
	unsigned int words;
};

#define COMPLAIN(reader, ...) weir_import_error((reader)->import, &(reader)->place, __VA_ARGS__)
// Add a note about text that is not read.
#define SKIP(reader, what, ...) \
	weir_import_note((reader)->import, &(reader)->place, WEIR_IMPORT_MISSING, what, __VA_ARGS__)

static void read_text(struct reader *reader, const char *file, const char *text, size_t bytes);

// --- memory -------------------------------------------------------------------------------

// Allocate zeroed memory. Returns NULL, and sets import->failed, if out of memory.
static void *take(struct reader *reader, size_t bytes) {
	struct chunk *chunk = calloc(1, sizeof(*chunk) + bytes);

	if (chunk == NULL) {
		reader->import->failed = true;
		return NULL;
	}
	reader->kept += sizeof(*chunk) + bytes;
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

// Returns whether a word is "include", or a stricter variant such as "includer".
static bool is_include(const char *word) {
	size_t bytes = strlen("include");

	return strncmp(word, "include", bytes) == 0 &&
	       (word[bytes] == '\0' ||
		       (strchr("rmwba", word[bytes]) != NULL && word[bytes + 1] == '\0'));
}

// Read the files of an include. needed: true = it is an error if no file matches.
static void include(struct reader *reader, const char *pattern, bool needed) {
	const struct weir_keepalived_files *files = reader->files;
	struct weir_import_place place = reader->place;

	if (reader->includes == INCLUDES_MAX) {
		COMPLAIN(reader,
			"includes are nested more than %d deep: check whether a file includes "
			"itself",
			INCLUDES_MAX);
		return;
	}
	reader->includes++;
	for (unsigned int n = 0; !reader->import->failed; n++) {
		char *name = NULL, *text = NULL;
		size_t bytes = 0;
		int r;

		reader->place = place;
		if (reader->looks++ >= LOOKS_MAX) {
			COMPLAIN(reader,
				"the limit of %d include statements and included files is "
				"exceeded",
				LOOKS_MAX);
			break;
		}
		r = files->open(files->context, place.file, pattern, n, &name, &text, &bytes);
		if (r == 0 && bytes > BYTES_MAX - reader->included_bytes) {
			r = -EFBIG;
		}
		if (r == 0 && reader->opened == FILES_MAX) {
			COMPLAIN(reader, "the limit of %d included files is exceeded", FILES_MAX);
		} else if (r == 0) {
			reader->opened++;
			reader->included_bytes += bytes;
			read_text(reader, keep(reader, name, strlen(name)), text, bytes);
			reader->place = place;
		} else if (r == -ENOENT && n == 0 && needed) {
			COMPLAIN(reader, "include \"%s\": %s", pattern, strerror(-r));
		} else if (r != -ENOENT || n == 0) {
			SKIP(reader, name != NULL ? name : pattern,
				"the included file is not read: %s",
				r == -EINVAL  ? "not a regular file"
				: r == -E2BIG ? "its pattern has too many wildcards and braces"
				: r == -EFBIG ? "all included files together are too large"
					      : strerror(-r));
		}
		free(text);
		if (name == NULL) {
			break;
		}
		free(name);
	}
	reader->place = place;
	reader->includes--;
}

// --- statements ---------------------------------------------------------------------------

// Close all open blocks, whose "}" is missing.
static void close_all(struct reader *reader, const char *where) {
	for (; reader->depth > 0; reader->depth--) {
		const struct weir_keepalived_statement *open =
			reader->level[reader->depth].statement;
		char what[WEIR_IMPORT_TEXT_BYTES];

		weir_import_note(reader->import, &open->place, WEIR_IMPORT_ADJUST,
			weir_keepalived_text(open, what, sizeof(what)),
			"the block has no \"}\", and was read as if it ended %s: add the missing "
			"\"}\"",
			where);
		reader->level[reader->depth - 1].last = NULL;
	}
}

static struct weir_keepalived_statement *end_statement(struct reader *reader) {
	struct weir_keepalived_statement *statement;
	unsigned int words = reader->words;
	struct level *level;

	reader->words = 0;
	if (words == 0) {
		return NULL;
	}
	if (reader->depth > 0 && strcmp(reader->word[0], "virtual_server") == 0) {
		close_all(reader, "before the next virtual_server");
	}
	level = &reader->level[reader->depth];
	if (is_include(reader->word[0])) {
		if (words != 2) {
			SKIP(reader, reader->word[0], "an include needs one file or pattern");
		} else {
			include(reader, reader->word[1],
				reader->word[0][strlen("include")] != '\0');
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
		weir_import_note(reader->import, &reader->place, WEIR_IMPORT_ADJUST, "{",
			"keepalived also skips this brace: write the name of the block before the "
			"brace");
		return;
	}
	if (reader->depth + 1 == DEPTH_MAX) {
		COMPLAIN(reader,
			"blocks are nested more than %d deep: check whether a \"}\" is missing",
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
		weir_import_note(reader->import, &reader->place, WEIR_IMPORT_ADJUST, "}",
			"keepalived also skips this brace, because no block is open: remove the "
			"brace, or an earlier brace that ends a block too early");
		return;
	}
	reader->depth--;
	reader->level[reader->depth].last = NULL;
}

// --- words --------------------------------------------------------------------------------

// Returns whether the next word is the pattern of an include. The pattern may contain braces,
// because keepalived parses includes before blocks.
static bool is_pattern(const struct reader *reader) {
	return reader->words == 1 && is_include(reader->word[0]);
}

// Copy a word without its quotes. Returns the length of the word in the text; 0 after an error.
static size_t take_word(struct reader *reader, const char *text) {
	const char *ends = is_pattern(reader) ? " \t\r#!" : " \t\r#!{}";
	char word[LINE_BYTES];
	size_t bytes = 0, at = 0;
	bool quoted = false;

	for (; text[at] != '\0' && (quoted || strchr(ends, text[at]) == NULL); at++) {
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
		SKIP(reader, text, "keepalived also skips this line: a quote is not closed");
		reader->words = 0;
		return 0;
	}
	if (reader->words == WEIR_KEEPALIVED_WORDS_MAX) {
		SKIP(reader, reader->word[0], "weirctl reads only the first %d words of a line",
			WEIR_KEEPALIVED_WORDS_MAX);
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

		if (*text == '{' && !is_pattern(reader)) {
			open_block(reader);
		} else if (*text == '}' && !is_pattern(reader)) {
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

// --- lines --------------------------------------------------------------------------------

// Read a condition "@id rest" or "@^id rest". Returns whether the rest of the line applies;
// *ret_line is set to the rest.
static bool is_meant(struct reader *reader, const char **ret_line) {
	const char *line = *ret_line, *id = reader->files->id, *name;
	bool inverted, meant;
	char what[WEIR_IMPORT_TEXT_BYTES];
	size_t bytes;

	if (line[0] != '@') {
		return true;
	}
	inverted = line[1] == '^';
	name = line + 1 + inverted;
	bytes = strcspn(name, " \t\r");
	meant = id != NULL && strlen(id) == bytes && memcmp(id, name, bytes) == 0;
	meant = meant != inverted;
	*ret_line = name + bytes + strspn(name + bytes, " \t\r");
	snprintf(what, sizeof(what), "@%s%.*s", inverted ? "^" : "", (int)bytes, name);
	if (!meant && !inverted) {
		weir_import_note(reader->import, &reader->place, WEIR_IMPORT_LEFT_OUT, what,
			"the line is for another host: --id NAME selects the lines that begin with "
			"@NAME");
	}
	return meant;
}

// Reports that a definition was not added. r: the error.
static void refuse_definition(struct reader *reader, int r) {
	if (r == -ENOMEM) {
		reader->import->failed = true;
	} else {
		COMPLAIN(reader, "the line is definition number %d: the limit is %d definitions",
			WEIR_KEEPALIVED_DEFINITIONS_MAX + 1, WEIR_KEEPALIVED_DEFINITIONS_MAX);
	}
}

// Read a definition "$NAME=value". Returns whether the line is a definition.
static bool define(struct reader *reader, const char *line) {
	int r = weir_keepalived_define(&reader->definitions, line);

	if (r < 0) {
		refuse_definition(reader, r);
	}
	return r != 0;
}

static void continue_definition(struct reader *reader, const char *line) {
	int r = weir_keepalived_define_more(&reader->definitions, line);

	if (r == -ENOMEM) {
		reader->import->failed = true;
	} else if (r < 0) {
		COMPLAIN(reader,
			"the line belongs to a definition that is longer than the limit of %d "
			"bytes",
			WEIR_KEEPALIVED_DEFINITION_BYTES);
	}
}

static void expand(
	struct reader *reader, const char *text, struct weir_keepalived_expansion *expansion) {
	if (!weir_keepalived_expand(&reader->definitions, reader->place.file, text, expansion)) {
		SKIP(reader, "a line",
			"the line has more than %d bytes after expanding definitions: the rest is "
			"not read",
			WEIR_KEEPALIVED_LINE_BYTES - 1);
	}
}

static void read_line(struct reader *reader, const char *line, unsigned int depth);

// Count a line that uses a definition, or comes from a definition or a sequence. Returns whether
// there are more than EXPANDED_MAX such lines, or KEPT_MAX bytes; if so, adds an error.
static bool is_too_much(struct reader *reader) {
	if (reader->kept > KEPT_MAX) {
		COMPLAIN(reader, "the lines that use definitions need more than %u MiB of memory",
			KEPT_MAX >> 20);
		return true;
	}
	if (reader->expanded < EXPANDED_MAX) {
		reader->expanded++;
		return false;
	}
	COMPLAIN(reader,
		"%d lines use definitions, which is more than the limit: check whether a "
		"definition contains itself",
		EXPANDED_MAX + 1);
	return true;
}

// Read the remaining lines of a multi-line definition after the line that uses it.
static void read_rest(struct reader *reader, const char *rest, unsigned int depth) {
	while (rest != NULL && !reader->import->failed && !is_too_much(reader)) {
		size_t bytes = strcspn(rest, "\n");
		char *line = strndup(rest, bytes);

		if (line == NULL) {
			reader->import->failed = true;
			return;
		}
		read_line(reader, line, depth);
		free(line);
		rest = rest[bytes] != '\0' ? rest + bytes + 1 : NULL;
	}
}

static void read_definitions(struct reader *reader, const char *line, unsigned int depth) {
	struct weir_keepalived_expansion *expansion = malloc(sizeof(*expansion));
	char *rest = NULL;

	if (expansion == NULL) {
		reader->import->failed = true;
		return;
	}
	expand(reader, line, expansion);
	if (expansion->rest != NULL) { // copied, because a line may redefine the definition
		rest = strdup(expansion->rest);
		reader->import->failed |= rest == NULL;
	}
	if (expansion->any && depth < EXPANSIONS_MAX) {
		read_line(reader, expansion->line, depth + 1);
	} else {
		read_words(reader, expansion->line);
	}
	if (depth < EXPANSIONS_MAX) {
		read_rest(reader, rest, depth + 1);
	}
	free(rest);
	free(expansion);
}

struct sequence {
	char name[WEIR_IMPORT_TEXT_BYTES];
	long first, step, last;
	bool hexadecimal;
};

// Sets the name of a sequence to a number. Returns false after an error.
static bool set_number(struct reader *reader, const struct sequence *sequence, long number) {
	char text[24];
	int r;

	snprintf(text, sizeof(text), sequence->hexadecimal ? "%lx" : "%ld", number);
	r = weir_keepalived_set(&reader->definitions, sequence->name, strlen(sequence->name), text);
	if (r < 0) {
		refuse_definition(reader, r);
	}
	return r == 0;
}

static bool is_small(long number) {
	return number >= -NUMBER_MOST && number <= NUMBER_MOST;
}

// Read "~SEQ(NAME, LAST)", "~SEQ(NAME, FIRST, LAST)" or "~SEQ(NAME, FIRST, STEP, LAST)"; "~SEQx" is
// a sequence of hexadecimal numbers. The numbers may be hexadecimal (0x1f) or octal (017).
static bool read_sequence(const char *text, struct sequence *ret) {
	long number[3];
	unsigned int count = 0;
	int used = 0;
	char *at;

	text += strlen("~SEQ");
	ret->hexadecimal = *text == 'x';
	text += ret->hexadecimal;
	if (sscanf(text, " (%63[A-Za-z0-9_] ,%n", ret->name, &used) != 1 || used == 0) {
		return false;
	}
	for (at = (char *)text + used - 1; *at == ',' && count < 3; count++) {
		number[count] = strtol(at + 1, &at, 0);
		at += strspn(at, " \t");
	}
	if (count == 0) {
		return false;
	}
	ret->last = number[count - 1];
	ret->first = count > 1 ? number[0] : ret->last < 0 ? -1 : 1;
	ret->step = count == 3 ? number[1] : ret->first <= ret->last ? 1 : -1;
	return *at == ')' && ret->step != 0 && is_small(ret->first) && is_small(ret->step) &&
	       is_small(ret->last) && (!ret->hexadecimal || (ret->first >= 0 && ret->last >= 0));
}

// Read the rest of a line that begins with a sequence, once for each number of the sequence.
// Returns false if the sequence is invalid or nested too deep.
static bool repeat(struct reader *reader, const char *line, unsigned int depth) {
	struct weir_keepalived_expansion *expansion = malloc(sizeof(*expansion));
	size_t bytes = strcspn(line, ")");
	char *head = strndup(line, bytes + 1);
	struct sequence sequence = {0};
	bool valid = false;

	reader->import->failed |= expansion == NULL || head == NULL;
	if (!reader->import->failed && line[bytes] == ')' && depth < EXPANSIONS_MAX) {
		expand(reader, head, expansion);
		valid = read_sequence(expansion->line, &sequence);
	}
	free(expansion);
	free(head);
	for (long i = sequence.first;
		valid && (sequence.step > 0 ? i <= sequence.last : i >= sequence.last) &&
		!is_too_much(reader) && set_number(reader, &sequence, i) && !reader->import->failed;
		i += sequence.step) {
		read_line(reader, line + bytes + 1, depth + 1);
	}
	return valid;
}

// Read a line. depth: number of nested definitions and sequences that were expanded to get this
// line; 0 = a line of the file.
static void read_line(struct reader *reader, const char *line, unsigned int depth) {
	line += strspn(line, " \t\r");
	if (!is_meant(reader, &line) || *line == '#' || *line == '!' || define(reader, line)) {
		return;
	}
	if (strncmp(line, "~SEQ", 4) == 0 && repeat(reader, line, depth)) {
		return;
	}
	if (strncmp(line, "~SEQ", 4) == 0 || strncmp(line, "~LST", 4) == 0) {
		SKIP(reader, line,
			"weirctl does not support this repetition: write the repeated lines one by "
			"one");
	} else if (strchr(line, '$') == NULL) {
		read_words(reader, line);
	} else if (!is_too_much(reader)) {
		read_definitions(reader, line, depth);
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
		if (memchr(text, '\0', length) != NULL) {
			COMPLAIN(reader, "the line contains a NUL byte, so this is not a "
					 "keepalived.conf: check the name of the file");
		} else if (length >= sizeof(line)) {
			SKIP(reader, "a line", "the line is longer than %d bytes", LINE_BYTES - 1);
		} else {
			int number = reader->place.line;

			memcpy(line, text, length);
			line[length] = '\0';
			if (reader->definitions.unfinished != NULL) {
				continue_definition(reader, line + strspn(line, " \t"));
			} else {
				read_line(reader, line, 0);
			}
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
	if (!import->failed) {
		close_all(reader, "at the end of the file");
	}
	weir_keepalived_definitions_fini(&reader->definitions);
	free(reader);
}
