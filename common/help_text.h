// SPDX-License-Identifier: BSD-3-Clause
//
// The text of --help, from the table that parses the command line (option.h). Lines have at most 80
// characters, except usage, examples and names, which are not wrapped.
//
// Threads: any. Writes only to the caller's buffer, and truncates text that does not fit.
#pragma once

#include "command_line.h"

#define WEIR_HELP_BYTES 16384 // longer than the longest help text

struct weir_help {
	const char *usage; // text after "Usage: ", with '\n' between lines
	const char *about; // purpose of the program; wrapped
	const struct weir_option_word *commands; // with their help texts; NULL = none
	const char *notes; // below the options, '\n' between paragraphs; NULL = none; wrapped
	const char *examples; // '\n' between lines
	// Bits of the groups whose options are shown, in addition to the options of all commands.
	uint32_t groups;
};

// Write the whole help text of a program or of a command. help->groups selects the options to show.
// Returns buffer.
const char *weir_help_text(const struct weir_option_list *list, const struct weir_help *help,
	char *buffer, size_t bytes);

// Write only the table of options, including --help and --version. groups: bits of the groups whose
// options are shown, in addition to the options that all commands have. Returns buffer.
const char *weir_help_options(
	const struct weir_option_list *list, uint32_t groups, char *buffer, size_t bytes);

// Write the command line that prints the help of a command, such as "weir-agent run --help".
// command: begins with the name of the command; NULL = the help of the program. Returns buffer.
const char *weir_help_words(const char *program, const char *command, char *buffer, size_t bytes);
