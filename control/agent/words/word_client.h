// SPDX-License-Identifier: BSD-3-Clause
//
// Word client: announces a word through the socket of a service (words.h).
//
// Threads: any; waits for at most the given time.
#pragma once

#include <stddef.h>

#include "word_line.h"

#define WEIR_WORD_PATH_BYTES 108 // of an address
#define WEIR_WORD_WHY_BYTES 320

// The socket of a service. service: NULL = the only one that this user may connect to. Returns 0,
// -ENOENT (there is none), -E2BIG (several), -ENAMETOOLONG.
int weir_word_path(const char *run_dir, const char *service, char ret[static WEIR_WORD_PATH_BYTES]);

// Send a request, and wait for the reply until timeout_ms have passed. ret: a line with its line
// feed. Returns 0, or negative errno: -ETIMEDOUT: the request is delivered all the same.
int weir_word_exchange(const char *path, const char *request, int timeout_ms,
	char ret[static WEIR_WORD_REPLY_BYTES]);

// Why the functions above have failed, and what to do. Returns why, of WEIR_WORD_WHY_BYTES.
const char *weir_word_explain(int error, const char *run_dir, const char *service, char *why);
