// SPDX-License-Identifier: BSD-3-Clause
//
// Accounts: users and groups that options name, by name or by number. A number needs no entry in
// the system's files.
//
// Threads: main, before others are started: the C library's look-ups are not reentrant.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// The number of a user or group. Returns false when the text is none that an account can have.
bool weir_account_number(const char *text, uint32_t *ret);

// option: for messages, "group". name: what was given, or NULL: then fallback if there is one of
// that name, else (gid_t)-1. Returns 0 or -ENOENT with one line in why.
int weir_account_group(const char *option, const char *name, const char *fallback, gid_t *ret,
	char *why, size_t why_bytes);
// The same for a user, else (uid_t)-1.
int weir_account_user(const char *option, const char *name, const char *fallback, uid_t *ret,
	char *why, size_t why_bytes);
