// SPDX-License-Identifier: BSD-3-Clause
//
// Options of weir-dataplane's command line.
//
// Threads: one. Strings are borrowed from argv and the environment.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "log.h"

#define WEIR_STEER_OBJECT_NONE "none" // value of --steer-object for the AF_XDP driver's own program

struct weir_dataplane_options {
	const char *config;
	const char *run_dir;
	const char *group; // NULL = group weir, if it exists
	const char *control_user; // NULL = user weir, if it exists
	const char *eal; // additional arguments for DPDK, "" = none
	const char *steer_object;
	bool telemetry; // serve DPDK's telemetry socket
	enum weir_log_level log_level;
	enum weir_log_format log_format;
	bool version;
	bool help;
};

// Parse the command line. Returns 0 or -EINVAL with one line in why.
int weir_dataplane_options_parse(
	int argc, char **argv, struct weir_dataplane_options *ret, char *why, size_t why_bytes);

// Write the text of --help to buffer. bytes: size of the buffer, WEIR_HELP_BYTES. Returns buffer.
const char *weir_dataplane_help(char *buffer, size_t bytes);
