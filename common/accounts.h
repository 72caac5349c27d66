// SPDX-License-Identifier: BSD-3-Clause
//
// Accounts: finds the users and groups that are given as options. An option accepts a name or a
// numeric ID; an ID needs no entry in the account database.
//
// Threads: only main, before other threads start, because the C library's lookups are not
// reentrant.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Parse the numeric ID of a user or group, in decimal. Returns false, and leaves *ret unchanged, if
// the text is not a valid ID.
bool weir_account_number(const char *text, uint32_t *ret);

// Writes why a lookup of a name (getpwnam, getgrnam) found nothing: there is no such entry, or the
// lookup failed. Uses the errno of the lookup; the caller must set errno to 0 before the lookup.
// option, name: see weir_account_group. kind: "user" or "group". Returns -ENOENT, or the negative
// errno of the lookup.
int weir_account_missing(
	const char *option, const char *name, const char *kind, char *why, size_t why_bytes);

// Find a group. option: the option's name for messages, such as "group". name: the option's value.
// If name is NULL, the group `fallback` is used if it exists, otherwise *ret is (gid_t)-1. Returns
// 0, or the result of weir_account_missing.
int weir_account_group(const char *option, const char *name, const char *fallback, gid_t *ret,
	char *why, size_t why_bytes);
// Find a user. The parameters and results are as for weir_account_group; *ret is (uid_t)-1 if name
// is NULL and the user `fallback` does not exist.
int weir_account_user(const char *option, const char *name, const char *fallback, uid_t *ret,
	char *why, size_t why_bytes);
