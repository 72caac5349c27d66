// SPDX-License-Identifier: BSD-3-Clause
//
// Arguments of weir-dataplane. Called by main before anything else.
//
// Threads: one. Strings are borrowed from argv and the environment.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "log.h"

#define WEIR_RUN_DIR_DEFAULT "/run/weir"
#define WEIR_STEER_OBJECT_NONE "none" // of --steer-object: the AF_XDP driver's own program

struct weir_arguments {
	const char *config;
	const char *run_dir;
	const char *group; // NULL = weir where there is such a group
	const char *eal; // more arguments for DPDK, "" = none
	const char *steer_object;
	enum weir_log_level log_level;
	bool version;
	bool help;
};

// Returns 0 or -EINVAL with one line in why.
int weir_arguments_parse(
	int argc, char **argv, struct weir_arguments *ret, char *why, size_t why_bytes);
const char *weir_arguments_usage(void);
