// SPDX-License-Identifier: BSD-3-Clause
//
// Errors and warnings of a JSON file: the configuration, or a scenario of the simulator. A file
// with an error is refused; a warning reports a valid setting that is probably a mistake.
//
// Threads: any.
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct weir_config_error {
	int line; // 1-based; 0 = the whole file
	int column; // 1-based; 0 = unknown
	char path[192]; // JSON path: services[2].backends[0].address
	char reason[448]; // error and remedy in one line
};

struct weir_config_errors { // zeroed at first
	struct weir_config_error *error;
	uint32_t count;
	struct weir_config_error *warning; // warnings of a valid file
	uint32_t warning_count;
};

void weir_config_errors_fini(struct weir_config_errors *errors);

// Write "FILE:LINE:COL: PATH: reason", a format that editors can parse. An unknown line, column or
// path is left out. The text is truncated to the size of the buffer. Returns buffer.
const char *weir_config_error_format(
	const char *file, const struct weir_config_error *error, char *buffer, size_t bytes);

// Make an array of {line, column, path, reason}. NULL: out of memory.
json_t *weir_config_errors_json(const struct weir_config_error *error, uint32_t count);
