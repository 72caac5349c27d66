// SPDX-License-Identifier: BSD-3-Clause
//
// Options of a command line. Each option is a row of a table. The parser (command_line.h), the
// error messages and the text of --help (help_text.h) use this table.
//
// Threads: any. Prints nothing, allocates nothing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weir_option_kind {
	WEIR_OPTION_FLAG, // no value: sets a bool
	WEIR_OPTION_CONSTANT, // no value: sets an integer or enum to .constant
	// const char *, points into argv; .min to .max bytes long, .max 0 = no maximum
	WEIR_OPTION_TEXT,
	WEIR_OPTION_NUMBER, // whole number from .min to .max
	WEIR_OPTION_SCALED, // a whole number from .min to .max, which can be written with k for
			    // thousands or M for millions: 1.5M
	WEIR_OPTION_REAL, // double from .least to .most, with an optional k or M
	WEIR_OPTION_SECONDS, // seconds with a fraction, or 500ms, 60s, 2m, 1h; stored as
			     // milliseconds, .min to .max
	WEIR_OPTION_WORD, // integer or enum: the .number of one of .words
	WEIR_OPTION_CUSTOM, // the function .take stores the value
	// not an option: --help shows the name of this row as a heading above the next rows
	WEIR_OPTION_HEADING,
};

struct weir_option_word {
	const char *name; // NULL ends a list
	int number;
	// meaning of the word, shown in a separate line of --help; NULL = no such line
	const char *help;
};

struct weir_option;

// A function that stores a value in the program's options. Returns 0, or -EINVAL with the rest of
// the message in why. The message begins with `--name: "value" `. Example of the rest: "is not a
// prefix; use a prefix such as 10.0.0.0/24".
typedef int (*weir_option_take)(const struct weir_option *option, const char *value, void *options,
	char *why, size_t why_bytes);

struct weir_option {
	const char *name; // without "--"; for a heading, its text
	char letter; // short option: 'h' for -h; 0 = none
	enum weir_option_kind kind;
	bool required;
	// if true, --help shows that the option may be repeated; if false, the last value is used
	bool repeatable;
	const char *value; // name of the value: "FILE"
	const char *help; // without a full stop
	const char *fallback; // default value, for --help; NULL = not shown
	uint16_t field; // offset of the field in the program's options
	uint16_t field_bytes; // size of an integer or enum: 1, 2, 4 or 8
	uint64_t min, max;
	double least, most;
	int constant;
	const struct weir_option_word *words;
	weir_option_take take;
	uint32_t groups; // bits: groups of commands that accept the option; 0 = all commands
};

// Fields of a row: the member of the program's options in which the value is stored. Example:
// WEIR_OPTION_FIELD(struct weir_cli_options, timeout_ms).
#define WEIR_OPTION_FIELD(type, member) \
	.field = offsetof(type, member), .field_bytes = sizeof(((type *)0)->member)

// A row of a table of options. Example: WEIR_OPTION_ROW(NUMBER, "jobs", "N", "parallel runs",
// FIELD(jobs), .min = 1, .max = 64). of_kind: the kind without WEIR_OPTION_. The arguments after
// the help text set any other fields of struct weir_option.
#define WEIR_OPTION_ROW(of_kind, option, called, text, ...) \
	{.name = (option), \
		.kind = WEIR_OPTION_##of_kind, \
		.value = (called), \
		.help = text, \
		__VA_ARGS__}

bool weir_option_has_value(const struct weir_option *option);

// Store the value of an option in the program's options. value: NULL for an option that has no
// value. option: not a heading. Returns 0, or -EINVAL with one line in why. On failure, options are
// unchanged, unless .take of a WEIR_OPTION_CUSTOM changes them.
int weir_option_set(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes);

// Writes the words as a list, such as "native or skb" or "error, warn, info or debug". Returns
// buffer.
const char *weir_option_words(const struct weir_option_word *words, char *buffer, size_t bytes);
