// SPDX-License-Identifier: BSD-3-Clause
#include "help_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 80
#define LABEL_MAX 26 // longer labels get a separate line
#define LABEL_BYTES 96
#define WORDS_BYTES 512

struct text {
	char *buffer;
	size_t bytes, used;
	size_t column; // current column of the current line
};

// Add text to the current line. The text must contain no line ends.
__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
	size_t room = text->bytes - text->used;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text->buffer + text->used, room, format, args);
	va_end(args);
	if (n > 0) {
		text->used += (size_t)n < room ? (size_t)n : room - 1;
		text->column += (size_t)n; // also counts text that did not fit into the buffer
	}
}

static void end_line(struct text *text) {
	add(text, "\n");
	text->column = 0;
}

// Add spaces up to a column. If the current line is already longer, begin a new line first.
static void go_to(struct text *text, size_t column) {
	if (text->column > column) {
		end_line(text);
	}
	add(text, "%*s", (int)(column - text->column), "");
}

// Adds the words of a paragraph, and wraps its lines. The current line is already at `column`, and
// all further lines begin there.
static void add_wrapped(struct text *text, size_t column, const char *words, size_t bytes) {
	const char *end = words + bytes;

	while (words < end) {
		size_t length = strcspn(words, " \n");

		length = length < (size_t)(end - words) ? length : (size_t)(end - words);
		if (text->column > column && text->column + 1 + length > WIDTH) {
			end_line(text);
			go_to(text, column);
		} else if (text->column > column) {
			add(text, " ");
		}
		add(text, "%.*s", (int)length, words);
		words += length + 1;
	}
}

static void add_paragraphs(struct text *text, const char *paragraphs) {
	for (const char *next = paragraphs; *next != '\0';) {
		size_t bytes = strcspn(next, "\n");

		add_wrapped(text, 0, next, bytes);
		end_line(text);
		next += bytes + (next[bytes] == '\n');
	}
}

// --- options ------------------------------------------------------------------------------

static bool is_shown(const struct weir_option *option, uint32_t groups) {
	return option->groups == 0 || (option->groups & groups) != 0;
}

// Writes the label of an option, such as "  -i, --interface NAME" or "      --config FILE".
static const char *label(const struct weir_option *option, char *buffer, size_t bytes) {
	char letter[] = "    ";

	if (option->letter != '\0') {
		snprintf(letter, sizeof(letter), "-%c, ", option->letter);
	}
	snprintf(buffer, bytes, "  %s--%s%s%s", letter, option->name,
		weir_option_has_value(option) ? " " : "",
		weir_option_has_value(option) ? option->value : "");
	return buffer;
}

static void add_word_lines(struct text *text, const struct weir_option_word *words, size_t column) {
	size_t width = 0;

	for (const struct weir_option_word *word = words; word->name != NULL; word++) {
		width = strlen(word->name) > width ? strlen(word->name) : width;
	}
	for (const struct weir_option_word *word = words; word->name != NULL; word++) {
		go_to(text, column);
		add(text, "%-*s", (int)width + 2, word->name);
		add_wrapped(text, column + width + 2, word->help, strlen(word->help));
		end_line(text);
	}
}

// Adds a row of the table: a heading, or an option with its help text, which begins at `column`.
// The option's words, "may be repeated" and the default follow the help text.
static void add_option(struct text *text, const struct weir_option *option, size_t column) {
	bool has_lines = option->words != NULL && option->words[0].help != NULL;
	char words[WORDS_BYTES], help[1024], name[LABEL_BYTES];

	if (option->kind == WEIR_OPTION_HEADING) {
		end_line(text);
		add(text, "%s:", option->name);
		end_line(text);
		return;
	}
	snprintf(help, sizeof(help), "%s%s%s%s%s%s%s", option->help,
		option->words != NULL && !has_lines ? ": " : "",
		option->words != NULL && !has_lines
			? weir_option_words(option->words, words, sizeof(words))
			: "",
		option->repeatable ? "; may be repeated" : "",
		option->fallback != NULL ? " (default: " : "",
		option->fallback != NULL ? option->fallback : "",
		option->fallback != NULL ? ")" : "");
	add(text, "%s", label(option, name, sizeof(name)));
	if (text->column + 2 > column) {
		end_line(text);
	}
	go_to(text, column);
	add_wrapped(text, column, help, strlen(help));
	end_line(text);
	if (has_lines) {
		add_word_lines(text, option->words, column + 2);
	}
}

static const struct weir_option *row(const struct weir_option_list *list, uint32_t i) {
	return i < list->count ? &list->row[i] : &weir_options_standard[i - list->count];
}

// Returns the column in which help texts begin: after the longest label. Options that are not
// shown, and labels of more than LABEL_MAX characters, are ignored. groups: bits of the groups
// whose options are shown.
static size_t help_column(const struct weir_option_list *list, uint32_t groups) {
	char name[LABEL_BYTES];
	size_t widest = 0;

	for (uint32_t i = 0; i < list->count + WEIR_OPTIONS_STANDARD; i++) {
		const struct weir_option *option = row(list, i);
		size_t width;

		if (option->kind == WEIR_OPTION_HEADING || !is_shown(option, groups)) {
			continue;
		}
		width = strlen(label(option, name, sizeof(name)));
		widest = width > widest && width <= LABEL_MAX ? width : widest;
	}
	return widest + 2;
}

static void add_options(struct text *text, const struct weir_option_list *list, uint32_t groups) {
	size_t column = help_column(list, groups);
	bool first = true;

	for (uint32_t i = 0; i < list->count + WEIR_OPTIONS_STANDARD; i++) {
		if (!is_shown(row(list, i), groups)) {
			continue;
		}
		if (first && row(list, i)->kind != WEIR_OPTION_HEADING) {
			end_line(text);
			add(text, "Options:");
			end_line(text);
		}
		first = false;
		add_option(text, row(list, i), column);
	}
}

// --- the whole text -----------------------------------------------------------------------

// Add the title and the first line of `lines`, in one line of text. Further lines follow in
// separate lines, in the same column as the first line.
static void add_lines(struct text *text, const char *title, const char *lines) {
	size_t column = strlen(title);

	add(text, "%s", title);
	for (const char *next = lines; *next != '\0';) {
		size_t bytes = strcspn(next, "\n");

		go_to(text, column);
		add(text, "%.*s", (int)bytes, next);
		end_line(text);
		next += bytes + (next[bytes] == '\n');
	}
}

const char *weir_help_options(
	const struct weir_option_list *list, uint32_t groups, char *buffer, size_t bytes) {
	struct text text = {.buffer = buffer, .bytes = bytes};

	buffer[0] = '\0';
	add_options(&text, list, groups);
	return buffer;
}

const char *weir_help_text(const struct weir_option_list *list, const struct weir_help *help,
	char *buffer, size_t bytes) {
	struct text text = {.buffer = buffer, .bytes = bytes};

	buffer[0] = '\0';
	add_lines(&text, "Usage: ", help->usage);
	end_line(&text);
	add_paragraphs(&text, help->about);
	if (help->commands != NULL) {
		end_line(&text);
		add(&text, "Commands:");
		end_line(&text);
		add_word_lines(&text, help->commands, 2);
	}
	add_options(&text, list, help->groups);
	if (help->notes != NULL) {
		end_line(&text);
		add_paragraphs(&text, help->notes);
	}
	end_line(&text);
	add_lines(&text,
		strchr(help->examples, '\n') != NULL ? "Examples: " : "Example: ", help->examples);
	return buffer;
}

const char *weir_help_words(const char *program, const char *command, char *buffer, size_t bytes) {
	snprintf(buffer, bytes, "%s %.*s%s--help", program,
		command != NULL ? (int)strcspn(command, " ") : 0, command != NULL ? command : "",
		command != NULL ? " " : "");
	return buffer;
}
