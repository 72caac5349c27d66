// SPDX-License-Identifier: BSD-3-Clause
#include "shell.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define COMMAND_BYTES 1024

bool shell_runs(const char *format, ...) {
	char command[COMMAND_BYTES];
	va_list arguments;
	int bytes;

	va_start(arguments, format);
	bytes = vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	if (bytes >= 0 && bytes < COMMAND_BYTES && system(command) == 0) {
		return true;
	}
	fprintf(stderr, "failed: %s\n", command);
	return false;
}
