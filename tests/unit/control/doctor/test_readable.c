// SPDX-License-Identifier: BSD-3-Clause
//
// Tests whether a process may read a file, for directories and files with several modes and owners.
// Tests that set owners need root.
#include "readable.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define UID 45678 // user ID without a name
#define GID 45679
#define OTHER 45680

static const struct weir_reader_ids reader = {
	.uid = UID, .gid = GID, .groups = 2, .group = {7, OTHER}};

struct own {
	char dir[32], inner[48], file[64], link[48];
	char found[WEIR_READABLE_FOUND_BYTES], cure[WEIR_READABLE_CURE_BYTES];
};

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));
	int fd;

	assert_non_null(own);
	strcpy(own->dir, "/tmp/weir-readable-XXXXXX");
	assert_non_null(mkdtemp(own->dir));
	snprintf(own->inner, sizeof(own->inner), "%s/inner", own->dir);
	snprintf(own->file, sizeof(own->file), "%s/weir.json", own->inner);
	snprintf(own->link, sizeof(own->link), "%s/link", own->dir);
	assert_int_equal(mkdir(own->inner, 0755), 0);
	assert_int_equal(chmod(own->dir, 0755), 0);
	assert_int_equal(chmod(own->inner, 0755), 0);
	fd = open(own->file, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(symlink(own->file, own->link), 0);
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	unlink(own->link);
	unlink(own->file);
	rmdir(own->inner);
	rmdir(own->dir);
	free(own);
	return 0;
}

TEST_EACH(setup, teardown);

// Only root can set owners.
static void need_root(void) {
	if (geteuid() != 0) {
		skip();
	}
}

static void set(const char *path, uid_t uid, gid_t gid, mode_t mode) {
	assert_int_equal(chown(path, uid, gid), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static enum weir_readable by(struct own *own, const struct weir_reader_ids *ids, const char *path) {
	return weir_readable_by(ids, path, own->found, own->cure);
}

// Runs the suggested command. Its chgrp uses numeric group IDs, because the groups have no names.
static void run_cure(const struct own *own) {
	assert_int_equal(system(own->cure), 0);
}

TEST(file_is_read_by_owner_group_or_others) {
	static const struct {
		uid_t uid;
		gid_t gid;
		mode_t mode;
		enum weir_readable expected;
	} rows[] = {
		{0, 0, 0644, WEIR_READABLE_YES},
		{0, GID, 0640, WEIR_READABLE_YES},
		{0, OTHER, 0640, WEIR_READABLE_YES}, // a supplementary group
		{UID, 0, 0400, WEIR_READABLE_YES},
		{0, 0, 0640, WEIR_READABLE_NO},
		// the permissions of the group apply, not those of other users
		{0, GID, 0604, WEIR_READABLE_NO},
		{UID, GID, 0044, WEIR_READABLE_NO},
	};
	struct own *own = *state;

	need_root();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		set(own->file, rows[i].uid, rows[i].gid, rows[i].mode);
		assert_int_equal(by(own, &reader, own->file), rows[i].expected);
		if (rows[i].expected == WEIR_READABLE_NO) {
			run_cure(own);
			assert_int_equal(by(own, &reader, own->file), WEIR_READABLE_YES);
		}
	}
	set(own->file, 0, 0, 0600);
	assert_int_equal(
		by(own, &(struct weir_reader_ids){.uid = UID, .reads_all = true}, own->file),
		WEIR_READABLE_YES);
}

TEST(cure_changes_group_and_mode) {
	struct own *own = *state;
	char expected[WEIR_READABLE_CURE_BYTES];

	need_root();
	set(own->file, 0, 0, 0600);
	assert_int_equal(by(own, &reader, own->file), WEIR_READABLE_NO);
	assert_string_equal(own->found, "mode 0600, owner root, group root");
	snprintf(expected, sizeof(expected), "chgrp %d %s && chmod 0640 %s", GID, own->file,
		own->file);
	assert_string_equal(own->cure, expected);
}

// Directories on the path of a link, and on the path of its target, must be searchable.
TEST(directories_on_the_path_count) {
	struct own *own = *state;
	char expected[WEIR_READABLE_CURE_BYTES];

	need_root();
	set(own->file, 0, 0, 0600);
	set(own->inner, 0, OTHER, 0700);
	assert_int_equal(by(own, &reader, own->link), WEIR_READABLE_NO);
	snprintf(expected, sizeof(expected), "directory %s: mode 0700, owner root, group %d",
		own->inner, OTHER);
	assert_string_equal(own->found, expected);
	snprintf(expected, sizeof(expected), "chmod 0710 %s && chgrp %d %s && chmod 0640 %s",
		own->inner, GID, own->file, own->file);
	assert_string_equal(own->cure, expected);
	run_cure(own);
	assert_int_equal(by(own, &reader, own->link), WEIR_READABLE_YES);
	assert_int_equal(by(own, &reader, "/nonexistent"), WEIR_READABLE_UNKNOWN);
	assert_int_equal(by(own, &reader, "weir.json"), WEIR_READABLE_UNKNOWN);
}

// The uid, gid and supplementary groups of a process are read from the kernel.
TEST(identity_of_a_process_is_read) {
	const gid_t groups[] = {7, OTHER};
	struct weir_reader_ids ids;
	int pipes[2];
	pid_t pid;
	char one;

	need_root();
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		if (setgroups(2, groups) || setresgid(GID, GID, GID) || setresuid(UID, UID, UID) ||
			write(pipes[1], "x", 1) != 1) {
			_exit(1);
		}
		pause();
	}
	assert_true(pid > 0);
	assert_int_equal(read(pipes[0], &one, 1), 1);
	assert_true(weir_readable_ids(pid, &ids));
	assert_int_equal(ids.uid, UID);
	assert_int_equal(ids.gid, GID);
	assert_int_equal(ids.groups, 2);
	assert_int_equal(ids.group[0], 7);
	assert_int_equal(ids.group[1], OTHER);
	assert_false(ids.reads_all);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(weir_readable_ids(pid, &ids));
	assert_true(weir_readable_ids(getpid(), &ids));
	assert_int_equal(ids.uid, geteuid());
	close(pipes[0]);
	close(pipes[1]);
}
