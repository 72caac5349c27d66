// SPDX-License-Identifier: BSD-3-Clause
#include "starved.h"

#include <stdbool.h>
#include <stddef.h>

static long allocations_left = -1; // number of allocations that still succeed; -1 = no limit

void starved_after(long n) {
	allocations_left = n < 0 ? -1 : n;
}

static bool refuse(void) {
	if (allocations_left == 0) {
		return true;
	}
	if (allocations_left > 0) {
		allocations_left--;
	}
	return false;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes) {
	return refuse() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes) {
	return refuse() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes) {
	return refuse() ? NULL : __real_realloc(old, bytes);
}
