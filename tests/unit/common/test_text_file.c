// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"
#include "text_file.h"

struct lab {
	char folder[32], file[48], unfinished[56];
};

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	strcpy(lab->folder, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(lab->folder));
	snprintf(lab->file, sizeof(lab->file), "%s/state", lab->folder);
	snprintf(lab->unfinished, sizeof(lab->unfinished), "%s.new", lab->file);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	unlink(lab->file);
	unlink(lab->unfinished);
	assert_int_equal(rmdir(lab->folder), 0);
	free(lab);
	return 0;
}

static void expect(const struct lab *lab, const char *wanted) {
	char *text = NULL;
	size_t bytes = 0;

	assert_int_equal(weir_text_file_read_own(lab->file, 100, &text, &bytes), 0);
	assert_string_equal(text, wanted);
	assert_int_equal(bytes, strlen(wanted));
	free(text);
}

// A replaced file is private and complete, even if an earlier process left an unfinished file with
// another mode.
TEST(replaced_files_are_private_and_whole, setup, teardown) {
	struct lab *lab = *state;
	struct stat st;
	int fd = open(lab->unfinished, O_WRONLY | O_CREAT, 0600);

	assert_true(fd >= 0);
	assert_int_equal(weir_text_file_write(fd, "a longer text than the next"), 0);
	assert_int_equal(fchmod(fd, 0666), 0);
	close(fd);
	assert_int_equal(weir_text_file_replace(lab->file, "first"), 0);
	expect(lab, "first");
	assert_int_equal(weir_text_file_replace(lab->file, "2nd"), 0);
	expect(lab, "2nd");
	assert_int_equal(stat(lab->file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(access(lab->unfinished, F_OK), -1);
}

// The file size limit simulates a full file system: only the first bytes of the file can be
// written.
TEST(the_former_file_stays_when_a_new_one_cannot_be_written, setup, teardown) {
	const struct rlimit none = {.rlim_cur = 2, .rlim_max = RLIM_INFINITY};
	struct lab *lab = *state;
	struct rlimit before;
	int r;

	assert_int_equal(weir_text_file_replace(lab->file, "former"), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	r = weir_text_file_replace(lab->file, "new");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(r, -EFBIG);
	expect(lab, "former");
	assert_int_equal(access(lab->unfinished, F_OK), -1);
}

TEST(state_is_not_written_through_links_and_pipes, setup, teardown) {
	struct lab *lab = *state;
	char *text;
	size_t bytes;

	assert_int_equal(symlink(lab->file, lab->unfinished), 0);
	assert_int_equal(weir_text_file_replace(lab->file, "new"), -ELOOP);
	assert_int_equal(access(lab->file, F_OK), -1);
	assert_int_equal(unlink(lab->unfinished), 0);
	assert_int_equal(mkfifo(lab->file, 0600), 0);
	assert_int_equal(weir_text_file_read_own(lab->file, 100, &text, &bytes), -EINVAL);
	assert_int_equal(weir_text_file_replace(lab->file, "new"), 0);
	expect(lab, "new");
}
