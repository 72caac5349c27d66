// SPDX-License-Identifier: BSD-3-Clause
//
// Command line of weir-control. Pure: prints nothing, ends nothing.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "log.h"

#define WEIR_RUN_DIR_DEFAULT "/run/weir"

struct weir_arguments { // strings point into argv
	const char *config;
	const char *run_dir;
	const char *user; // NULL = not given
	const char *group; // NULL = not given
	enum weir_log_level log_level;
	bool help;
	bool version;
};

// Returns 0, or -EINVAL and one line in why.
int weir_arguments_parse(
	int argc, char **argv, struct weir_arguments *ret, char *why, size_t why_bytes);

const char *weir_arguments_usage(void); // text of --help
