// SPDX-License-Identifier: BSD-3-Clause
#include "append.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void weir_append(char *text, size_t bytes, const char *format, ...) {
	const size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + used, bytes - used, format, arguments);
	va_end(arguments);
}
