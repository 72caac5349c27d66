// SPDX-License-Identifier: BSD-3-Clause
#include "command_line.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nearest.h"
#include "terminal.h"

#define NAME_BYTES 64
#define SHOWN_BYTES 64

const struct weir_option weir_options_standard[WEIR_OPTIONS_STANDARD] = {
	{.name = "help",
		.letter = 'h',
		.help = "print this help",
		.field = offsetof(struct weir_command_line, help)},
	{.name = "version",
		.letter = 'V',
		.help = "print the version",
		.field = offsetof(struct weir_command_line, version)},
};

struct parser {
	const struct weir_option_list *list;
	void *options;
	struct weir_command_line line;
	char *const *argv; // next argument to parse; the array ends with NULL
	char *const *end;
	char *why;
	size_t why_bytes;
};

// --- lookup -------------------------------------------------------------------------------

// Returns the number of rows. The rows have consecutive indexes: first the options of the program,
// then the standard options.
static uint32_t rows(const struct parser *parser) {
	return parser->list->count + WEIR_OPTIONS_STANDARD;
}

static const struct weir_option *row(const struct parser *parser, uint32_t i) {
	return i < parser->list->count ? &parser->list->row[i]
				       : &weir_options_standard[i - parser->list->count];
}

// Returns the index of the first row with this name or this letter, or rows() if there is no such
// row. name: `bytes` bytes long; NULL = search for the letter only.
static uint32_t find(const struct parser *parser, const char *name, size_t bytes, char letter) {
	uint32_t i;

	for (i = 0; i < rows(parser); i++) {
		const struct weir_option *option = row(parser, i);

		if (option->kind == WEIR_OPTION_HEADING) {
			continue;
		}
		if (name != NULL ? strlen(option->name) == bytes &&
					   memcmp(option->name, name, bytes) == 0
				 : option->letter == letter) {
			break;
		}
	}
	return i;
}

static bool is_first(const struct parser *parser, uint32_t i) {
	const char *name = row(parser, i)->name;

	return find(parser, name, strlen(name), 0) == i;
}

// Returns the name of the option that the user probably meant: the only name that starts with
// `name`, otherwise the most similar name. NULL = no such name.
static const char *near_name(const struct parser *parser, const char *name) {
	const char *names[WEIR_OPTIONS_MAX + WEIR_OPTIONS_STANDARD], *begins = NULL;
	uint32_t count = 0, beginning = 0;

	for (uint32_t i = 0; i < rows(parser); i++) {
		if (row(parser, i)->kind != WEIR_OPTION_HEADING && is_first(parser, i)) {
			names[count++] = row(parser, i)->name;
		}
	}
	for (uint32_t i = 0; i < count && name[0] != '\0'; i++) {
		if (strncmp(names[i], name, strlen(name)) == 0) {
			begins = names[i];
			beginning++;
		}
	}
	return beginning == 1 ? begins : weir_nearest(name, names, count);
}

// Returns -EINVAL, and writes the error message for an unknown option to parser->why. word: the
// argument as typed. name: the name of the option in this argument, without dashes and value.
static int refuse_unknown(struct parser *parser, const char *word, const char *name) {
	const char *near = near_name(parser, name);
	char shown[SHOWN_BYTES];

	if (word[1] >= '0' && word[1] <= '9') {
		snprintf(parser->why, parser->why_bytes,
			"unknown option %s; write -- before a negative number",
			weir_terminal_text(word, shown, sizeof(shown)));
		return -EINVAL;
	}
	snprintf(parser->why, parser->why_bytes, "unknown option %s%s%s%s",
		weir_terminal_text(word, shown, sizeof(shown)),
		near != NULL ? "; did you mean --" : "", near != NULL ? near : "",
		near != NULL ? "?" : "");
	return -EINVAL;
}

// --- parsing one word ---------------------------------------------------------------------

static int set(struct parser *parser, uint32_t number, const char *value) {
	const struct weir_option *option = row(parser, number);
	bool is_standard = number >= parser->list->count;

	if (weir_option_has_value(option) && value == NULL) {
		if (parser->argv == parser->end || *parser->argv == NULL) {
			snprintf(parser->why, parser->why_bytes, "--%s needs a value; use --%s %s",
				option->name, option->name, option->value);
			return -EINVAL;
		}
		value = *parser->argv++;
	} else if (!weir_option_has_value(option) && value != NULL) {
		snprintf(parser->why, parser->why_bytes, "--%s takes no value; use --%s alone",
			option->name, option->name);
		return -EINVAL;
	}
	if (!is_standard) {
		parser->line.given |= UINT64_C(1) << number;
	}
	return weir_option_set(option, value, is_standard ? (void *)&parser->line : parser->options,
		parser->why, parser->why_bytes);
}

static int take_name(struct parser *parser, const char *word) {
	const char *name = word + 2;
	size_t bytes = strcspn(name, "=");
	uint32_t number = find(parser, name, bytes, 0);
	char copy[NAME_BYTES];

	if (number == rows(parser)) {
		snprintf(copy, sizeof(copy), "%.*s", (int)(bytes < NAME_BYTES ? bytes : NAME_BYTES),
			name);
		return refuse_unknown(parser, word, copy);
	}
	return set(parser, number, name[bytes] == '=' ? name + bytes + 1 : NULL);
}

static int take_letters(struct parser *parser, const char *word) {
	int r = 0;

	for (const char *letter = word + 1; r == 0 && *letter != '\0'; letter++) {
		uint32_t number = find(parser, NULL, 0, *letter);

		if (number == rows(parser)) {
			// For "-json", suggest "--json".
			return refuse_unknown(parser, word, word[2] != '\0' ? word + 1 : "");
		}
		if (weir_option_has_value(row(parser, number))) {
			return set(parser, number, letter[1] != '\0' ? letter + 1 : NULL);
		}
		r = set(parser, number, NULL);
	}
	return r;
}

static int take_operand(struct parser *parser, const char *word) {
	struct weir_command_line *line = &parser->line;
	char shown[SHOWN_BYTES];

	if (line->operands == parser->list->operands_max) {
		snprintf(parser->why, parser->why_bytes, "unexpected argument \"%s\"",
			weir_terminal_text(word, shown, sizeof(shown)));
		return -EINVAL;
	}
	line->operand[line->operands++] = word;
	return 0;
}

static int check_required(struct parser *parser) {
	for (uint32_t i = 0; i < parser->list->count; i++) {
		const struct weir_option *option = &parser->list->row[i];

		if (option->required && (parser->line.given >> i & 1) == 0) {
			snprintf(parser->why, parser->why_bytes, "--%s is missing; use --%s %s",
				option->name, option->name, option->value);
			return -EINVAL;
		}
	}
	return 0;
}

// --- parsing all words --------------------------------------------------------------------

int weir_command_line_parse(const struct weir_option_list *list, int argc, char *const *argv,
	void *options, struct weir_command_line *ret, char *why, size_t why_bytes) {
	struct parser parser = {
		.list = list, .options = options, .why = why, .why_bytes = why_bytes};
	bool only_operands = false;
	int r = 0;

	parser.argv = argv + (argc > 0 && argv[0] != NULL);
	parser.end = argv + argc;
	while (r == 0 && parser.argv < parser.end && *parser.argv != NULL) {
		const char *word = *parser.argv++;

		if (only_operands || word[0] != '-' || word[1] == '\0') {
			r = take_operand(&parser, word);
		} else if (strcmp(word, "--") == 0) {
			only_operands = true;
		} else if (word[1] == '-') {
			r = take_name(&parser, word);
		} else {
			r = take_letters(&parser, word);
		}
	}
	if (r == 0 && !parser.line.help && !parser.line.version) {
		r = check_required(&parser);
	}
	if (r != 0) {
		parser.line.given = 0;
		parser.line.help = parser.line.version = false;
	}
	*ret = parser.line;
	return r;
}

static bool takes(const struct weir_option_list *list, const char *name, uint32_t groups) {
	for (uint32_t i = 0; i < list->count; i++) {
		const struct weir_option *option = &list->row[i];

		if (strcmp(option->name, name) == 0 &&
			(option->groups == 0 || (option->groups & groups) != 0)) {
			return true;
		}
	}
	return false;
}

int weir_command_line_check(const struct weir_option_list *list,
	const struct weir_command_line *line, uint32_t groups, const char *command, char *why,
	size_t why_bytes) {
	for (uint32_t i = 0; i < list->count; i++) {
		const struct weir_option *option = &list->row[i];

		if ((line->given >> i & 1) != 0 && !takes(list, option->name, groups)) {
			snprintf(why, why_bytes, "--%s is not an option of %s; leave it out",
				option->name, command);
			return -EINVAL;
		}
	}
	return 0;
}

#define COMMANDS_MAX 16
#define COMMAND_BYTES 32

int weir_command_line_command(const struct weir_option_word *commands,
	const struct weir_command_line *line, int *ret, char *why, size_t why_bytes) {
	struct weir_option_word word[COMMANDS_MAX + 1] = {0};
	char name[COMMANDS_MAX][COMMAND_BYTES], list[256], shown[SHOWN_BYTES];
	const char *names[COMMANDS_MAX], *near;
	uint32_t count = 0;

	for (; count < COMMANDS_MAX && commands[count].name != NULL; count++) {
		snprintf(name[count], COMMAND_BYTES, "%.*s",
			(int)strcspn(commands[count].name, " "), commands[count].name);
		word[count].name = names[count] = name[count];
		if (line->operands > 0 && strcmp(name[count], line->operand[0]) == 0) {
			*ret = commands[count].number;
			return 0;
		}
	}
	weir_option_words(word, list, sizeof(list));
	if (line->operands == 0) {
		snprintf(why, why_bytes, "no command is given; use %s", list);
		return -EINVAL;
	}
	near = weir_nearest(line->operand[0], names, count);
	weir_terminal_text(line->operand[0], shown, sizeof(shown));
	if (near != NULL) {
		snprintf(why, why_bytes, "unknown command \"%s\"; did you mean \"%s\"?", shown,
			near);
	} else {
		snprintf(why, why_bytes, "unknown command \"%s\"; use %s", shown, list);
	}
	return -EINVAL;
}
