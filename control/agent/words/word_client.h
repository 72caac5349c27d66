// SPDX-License-Identifier: BSD-3-Clause
//
// Word client: announces a state through the socket of a service (words.h).
//
// Threads: any. weir_word_exchange waits for at most the given time.
#pragma once

#include <stddef.h>

#include "word_line.h"

#define WEIR_WORD_PATH_BYTES 108 // size of sun_path
#define WEIR_WORD_WHY_BYTES 320

// Find the path of the socket of a service. If service is NULL, find the only socket that this user
// may connect to. Returns 0, -ENOENT (no such socket), -E2BIG (several sockets), -ENAMETOOLONG, or
// another negative errno of opendir(3).
int weir_word_path(const char *run_dir, const char *service, char ret[static WEIR_WORD_PATH_BYTES]);

// Send a request, and wait for the reply for at most timeout_ms. ret: gets the reply, a line with
// its line feed; undefined after an error. Returns 0 or negative errno. -ETIMEDOUT: the request was
// delivered, but no reply arrived. -EAGAIN: the queue of connections is full.
int weir_word_exchange(const char *path, const char *request, int timeout_ms,
	char ret[static WEIR_WORD_REPLY_BYTES]);

// Describe why weir_word_path or weir_word_exchange has failed, and what the user can do. why: has
// WEIR_WORD_WHY_BYTES bytes. Returns why.
const char *weir_word_explain(int error, const char *run_dir, const char *service, char *why);
