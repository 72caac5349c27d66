// SPDX-License-Identifier: BSD-3-Clause
//
// Writes files that simulate files of the kernel or of agents.
#pragma once

#include <stdio.h>

#include "test.h"

// Write a file in an existing folder.
static inline void put_file(const char *folder, const char *name, const char *text) {
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}
