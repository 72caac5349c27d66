// SPDX-License-Identifier: BSD-3-Clause
//
// What is wrong with a JSON file: the configuration, or a scenario of the simulator.
//
// Threads: any.
#pragma once

#include <stdint.h>

struct weir_config_error {
	int line; // 1-based; 0 = the file as a whole
	int column; // 1-based; 0 = unknown
	char path[192]; // JSON path: services[2].backends[0].address
	char reason[320]; // what is wrong and what to do, one line
};

struct weir_config_errors { // zeroed at first
	struct weir_config_error *error;
	uint32_t count;
};

void weir_config_errors_fini(struct weir_config_errors *errors);
