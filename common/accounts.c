// SPDX-License-Identifier: BSD-3-Clause
#include "accounts.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

// Rejects 4294967295, the highest 32-bit number: for the kernel this id means "unchanged", and for
// the callers of this file it means "none".
bool weir_account_number(const char *text, uint32_t *ret) {
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number >= UINT32_MAX) {
		return false;
	}
	*ret = (uint32_t)number;
	return true;
}

int weir_account_group(const char *option, const char *name, const char *fallback, gid_t *ret,
	char *why, size_t why_bytes) {
	const struct group *entry = getgrnam(name != NULL ? name : fallback);
	uint32_t number = UINT32_MAX;

	if (entry == NULL && name != NULL && !weir_account_number(name, &number)) {
		snprintf(why, why_bytes, "--%s %s: no such group", option, name);
		return -ENOENT;
	}
	*ret = entry != NULL ? entry->gr_gid : (gid_t)number;
	return 0;
}

int weir_account_user(const char *option, const char *name, const char *fallback, uid_t *ret,
	char *why, size_t why_bytes) {
	const struct passwd *entry = getpwnam(name != NULL ? name : fallback);
	uint32_t number = UINT32_MAX;

	if (entry == NULL && name != NULL && !weir_account_number(name, &number)) {
		snprintf(why, why_bytes, "--%s %s: no such user", option, name);
		return -ENOENT;
	}
	*ret = entry != NULL ? entry->pw_uid : (uid_t)number;
	return 0;
}
