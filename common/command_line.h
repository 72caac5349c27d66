// SPDX-License-Identifier: BSD-3-Clause
//
// Command lines of all programs, from a table of options (option.h). Understood are --name VALUE,
// --name=VALUE, -l VALUE, -lVALUE, -ab, options before, between and behind operands, and "--",
// after which everything is an operand. Every program also has --help, -h and --version, -V. Long
// names are not abbreviated: a script must not break when an option is added.
//
// Messages are one line, the same in every program: what is wrong and what to do.
// `--timeout: "1s" is not a whole number; use 1 to 3600000`
//
// Not glibc's argp or getopt, which lack what half of this is about: with ARGP_NO_ERRS or opterr =
// 0 neither tells the parser which word was unknown, so there is no "did you mean"; values, ranges
// and words would be each program's own code again; argp writes --help to a FILE in a form that the
// environment changes (ARGP_HELP_FMT), and musl has none.
//
// Threads: any. Pure: prints nothing, ends nothing, keeps argv's order, no globals.
#pragma once

#include "option.h"

#define WEIR_OPTIONS_MAX 64
#define WEIR_OPERANDS_MAX 20

// --help and --version.
#define WEIR_OPTIONS_STANDARD 2
extern const struct weir_option weir_options_standard[WEIR_OPTIONS_STANDARD];

// Rows of the same name are one option with a help for each of their groups. They have the same
// kind, field and range.
struct weir_option_list {
	const struct weir_option *row;
	uint32_t count; // at most WEIR_OPTIONS_MAX
	int operands_max; // at most WEIR_OPERANDS_MAX
};

struct weir_command_line {
	uint64_t given; // bit i: row i was given
	bool help, version;
	const char *operand[WEIR_OPERANDS_MAX]; // point into argv
	int operands;
};

// options: the program's struct, filled with defaults; partly changed on failure.
// With --help or --version nothing is required. Returns 0, or -EINVAL with one line in why; *ret is
// untouched then.
int weir_command_line_parse(const struct weir_option_list *list, int argc, char *const *argv,
	void *options, struct weir_command_line *ret, char *why, size_t why_bytes);

// The command that the first operand names. commands: words as for --help, "run FILE", of which the
// part before the space counts. Returns 0, or -EINVAL with one line in why.
int weir_command_line_command(const struct weir_option_word *commands,
	const struct weir_command_line *line, int *ret, char *why, size_t why_bytes);

// Refuse options that a command does not take: those of other groups. command: its name, for the
// message. Returns 0, or -EINVAL with one line in why.
int weir_command_line_check(const struct weir_option_list *list,
	const struct weir_command_line *line, uint32_t groups, const char *command, char *why,
	size_t why_bytes);
