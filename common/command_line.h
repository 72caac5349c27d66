// SPDX-License-Identifier: BSD-3-Clause
//
// Parses the command lines of all programs, using a table of options (option.h). Accepts --name
// VALUE, --name=VALUE, -l VALUE, -lVALUE, -ab, options before, between and after operands, and
// "--", after which every word is an operand. Every program also has --help, -h and --version, -V.
// Long names cannot be abbreviated: a script must not break when an option is added.
//
// Messages have the same form in every program: one line with the error and, in most cases, its
// remedy, such as `--timeout: "1s" is not a whole number; use 1 to 3600000`.
//
// glibc's argp and getopt are not used. With ARGP_NO_ERRS or opterr = 0, they do not report the
// unknown word, so messages could not suggest the nearest option. Each program would still need
// code for values, ranges and lists of words. argp writes --help to a FILE, in a format that
// depends on the environment (ARGP_HELP_FMT), and musl has no argp.
//
// Threads: any; no mutable globals. Prints nothing, never exits, does not reorder argv.
#pragma once

#include "option.h"

#define WEIR_OPTIONS_MAX 64
#define WEIR_OPERANDS_MAX 20

// The options that every program has: --help and --version.
#define WEIR_OPTIONS_STANDARD 2
extern const struct weir_option weir_options_standard[WEIR_OPTIONS_STANDARD];

// The options of a program. Several rows may have the same name: they describe one option, with a
// different help text for each group of commands. Such rows must have the same kind, field and
// range.
struct weir_option_list {
	const struct weir_option *row;
	uint32_t count; // at most WEIR_OPTIONS_MAX
	int operands_max; // at most WEIR_OPERANDS_MAX
};

struct weir_command_line {
	// Bit i: the option of row i is on the command line. If several rows have the name of the
	// option, only the bit of the first row is set.
	uint64_t given;
	bool help, version;
	const char *operand[WEIR_OPERANDS_MAX]; // pointers into argv
	int operands;
};

// Parse the command line in argv, whose first element is the name of the program. options: the
// struct in which the program stores its options, filled with defaults; partly changed on failure.
// With --help or --version no option is required. Returns 0, or -EINVAL with one line in why and
// only the operands before the error in *ret, so that a message can name the help of a command.
int weir_command_line_parse(const struct weir_option_list *list, int argc, char *const *argv,
	void *options, struct weir_command_line *ret, char *why, size_t why_bytes);

// Find the command that the first operand names. commands: the list for --help, at most 16 elements
// such as "run FILE". The part before the space is the command's name, at most 31 characters.
// Returns 0 with the command's number in *ret, or -EINVAL with one line in why.
int weir_command_line_command(const struct weir_option_word *commands,
	const struct weir_command_line *line, int *ret, char *why, size_t why_bytes);

// Refuses options that the command does not accept. groups: the groups of options that the command
// accepts, as bits. command: the name of the command, for the message. Returns 0, or -EINVAL with
// one line in why.
int weir_command_line_check(const struct weir_option_list *list,
	const struct weir_command_line *line, uint32_t groups, const char *command, char *why,
	size_t why_bytes);
