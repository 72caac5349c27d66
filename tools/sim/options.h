// SPDX-License-Identifier: BSD-3-Clause
//
// Options of weir-sim's command line. Called by main.c.
//
// Threads: one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The commands of weir-sim. X(NAME, "name", number of operands)
#define WEIR_SIM_COMMANDS(X) \
	X(RUN, "run", 1) X(LIST, "list", 0) X(CHECK, "check", 1) X(KEYS, "keys", 0)

enum weir_sim_command {
#define X(name, key, operands) WEIR_SIM_COMMAND_##name,
	WEIR_SIM_COMMANDS(X)
#undef X
		WEIR_SIM_COMMAND_COUNT,
};

// The formats of plots. X(NAME, "name")
#define WEIR_SIM_FORMATS(X) X(SVG, "svg") X(PNG, "png")

enum weir_sim_format {
#define X(name, key) WEIR_SIM_FORMAT_##name,
	WEIR_SIM_FORMATS(X)
#undef X
};

struct weir_sim_options {
	enum weir_sim_command command; // WEIR_SIM_COMMAND_COUNT = no command was given
	const char *operand;
	const char *directory; // directory of scenarios; NULL = the installed directory
	const char *out; // NULL = no files
	enum weir_sim_format format; // format of plots
	uint64_t seed; // the first seed; 0 = the first seed is 1
	uint32_t seeds; // number of seeds; 0 = one if `seed` is set, otherwise as in the scenario
	uint32_t jobs; // 0 = number of CPUs
	bool json, no_plots, quiet, help, version;
};

// Read the command line; strings point into argv.
// Returns 0, or -EINVAL with one line in why, and only the command in *ret.
int weir_sim_options_parse(
	int argc, char **argv, struct weir_sim_options *ret, char *why, size_t why_bytes);

// Write the command line that prints the help of a command, such as "weir-sim run --help", or of
// the program. Returns buffer.
const char *weir_sim_help_words(enum weir_sim_command command, char *buffer, size_t bytes);

// Write the text of --help for one command; WEIR_SIM_COMMAND_COUNT = for the program. Returns
// buffer, of WEIR_HELP_BYTES.
const char *weir_sim_help(enum weir_sim_command command, char *buffer, size_t bytes);

const char *weir_sim_format_name(enum weir_sim_format format);
