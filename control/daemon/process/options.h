// SPDX-License-Identifier: BSD-3-Clause
//
// Command line of weir-control. Does not print or exit.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "log.h"

struct weir_control_options { // strings point into argv, or are constants
	const char *config;
	const char *run_dir;
	const char *user; // NULL = not given
	const char *group; // NULL = not given
	const char *admin_group; // NULL = not given
	const char *script_user; // NULL = not given
	bool data_path_checks;
	bool check_dataplane;
	enum weir_log_level log_level;
	enum weir_log_format log_format;
	bool help;
	bool version;
};

// Parse the command line. Returns 0, or -EINVAL and one line in why.
int weir_control_options_parse(
	int argc, char **argv, struct weir_control_options *ret, char *why, size_t why_bytes);

// Write the text of --help. buffer: has WEIR_HELP_BYTES bytes. Returns buffer.
const char *weir_control_help(char *buffer, size_t bytes);
