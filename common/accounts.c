// SPDX-License-Identifier: BSD-3-Clause
#include "accounts.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Rejects 4294967295, the highest 32-bit number: for the kernel this id means "unchanged", and for
// the callers of this file it means "none".
bool weir_account_number(const char *text, uint32_t *ret) {
	unsigned long number;
	char *end;

	if (text[0] < '0' || text[0] > '9') {
		return false; // errno stays that of the lookup of the name
	}
	errno = 0;
	number = strtoul(text, &end, 10);
	if (*end != '\0' || errno != 0 || number >= UINT32_MAX) {
		return false;
	}
	*ret = (uint32_t)number;
	return true;
}

int weir_account_missing(
	const char *option, const char *name, const char *kind, char *why, size_t why_bytes) {
	const int error = errno;

	// getpwnam(3): values of errno if the name does not exist
	if (error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM) {
		snprintf(why, why_bytes, "--%s %s: no such %s", option, name, kind);
		return -ENOENT;
	}
	snprintf(why, why_bytes, "--%s %s: cannot look up the %s: %s", option, name, kind,
		strerror(error));
	return -error;
}

int weir_account_group(const char *option, const char *name, const char *fallback, gid_t *ret,
	char *why, size_t why_bytes) {
	const struct group *entry;
	uint32_t number = UINT32_MAX;

	errno = 0;
	entry = getgrnam(name != NULL ? name : fallback);
	if (entry == NULL && name != NULL && !weir_account_number(name, &number)) {
		return weir_account_missing(option, name, "group", why, why_bytes);
	}
	*ret = entry != NULL ? entry->gr_gid : (gid_t)number;
	return 0;
}

int weir_account_user(const char *option, const char *name, const char *fallback, uid_t *ret,
	char *why, size_t why_bytes) {
	const struct passwd *entry;
	uint32_t number = UINT32_MAX;

	errno = 0;
	entry = getpwnam(name != NULL ? name : fallback);
	if (entry == NULL && name != NULL && !weir_account_number(name, &number)) {
		return weir_account_missing(option, name, "user", why, why_bytes);
	}
	*ret = entry != NULL ? entry->pw_uid : (uid_t)number;
	return 0;
}
