// SPDX-License-Identifier: BSD-3-Clause
#include "privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "accounts.h"
#include "daemon_options.h"

#define FALLBACK_USER "nobody"

// Finds a user by name or numeric ID. The user must be in the account database, even if `name` is
// an ID.
static const struct passwd *find_user(const char *name) {
	const struct passwd *entry;
	uint32_t uid;

	errno = 0;
	entry = getpwnam(name);
	return entry == NULL && weir_account_number(name, &uid) ? getpwuid(uid) : entry;
}

static const struct group *find_group(const char *name) {
	const struct group *entry;
	uint32_t gid;

	errno = 0;
	entry = getgrnam(name);
	return entry == NULL && weir_account_number(name, &gid) ? getgrgid(gid) : entry;
}

static int resolve_as_root(const char *user, const char *group, const char *default_group,
	struct weir_run_as *run_as, char *why, size_t why_bytes) {
	const struct passwd *entry = find_user(user != NULL ? user : WEIR_USER_DEFAULT);
	const struct group *members;
	const char *group_name;

	if (entry == NULL && user == NULL) {
		entry = find_user(FALLBACK_USER);
		run_as->fallback = true;
	}
	if (entry == NULL) {
		return weir_account_missing(
			"user", user != NULL ? user : FALLBACK_USER, "user", why, why_bytes);
	}
	run_as->uid = entry->pw_uid;
	run_as->gid = entry->pw_gid;
	snprintf(run_as->user, sizeof(run_as->user), "%s", entry->pw_name);
	group_name = group != NULL ? group : default_group;
	members = group_name != NULL ? find_group(group_name) : NULL;
	if (members == NULL && group != NULL) {
		return weir_account_missing("group", group, "group", why, why_bytes);
	}
	if (members != NULL) {
		run_as->gid = members->gr_gid;
	}
	run_as->change = true;
	return 0;
}

static int resolve_as_user(const char *user, const char *group, struct weir_run_as *run_as,
	char *why, size_t why_bytes) {
	const struct passwd *entry = user != NULL ? find_user(user) : NULL;
	const struct group *members;
	bool is_other;

	run_as->uid = geteuid();
	run_as->gid = getegid();
	if (user != NULL && entry == NULL) {
		return weir_account_missing("user", user, "user", why, why_bytes);
	}
	members = group != NULL ? find_group(group) : NULL;
	if (group != NULL && members == NULL) {
		return weir_account_missing("group", group, "group", why, why_bytes);
	}
	is_other = entry != NULL && entry->pw_uid != run_as->uid;
	if (is_other || (members != NULL && members->gr_gid != run_as->gid)) {
		snprintf(why, why_bytes, "--%s needs root", is_other ? "user" : "group");
		return -EPERM;
	}
	entry = getpwuid(run_as->uid);
	snprintf(run_as->user, sizeof(run_as->user), "%s",
		entry != NULL ? entry->pw_name : "(nameless)");
	run_as->change = false;
	return 0;
}

int weir_privileges_resolve(const char *user, const char *group, const char *default_group,
	struct weir_run_as *ret, char *why, size_t why_bytes) {
	struct weir_run_as run_as = {0};
	int r = geteuid() == 0
			? resolve_as_root(user, group, default_group, &run_as, why, why_bytes)
			: resolve_as_user(user, group, &run_as, why, why_bytes);

	if (r == 0) {
		*ret = run_as;
	}
	return r;
}

// Keep only these capabilities, drop all other permitted, effective and ambient capabilities, and
// set NO_NEW_PRIVS, so that the process cannot get them again. Returns 0 or negative errno.
static int set_capabilities(const cap_value_t *kept, int count) {
	cap_t set = cap_init();
	int r = 0;

	if (set == NULL) {
		return -ENOMEM;
	}
	if (count > 0 && (cap_set_flag(set, CAP_PERMITTED, count, kept, CAP_SET) ||
				 cap_set_flag(set, CAP_EFFECTIVE, count, kept, CAP_SET))) {
		r = -errno;
	}
	if (r == 0 &&
		(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
			cap_set_proc(set) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)) {
		r = -errno;
	}
	cap_free(set);
	return r;
}

// Drops all capabilities from the bounding set. Otherwise a program that this process starts could
// get capabilities from its file, because some kernels grant them in spite of NO_NEW_PRIVS. Without
// CAP_SETPCAP, the set is unchanged.
static void drop_bounding_set(void) {
	for (unsigned int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	}
}

int weir_privileges_become(const struct weir_run_as *run_as, const cap_value_t *kept, int count) {
	drop_bounding_set();
	if (count > 0 && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0) {
		return -errno;
	}
	if (run_as->change &&
		(setgroups(0, NULL) < 0 || setresgid(run_as->gid, run_as->gid, run_as->gid) < 0 ||
			setresuid(run_as->uid, run_as->uid, run_as->uid) < 0)) {
		return -errno;
	}
	// With --user root, the process still drops root's capabilities.
	return set_capabilities(kept, count);
}

int weir_privileges_keep(const cap_value_t *kept, int count) {
	drop_bounding_set();
	return set_capabilities(kept, count);
}

int weir_privileges_drop(const struct weir_run_as *run_as) {
	return weir_privileges_become(run_as, NULL, 0);
}

bool weir_privileges_has(cap_value_t capability) {
	cap_flag_value_t value = CAP_CLEAR;
	cap_t set = cap_get_proc();

	if (set == NULL) {
		return false;
	}
	if (cap_get_flag(set, capability, CAP_PERMITTED, &value) < 0) {
		value = CAP_CLEAR;
	}
	cap_free(set);
	return value == CAP_SET;
}
