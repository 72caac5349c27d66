// SPDX-License-Identifier: BSD-3-Clause
//
// subset preview: how many clients each backend would have. Works it out with the code that the
// daemon uses; needs no daemon.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct weir_cli;
struct weir_cli_command;

// Its options, as given on the command line. All zero at first.
struct weir_subset_preview {
	uint32_t clients; // 0 = not given
	uint32_t backends; // 0 = not given
	uint32_t size; // 0 = not given
	uint32_t salt;
	uint32_t algorithm; // enum weir_subset_algorithm; only when has_algorithm
	uint32_t mode; // enum weir_subset_mode
	uint8_t has_algorithm; // deterministic otherwise
};

// Take an option of this name ("--clients") with its value.
// Returns 0, or -EINVAL and one line in why; the preview is unchanged then.
int weir_subset_preview_option(struct weir_subset_preview *preview, const char *name,
	const char *value, char *why, size_t why_bytes);

int weir_subset_preview_run(struct weir_cli *cli, const struct weir_cli_command *command);
