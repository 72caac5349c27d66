// SPDX-License-Identifier: BSD-3-Clause
//
// Refuse: formats the reason why data received from another process was refused. Private to this
// folder.
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

// Write a reason to why, formatted as by printf, as one line of at most why_bytes. Returns `error`.
__attribute__((format(printf, 4, 5))) static inline int weir_refuse(
	int error, char *why, size_t why_bytes, const char *format, ...) {
	va_list args;

	if (why_bytes > 0) {
		va_start(args, format);
		vsnprintf(why, why_bytes, format, args);
		va_end(args);
	}
	return error;
}
