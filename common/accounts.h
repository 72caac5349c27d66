// SPDX-License-Identifier: BSD-3-Clause
//
// Accounts: finds the users and groups that options name. An option accepts a name or a number; a
// number needs no entry in the account database.
//
// Threads: main, before other threads start: the C library's lookups are not reentrant.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Parse the number of a user or group. Returns false if it is not a valid id.
bool weir_account_number(const char *text, uint32_t *ret);

// Find a group. option: the option's name for messages, such as "group". name: the option's value;
// NULL = the group `fallback` if it exists, otherwise *ret is (gid_t)-1. Returns 0 or -ENOENT with
// one line in why.
int weir_account_group(const char *option, const char *name, const char *fallback, gid_t *ret,
	char *why, size_t why_bytes);
// Like weir_account_group for a user; (uid_t)-1 = none.
int weir_account_user(const char *option, const char *name, const char *fallback, uid_t *ret,
	char *why, size_t why_bytes);
