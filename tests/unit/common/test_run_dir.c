// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_dir.h"
#include "test.h"

#define STRANGER 4242
#define CONTROL 4243
#define NONE ((uid_t) - 1)

struct lab {
	char base[32];
	char path[64];
	char control[80];
	char log_path[64];
	struct weir_log log;
	char why[300];
	mode_t umask_before;
};

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	strcpy(lab->base, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(lab->base));
	assert_int_equal(chmod(lab->base, 0755), 0);
	snprintf(lab->path, sizeof(lab->path), "%s/run", lab->base);
	snprintf(lab->control, sizeof(lab->control), "%s/control", lab->path);
	snprintf(lab->log_path, sizeof(lab->log_path), "%s/log", lab->base);
	lab->log.level = WEIR_LOG_INFO;
	lab->log.fd = open(lab->log_path, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
	lab->umask_before = umask(077);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	umask(lab->umask_before);
	close(lab->log.fd);
	unlink(lab->log_path);
	rmdir(lab->control);
	unlink(lab->path);
	rmdir(lab->path);
	assert_int_equal(rmdir(lab->base), 0);
	free(lab);
	return 0;
}

static int make(struct lab *lab, uid_t user) {
	lab->why[0] = '\0';
	return weir_run_dir_make(lab->path, user, getegid(), &lab->log, lab->why, sizeof(lab->why));
}

static int make_control(struct lab *lab, uid_t user) {
	lab->why[0] = '\0';
	return weir_run_dir_make_control(lab->path, user, getegid(), lab->why, sizeof(lab->why));
}

static void expect(const char *path, uid_t owner, mode_t mode) {
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, owner);
	assert_int_equal(st.st_mode & 07777, mode);
}

static void expect_log(const struct lab *lab, const char *text) {
	char content[1000] = "";

	assert_true(pread(lab->log.fd, content, sizeof(content) - 1, 0) >= 0);
	if (text == NULL) {
		assert_string_equal(content, "");
	} else {
		assert_non_null(strstr(content, text));
	}
}

TEST_EACH(setup, teardown);

TEST(group_may_read_but_not_write_with_any_umask) {
	struct lab *lab = *state;
	struct stat st;

	assert_int_equal(make(lab, NONE), 0);
	expect(lab->path, geteuid(), 0750);
	assert_int_equal(make_control(lab, NONE), 0);
	expect(lab->control, geteuid(), 0750);
	if (geteuid() == 0) {
		assert_int_equal(rmdir(lab->control), 0);
		assert_int_equal(rmdir(lab->path), 0);
		assert_int_equal(weir_run_dir_make(lab->path, NONE, STRANGER, &lab->log, lab->why,
					 sizeof(lab->why)),
			0);
		assert_int_equal(stat(lab->path, &st), 0);
		assert_int_equal(st.st_gid, STRANGER);
	}
	expect_log(lab, NULL);
}

TEST(parents_are_created_accessible_to_all) {
	struct lab *lab = *state;
	char deep[100];

	umask(022);
	snprintf(deep, sizeof(deep), "%s/weir", lab->path);
	assert_int_equal(
		weir_run_dir_make(deep, NONE, getegid(), &lab->log, lab->why, sizeof(lab->why)), 0);
	expect(lab->path, geteuid(), 0755);
	expect(deep, geteuid(), 0750);
	assert_int_equal(rmdir(deep), 0);
}

TEST(directory_writable_by_others_is_repaired_and_logged) {
	struct lab *lab = *state;

	assert_int_equal(mkdir(lab->path, 0700), 0);
	assert_int_equal(chmod(lab->path, 0770), 0);
	assert_int_equal(make(lab, NONE), 0);
	expect(lab->path, geteuid(), 0750);
	expect_log(lab, "was writable by others (mode 0770); changed to 0750");
	assert_int_equal(chmod(lab->path, 0707), 0);
	assert_int_equal(make(lab, NONE), 0);
	expect(lab->path, geteuid(), 0705);
	// The mode of weir-control's subdirectory is repaired, too.
	assert_int_equal(mkdir(lab->control, 0700), 0);
	assert_int_equal(chmod(lab->control, 0777), 0);
	assert_int_equal(make_control(lab, NONE), 0);
	expect(lab->control, geteuid(), 0750);
}

TEST(directory_writable_only_by_us_is_unchanged) {
	struct lab *lab = *state;

	assert_int_equal(mkdir(lab->path, 0700), 0);
	assert_int_equal(make(lab, NONE), 0);
	expect(lab->path, geteuid(), 0700);
	assert_int_equal(chmod(lab->path, 0755), 0);
	assert_int_equal(make(lab, NONE), 0);
	expect(lab->path, geteuid(), 0755);
	expect_log(lab, NULL);
}

// --run-dir /tmp must not change the mode of /tmp.
TEST(shared_directory_is_refused_and_unchanged) {
	struct lab *lab = *state;

	assert_int_equal(mkdir(lab->path, 0700), 0);
	assert_int_equal(chmod(lab->path, 01777), 0);
	assert_int_equal(make(lab, NONE), -EPERM);
	assert_non_null(strstr(lab->why, "is shared with all users (mode 1777)"));
	expect(lab->path, geteuid(), 01777);
}

TEST(file_of_that_name_is_refused) {
	struct lab *lab = *state;
	int fd = open(lab->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(make(lab, NONE), -ENOTDIR);
	assert_non_null(strstr(lab->why, lab->path));
	assert_int_equal(unlink(lab->path), 0);
	// A symbolic link could lead to any directory.
	assert_int_equal(symlink("/tmp", lab->path), 0);
	assert_true(make(lab, NONE) < 0);
	assert_int_equal(unlink(lab->path), 0);
	assert_int_equal(make(lab, NONE), 0);
	assert_int_equal(symlink("/tmp", lab->control), 0);
	assert_true(make_control(lab, NONE) < 0);
	assert_int_equal(unlink(lab->control), 0);
	assert_int_equal(
		weir_run_dir_make("", NONE, getegid(), &lab->log, lab->why, sizeof(lab->why)),
		-ENOENT);
}

TEST(directory_of_another_user_is_refused_with_a_remedy) {
	struct lab *lab = *state;

	if (geteuid() != 0) {
		skip(); // the system has no other user
	}
	assert_int_equal(mkdir(lab->path, 0700), 0);
	assert_int_equal(chown(lab->path, STRANGER, (gid_t)-1), 0);
	assert_int_equal(make(lab, NONE), -EPERM);
	assert_non_null(strstr(lab->why, "belongs to user 4242"));
	assert_non_null(strstr(lab->why, "chown root"));
	expect(lab->path, STRANGER, 0700);
	assert_int_equal(make(lab, CONTROL), -EPERM);
	// weir-control may have created the directory first, without root privileges.
	assert_int_equal(chown(lab->path, CONTROL, (gid_t)-1), 0);
	assert_int_equal(make(lab, CONTROL), 0);
}

TEST(controls_directory_is_for_its_user) {
	struct lab *lab = *state;

	if (geteuid() != 0) {
		skip();
	}
	assert_int_equal(make(lab, CONTROL), 0);
	assert_int_equal(make_control(lab, CONTROL), 0);
	expect(lab->control, CONTROL, 0750);
	assert_int_equal(make_control(lab, CONTROL), 0);
	// Another user may have created the directory, so its contents cannot be trusted.
	assert_int_equal(chown(lab->control, STRANGER, (gid_t)-1), 0);
	assert_int_equal(make_control(lab, CONTROL), -EPERM);
	assert_non_null(
		strstr(lab->why, "belongs to user 4242, not to the user of weir-control (4243)"));
	expect(lab->control, STRANGER, 0750);
	// If root owns the directory, its owner is changed to the user.
	assert_int_equal(chown(lab->control, 0, (gid_t)-1), 0);
	assert_int_equal(make_control(lab, CONTROL), 0);
	expect(lab->control, CONTROL, 0750);
}

// Checks as a process without root privileges. Returns the number of the first failed check, or 0.
static int as_control(struct lab *lab) {
	if (setgid(CONTROL) < 0 || setuid(CONTROL) < 0) {
		return 1;
	}
	if (make(lab, NONE) != -EPERM || strstr(lab->why, "chmod 750") == NULL) {
		return 2; // owned by root, with mode 0777
	}
	if (make_control(lab, NONE) != 0) {
		return 3; // writable by all users
	}
	return 0;
}

static int in_child(struct lab *lab, int (*run)(struct lab *lab)) {
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		_exit(run(lab));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int without_a_directory(struct lab *lab) {
	if (setgid(CONTROL) < 0 || setuid(CONTROL) < 0) {
		return 1;
	}
	if (make(lab, NONE) != 0) {
		return 2;
	}
	return make_control(lab, NONE) == -EACCES && strstr(lab->why, "--control-user") != NULL ? 0
												: 3;
}

TEST(without_root_privileges_it_names_the_remedy) {
	struct lab *lab = *state;

	if (geteuid() != 0) {
		skip();
	}
	assert_int_equal(mkdir(lab->path, 0700), 0);
	assert_int_equal(chmod(lab->path, 0777), 0);
	assert_int_equal(in_child(lab, as_control), 0);
	assert_int_equal(rmdir(lab->control), 0);
	assert_int_equal(chmod(lab->path, 0755), 0);
	assert_int_equal(in_child(lab, without_a_directory), 0);
	// Now the directory exists, as the dataplane creates it.
	assert_int_equal(make_control(lab, CONTROL), 0);
	assert_int_equal(in_child(lab, without_a_directory), 3);
}
