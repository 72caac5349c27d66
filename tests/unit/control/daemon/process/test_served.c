// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of served.h, each with an empty run directory.
#include "served.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

struct own {
	char dir[64], folder[80], file[96];
};

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	snprintf(own->dir, sizeof(own->dir), "/tmp/weir-served-XXXXXX");
	assert_non_null(mkdtemp(own->dir));
	snprintf(own->folder, sizeof(own->folder), "%s/" WEIR_CONTROL_DIR, own->dir);
	snprintf(own->file, sizeof(own->file), "%s/" WEIR_SERVED_FILE, own->dir);
	assert_int_equal(mkdir(own->folder, 0700), 0);
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	unlink(own->file);
	rmdir(own->folder);
	rmdir(own->dir);
	free(own);
	return 0;
}

// Returns since when the flows of a dataplane are counted, if the process attaches at now_ms.
static uint64_t note(const struct own *own, uint64_t epoch, uint64_t now_ms) {
	uint64_t since_ms = UINT64_MAX;

	assert_int_equal(weir_served_note(own->dir, epoch, now_ms, &since_ms), 0);
	return since_ms;
}

TEST_EACH(setup, teardown);

TEST(first_dataplane_has_no_earlier_flows) {
	struct own *own = *state;

	assert_int_equal(note(own, 7, 1000), 0);
	assert_int_equal(note(own, 7, 2000), 0); // weir-control was restarted
}

TEST(later_dataplane_counts_from_its_first_process_on) {
	struct own *own = *state;

	assert_int_equal(note(own, 7, 1000), 0);
	assert_int_equal(note(own, UINT64_MAX, 5000), 5000);
	assert_int_equal(note(own, UINT64_MAX, 9000), 5000);
	assert_int_equal(note(own, 8, 10000), 10000);
	assert_int_equal(note(own, 8, 4000), 4000); // the clock began again
}

TEST(invalid_file_is_that_of_another_dataplane) {
	struct own *own = *state;
	FILE *file = fopen(own->file, "w");

	assert_non_null(file);
	fputs("nonsense\n", file);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(note(own, 7, 1000), 1000);
	assert_int_equal(note(own, 7, 2000), 1000);
}

TEST(write_error_is_returned) {
	struct own *own = *state;
	uint64_t since_ms = UINT64_MAX;

	assert_int_equal(rmdir(own->folder), 0);
	assert_int_equal(weir_served_note(own->dir, 7, 1000, &since_ms), -ENOENT);
	assert_int_equal(since_ms, 0);
}
