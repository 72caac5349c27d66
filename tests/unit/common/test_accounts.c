// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/resource.h>

#include "accounts.h"
#include "test.h"

// The first test: later on, modules of the C library are loaded, and may find nothing without a
// file.
TEST(lookup_that_fails_is_no_missing_entry) {
	struct rlimit limit, none;
	char why[256] = "";
	int r, probe;
	uid_t uid = 7;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){.rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	errno = 0;
	getpwnam("no-such-user");
	probe = errno;
	r = weir_account_user("user", "no-such-user", "weir", &uid, why, sizeof(why));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	if (probe != EMFILE) {
		skip(); // a module of the C library needed no file to find nothing
	}
	assert_int_equal(r, -EMFILE);
	assert_string_equal(
		why, "--user no-such-user: cannot look up the user: Too many open files");
}

TEST(groups_are_found_by_name_and_number) {
	char why[256] = "";
	gid_t gid = 7;

	assert_int_equal(weir_account_group("group", "root", "weir", &gid, why, sizeof(why)), 0);
	assert_int_equal(gid, 0);
	assert_int_equal(weir_account_group("group", "12345", "weir", &gid, why, sizeof(why)), 0);
	assert_int_equal(gid, 12345);
	assert_int_equal(
		weir_account_group("group", "no-such-group", "weir", &gid, why, sizeof(why)),
		-ENOENT);
	assert_string_equal(why, "--group no-such-group: no such group");
	assert_int_equal(
		weir_account_group("group", "12x", "weir", &gid, why, sizeof(why)), -ENOENT);
	assert_int_equal(weir_account_group("group", "", "weir", &gid, why, sizeof(why)), -ENOENT);
	// The kernel would interpret this id as "unchanged".
	assert_int_equal(
		weir_account_group("group", "4294967295", "weir", &gid, why, sizeof(why)), -ENOENT);
	assert_int_equal(gid, 12345);
}

TEST(users_are_found_by_name_and_number) {
	char why[256] = "";
	uid_t uid = 7;

	assert_int_equal(
		weir_account_user("control-user", "root", "weir", &uid, why, sizeof(why)), 0);
	assert_int_equal(uid, 0);
	assert_int_equal(
		weir_account_user("control-user", "12345", "weir", &uid, why, sizeof(why)), 0);
	assert_int_equal(uid, 12345);
	assert_int_equal(
		weir_account_user("control-user", "no-such-user", "weir", &uid, why, sizeof(why)),
		-ENOENT);
	assert_string_equal(why, "--control-user no-such-user: no such user");
	assert_int_equal(
		weir_account_user("control-user", "4294967295", "weir", &uid, why, sizeof(why)),
		-ENOENT);
	assert_int_equal(uid, 12345);
}

TEST(default_is_taken_where_it_exists) {
	char why[256] = "";
	gid_t gid = 7;
	uid_t uid = 7;

	assert_int_equal(weir_account_group("group", NULL, "root", &gid, why, sizeof(why)), 0);
	assert_int_equal(gid, 0);
	assert_int_equal(weir_account_user("user", NULL, "root", &uid, why, sizeof(why)), 0);
	assert_int_equal(uid, 0);
	assert_int_equal(weir_account_group("group", NULL, "no-such", &gid, why, sizeof(why)), 0);
	assert_true(gid == (gid_t)-1);
	assert_int_equal(weir_account_user("user", NULL, "no-such", &uid, why, sizeof(why)), 0);
	assert_true(uid == (uid_t)-1);
}
