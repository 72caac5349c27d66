// SPDX-License-Identifier: BSD-3-Clause
#include "run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void groups_are_found_by_name_and_number(void **state) {
	char why[256] = "";
	gid_t gid = 7;

	(void)state;
	assert_int_equal(weir_run_dir_group("root", &gid, why, sizeof(why)), 0);
	assert_int_equal(gid, 0);
	assert_int_equal(weir_run_dir_group("12345", &gid, why, sizeof(why)), 0);
	assert_int_equal(gid, 12345);
	assert_int_equal(weir_run_dir_group("no-such-group", &gid, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "no-such-group"));
	assert_int_equal(weir_run_dir_group("12x", &gid, why, sizeof(why)), -ENOENT);
	assert_int_equal(weir_run_dir_group("4294967295", &gid, why, sizeof(why)), -ENOENT);
	assert_int_equal(gid, 12345);
	assert_int_equal(weir_run_dir_group(NULL, &gid, why, sizeof(why)), 0);
	assert_int_not_equal(gid, 12345);
}

static void directory_is_made_for_the_group_whatever_the_umask(void **state) {
	char base[] = "/tmp/weir-test-XXXXXX";
	char path[128], deep[160], why[256] = "";
	mode_t umask_before = umask(077);
	struct stat st;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(base));
	snprintf(path, sizeof(path), "%s/a", base);
	snprintf(deep, sizeof(deep), "%s/b", path);
	assert_int_equal(weir_run_dir_make(deep, getegid(), why, sizeof(why)), 0);
	assert_int_equal(stat(deep, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0770);
	// One that is there stays as it is.
	assert_int_equal(chmod(deep, 0700), 0);
	assert_int_equal(weir_run_dir_make(deep, getegid(), why, sizeof(why)), 0);
	assert_int_equal(stat(deep, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(rmdir(deep), 0);
	fd = open(deep, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(weir_run_dir_make(deep, getegid(), why, sizeof(why)), -ENOTDIR);
	assert_non_null(strstr(why, deep));
	unlink(deep);
	rmdir(path);
	rmdir(base);
	umask(umask_before);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_are_found_by_name_and_number),
		cmocka_unit_test(directory_is_made_for_the_group_whatever_the_umask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
