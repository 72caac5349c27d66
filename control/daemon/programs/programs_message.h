// SPDX-License-Identifier: BSD-3-Clause
//
// Messages between weir-control and the helper process that runs programs. Both processes run the
// same program file, so the messages are structs.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "programs.h"

#define WEIR_PROGRAM_WORDS_MAX 96u // maximum number of arguments and variables together

struct weir_program_request {
	uint64_t id;
	uint32_t timeout_ms;
	bool kill_rest;
	uint16_t arguments; // number; 0 = kill the program with this id
	uint16_t variables; // number
	char text[WEIR_PROGRAM_TEXT_BYTES]; // arguments, then variables, each with its NUL
};

struct weir_program_answer {
	uint64_t id;
	struct weir_program_result result;
};

// Write a request. Returns its length in bytes, or -E2BIG.
int weir_program_pack(
	const struct weir_program *program, uint64_t id, struct weir_program_request *ret);

// The words of a request: pointers into its text, NULL-terminated.
struct weir_program_words {
	char *arguments[WEIR_PROGRAM_WORDS_MAX + 1];
	char *variables[WEIR_PROGRAM_WORDS_MAX + 1];
};

// Find the words of a received request. bytes: length of the message. Returns 0 or -EBADMSG.
int weir_program_unpack(
	struct weir_program_request *request, size_t bytes, struct weir_program_words *ret);
