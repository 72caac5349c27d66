// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz: shared by the targets. A target is one function; libFuzzer or replay.c calls it.
//
// Threads: one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Returns 0. An input that violates a guarantee aborts the process.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
// Called once before the first input, if the target defines it. Returns 0.
int LLVMFuzzerInitialize(int *argc, char ***argv);
// Mutates an input in place to at most max_bytes, if the target defines it. Returns the new
// length.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned int seed);
// libFuzzer's own mutation; not available with replay.c.
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max_bytes) __attribute__((weak));

#define REQUIRE(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

// The part of the input that has not been read yet. Reads beyond its end return 0.
struct fuzz_input {
	const uint8_t *data;
	size_t bytes;
};

static inline uint8_t fuzz_take8(struct fuzz_input *input) {
	uint8_t value;

	if (input->bytes == 0) {
		return 0;
	}
	value = input->data[0];
	input->data++;
	input->bytes--;
	return value;
}

// Takes two bytes, little endian.
static inline uint16_t fuzz_take16(struct fuzz_input *input) {
	uint16_t low = fuzz_take8(input);

	return (uint16_t)(low | fuzz_take8(input) << 8);
}

// Takes at most n bytes. Sets *ret_bytes to the number of bytes taken.
static inline const uint8_t *fuzz_take(struct fuzz_input *input, size_t n, size_t *ret_bytes) {
	const uint8_t *data = input->data;

	*ret_bytes = n < input->bytes ? n : input->bytes;
	input->data += *ret_bytes;
	input->bytes -= *ret_bytes;
	return data;
}

// Reads every byte, so that a sanitizer detects inaccessible or uninitialized memory.
static inline void fuzz_touch(const uint8_t *data, size_t bytes) {
	volatile uint8_t byte;

	for (size_t i = 0; i < bytes; i++) {
		byte = data[i];
		(void)byte;
	}
}
