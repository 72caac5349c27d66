// SPDX-License-Identifier: BSD-3-Clause
//
// The text of --help, from the table that the command line is parsed with (option.h). Lines are at
// most 80 characters long, but for usage, examples and options' names, which are not broken.
//
// Threads: any. Pure: writes to the caller's buffer, cut to its size.
#pragma once

#include "command_line.h"

#define WEIR_HELP_BYTES 16384 // more than the longest help

struct weir_help {
	const char *usage; // after "Usage: ", '\n' between lines
	const char *about; // what it does; is wrapped
	const struct weir_option_word *commands; // with help; NULL = has none
	const char *notes; // below the options, '\n' between paragraphs; NULL = none; is wrapped
	const char *examples; // '\n' between lines
	uint32_t groups; // options of these groups; those of all commands are shown, too
};

// All of it. Returns buffer.
const char *weir_help_text(const struct weir_option_list *list, const struct weir_help *help,
	char *buffer, size_t bytes);

// The options alone, with --help and --version. Returns buffer.
const char *weir_help_options(
	const struct weir_option_list *list, uint32_t groups, char *buffer, size_t bytes);
