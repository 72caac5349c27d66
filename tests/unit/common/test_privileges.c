// SPDX-License-Identifier: BSD-3-Clause
//
// The tests drop privileges in a child process, because this cannot be undone.
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "privileges.h"
#include "test.h"

// Returns the number of the first failed check, or 0 if all checks succeed.
static int after_drop(const struct weir_run_as *run_as) {
	cap_flag_value_t value;
	gid_t groups[4];
	cap_t caps;

	if (weir_privileges_drop(run_as) < 0) {
		return 1;
	}
	if (getuid() != run_as->uid || geteuid() != run_as->uid) {
		return 2;
	}
	if (getgid() != run_as->gid || getegid() != run_as->gid) {
		return 3;
	}
	if (getgroups(4, groups) != 0 && run_as->change) {
		return 4;
	}
	caps = cap_get_proc();
	for (cap_value_t cap = 0; cap <= CAP_LAST_CAP; cap++) {
		for (int set = CAP_EFFECTIVE; set <= CAP_INHERITABLE; set++) {
			if (cap_get_flag(caps, cap, (cap_flag_t)set, &value) == 0 &&
				value == CAP_SET) {
				return 5;
			}
		}
	}
	cap_free(caps);
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
		return 6;
	}
	if (run_as->change && run_as->uid != 0 && setuid(0) == 0) {
		return 7;
	}
	for (unsigned int cap = 0; run_as->change && cap <= CAP_LAST_CAP; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1) {
			return 8; // a program could get it from its file
		}
	}
	return 0;
}

static int in_child(const struct weir_run_as *run_as) {
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		_exit(after_drop(run_as));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(privileges_are_dropped_irrevocably) {
	struct weir_run_as run_as;
	char why[256];

	assert_int_equal(weir_privileges_resolve(geteuid() == 0 ? "nobody" : NULL, NULL, NULL,
				 &run_as, why, sizeof(why)),
		0);
	assert_int_equal(run_as.change, geteuid() == 0);
	assert_int_equal(in_child(&run_as), 0);
}

TEST(privileges_root_by_name_keeps_no_capability) {
	struct weir_run_as run_as;
	char why[256];

	if (geteuid() != 0) {
		assert_int_equal(
			weir_privileges_resolve("root", NULL, NULL, &run_as, why, sizeof(why)),
			-EPERM);
		assert_non_null(strstr(why, "needs root"));
		return;
	}
	assert_int_equal(
		weir_privileges_resolve("root", "root", NULL, &run_as, why, sizeof(why)), 0);
	assert_int_equal(run_as.uid, 0);
	assert_int_equal(in_child(&run_as), 0);
}

TEST(privileges_default_is_weir_else_nobody) {
	const struct passwd *expected = getpwnam("weir");
	struct weir_run_as run_as;
	char why[256];

	assert_int_equal(weir_privileges_resolve(NULL, NULL, "weir", &run_as, why, sizeof(why)), 0);
	if (geteuid() != 0) {
		assert_int_equal(run_as.uid, geteuid());
		return;
	}
	expected = expected != NULL ? expected : getpwnam("nobody");
	assert_non_null(expected);
	assert_string_equal(run_as.user, expected->pw_name);
	assert_int_equal(run_as.uid, expected->pw_uid);
	if (getgrnam("weir") == NULL) {
		assert_int_equal(run_as.gid, expected->pw_gid);
	}
}

TEST(privileges_unknown_names_are_refused) {
	struct weir_run_as run_as;
	char why[256];

	assert_int_equal(
		weir_privileges_resolve("no-such-user", NULL, NULL, &run_as, why, sizeof(why)),
		-ENOENT);
	assert_string_equal(why, "--user no-such-user: no such user");
	assert_int_equal(
		weir_privileges_resolve(NULL, "no-such-group", NULL, &run_as, why, sizeof(why)),
		-ENOENT);
	assert_string_equal(why, "--group no-such-group: no such group");
	// An id above 32 bits must not be truncated: the lower 32 bits of this id are 0, the id of
	// root.
	assert_int_equal(
		weir_privileges_resolve("4294967296", NULL, NULL, &run_as, why, sizeof(why)),
		-ENOENT);
	assert_int_equal(
		weir_privileges_resolve(NULL, "4294967296", NULL, &run_as, why, sizeof(why)),
		-ENOENT);
}

static int resolve_without_root(void) {
	struct weir_run_as run_as;
	char user[16], why[256];

	if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0)) {
		return 1;
	}
	snprintf(user, sizeof(user), "%u", geteuid());
	return weir_privileges_resolve(user, "root", NULL, &run_as, why, sizeof(why)) != -EPERM ||
	       strcmp(why, "--group needs root") != 0;
}

TEST(privileges_refusal_names_the_option_that_needs_root) {
	pid_t child = fork();
	int status;

	if (child == 0) {
		_exit(resolve_without_root());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}
