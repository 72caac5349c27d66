// SPDX-License-Identifier: BSD-3-Clause
//
// Command line of weirctl: options in any place, everything else is a word. Pure: prints nothing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "subset_preview.h"

#define WEIR_CLI_WORDS 8
#define WEIR_CLI_RUN_DIR "/run/weir"
#define WEIR_CLI_TIMEOUT_MS 5000

// Options that only some commands take; a command names those it takes.
enum weir_cli_option {
	WEIR_CLI_SERVICE = 1 << 0, // --service
	WEIR_CLI_WATCH = 1 << 1, // --watch, --interval, --count
	WEIR_CLI_SUBSET = 1 << 2, // --clients, --backends, --size, --algorithm, --mode, --salt
};

struct weir_cli_options { // strings point into argv or the environment
	const char *run_dir;
	bool json, help, version, watch;
	int timeout_ms;
	int interval_ms; // of --watch
	int count; // of --watch: how many times, 0 = until interrupted
	const char *service;
	struct weir_subset_preview subset;
	unsigned used; // enum weir_cli_option: those that were given
	const char *word[WEIR_CLI_WORDS];
	int words;
};

// environment_run_dir: value of WEIR_RUN_DIR, or NULL.
// Returns 0, or -EINVAL and one line in why.
int weir_cli_options_parse(int argc, char **argv, const char *environment_run_dir,
	struct weir_cli_options *ret, char *why, size_t why_bytes);

// A 5-tuple's half: "198.51.100.10:80", "[2001:db8::10]:80". address gets at most bytes - 1
// characters. Returns 0 or -EINVAL.
int weir_cli_endpoint_parse(const char *text, char *address, size_t bytes, uint16_t *ret_port);
