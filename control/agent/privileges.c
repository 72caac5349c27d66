// SPDX-License-Identifier: BSD-3-Clause
#include "privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "accounts.h"
#include "daemon_options.h"

#define FALLBACK_USER "nobody"

int weir_agent_user_find(
	const char *user, struct weir_agent_user *ret, char *why, size_t why_bytes) {
	const struct passwd *entry = getpwnam(user != NULL ? user : WEIR_USER_DEFAULT);
	uint32_t number;

	if (geteuid() != 0) {
		if (user != NULL) {
			snprintf(why, why_bytes, "--user needs root");
			return -EPERM;
		}
		*ret = (struct weir_agent_user){.uid = (uid_t)-1, .gid = (gid_t)-1};
		return 0;
	}
	if (entry == NULL && user == NULL) {
		entry = getpwnam(FALLBACK_USER);
	}
	if (entry == NULL && user != NULL && weir_account_number(user, &number)) {
		entry = getpwuid(number);
	}
	if (entry == NULL) {
		snprintf(why, why_bytes, "--user %s: no such user",
			user != NULL ? user : FALLBACK_USER);
		return -ENOENT;
	}
	*ret = (struct weir_agent_user){.uid = entry->pw_uid, .gid = entry->pw_gid};
	return 0;
}

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

static int become(const struct weir_agent_user *user) {
	if (user->uid != (uid_t)-1 &&
		(setgroups(0, NULL) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
			setresuid(user->uid, user->uid, user->uid) < 0)) {
		return -errno;
	}
	return 0;
}

int weir_agent_privileges_drop(const struct weir_agent_user *user) {
	int r = become(user);

	return r == 0 ? set_capabilities(NULL, 0) : r;
}

int weir_agent_privileges_keep_bpf(void) {
	static const cap_value_t kept[] = {CAP_BPF, CAP_PERFMON};

	return set_capabilities(kept, 2);
}

bool weir_agent_privileges_has_net_admin(void) {
	cap_flag_value_t value = CAP_CLEAR;
	cap_t set = cap_get_proc();

	if (set == NULL) {
		return false;
	}
	if (cap_get_flag(set, CAP_NET_ADMIN, CAP_PERMITTED, &value) < 0) {
		value = CAP_CLEAR;
	}
	cap_free(set);
	return value == CAP_SET;
}

int weir_agent_privileges_keep_net_admin(const struct weir_agent_user *user) {
	static const cap_value_t kept[] = {CAP_NET_ADMIN};
	int r;

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0) {
		return -errno;
	}
	r = become(user);
	return r == 0 ? set_capabilities(kept, 1) : r;
}
