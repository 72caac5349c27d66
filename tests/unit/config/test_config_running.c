// SPDX-License-Identifier: BSD-3-Clause
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_running.h"
#include "test.h"

#define EPOCH 0x00c0ffee12345679ull
#define FILE_NAME "dataplane-00c0ffee12345679.json"
#define TEXT \
	"{\"instance\": {\"name\": \"lb-1\", \"hash_seed\": \"0xff\"}, \"ports\": [{\"name\": " \
	"\"wan\", \"device\": \"net_null0\", \"mtu\": 9000}], \"services\": [{\"name\": \"web\", " \
	"\"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 80}], " \
	"\"backends\": [{\"name\": \"web-1\", \"address\": \"10.0.0.11\"}]}]}"

struct lab {
	char dir[32];
	char file[96];
	char *text;
};

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	strcpy(lab->dir, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(lab->dir));
	snprintf(lab->file, sizeof(lab->file), "%s/" FILE_NAME, lab->dir);
	lab->text = weir_config_running_text(TEXT, strlen(TEXT));
	assert_non_null(lab->text);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_config_running_remove(lab->dir);
	assert_int_equal(rmdir(lab->dir), 0);
	free(lab->text);
	free(lab);
	return 0;
}

TEST_EACH(setup, teardown);

static void put(const struct lab *lab, const char *name) {
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", lab->dir, name);
	f = fopen(path, "w");
	fputs("{", f);
	fclose(f);
}

static int count_files(const struct lab *lab) {
	DIR *dir = opendir(lab->dir);
	int count = 0;

	while (readdir(dir) != NULL) {
		count++;
	}
	closedir(dir);
	return count - 2; // not counting "." and ".."
}

TEST(running_file_has_the_dataplanes_part) {
	struct lab *lab = *state;
	struct weir_config *config = NULL;
	struct stat st;

	assert_null(strstr(lab->text, "web-1"));
	assert_int_equal(
		weir_config_running_write(lab->dir, EPOCH, (uid_t)-1, (gid_t)-1, lab->text), 0);
	assert_int_equal(stat(lab->file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(count_files(lab), 1);
	assert_int_equal(weir_config_running_started_ms(lab->dir, EPOCH) / 1000, st.st_mtim.tv_sec);
	assert_int_equal(weir_config_running_started_ms(lab->dir, EPOCH + 2), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			weir_config_running_read(lab->dir, i == 0 ? EPOCH : 0, &config), 0);
		assert_string_equal(config->instance.name, "lb-1");
		assert_int_equal(config->instance.hash_seed, 0xff);
		assert_int_equal(config->ports[0].mtu, 9000);
		assert_int_equal(config->service_count, 0);
		weir_config_free(config);
	}
	assert_int_equal(weir_config_running_read(lab->dir, EPOCH + 2, &config), -ENOENT);
	assert_int_equal(
		weir_config_running_write(lab->dir, EPOCH, (uid_t)-1, getegid(), lab->text), 0);
	assert_int_equal(stat(lab->file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
}

// If a dataplane is killed, at any instruction, the next dataplane removes the files that it left.
TEST(running_files_of_predecessors_are_removed) {
	struct lab *lab = *state;
	struct weir_config *config = NULL;

	put(lab, "dataplane-0123456789abcdef.json");
	put(lab, "dataplane-0123456789abcdee.json.new");
	put(lab, "dataplane.json");
	put(lab, "dataplane-0123456789abcdef.json.old");
	weir_config_running_remove(lab->dir);
	assert_int_equal(count_files(lab), 2);
	assert_int_equal(weir_config_running_read(lab->dir, 0, &config), -ENOENT);
	for (int i = 0; i < 2; i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%s", lab->dir,
			i == 0 ? "dataplane.json" : "dataplane-0123456789abcdef.json.old");
		assert_int_equal(unlink(path), 0);
	}
}

TEST(running_file_that_cannot_be_written_is_not_there) {
	struct lab *lab = *state;
	char unfinished[128];

	snprintf(unfinished, sizeof(unfinished), "%s.new", lab->file);
	assert_int_equal(mkdir(unfinished, 0700), 0);
	assert_int_equal(
		weir_config_running_write(lab->dir, EPOCH, (uid_t)-1, (gid_t)-1, lab->text),
		-EEXIST);
	assert_int_equal(rmdir(unfinished), 0);
	assert_int_equal(count_files(lab), 0);
	assert_int_equal(
		weir_config_running_write("/nowhere", EPOCH, (uid_t)-1, (gid_t)-1, lab->text),
		-ENOENT);
}

TEST(running_file_with_long_comments_is_read) {
	struct lab *lab = *state;
	struct weir_config *config = NULL;
	char *text = malloc(4u << 20);

	sprintf(text, "{\"comment\": \"%02097152d\", %s", 0, lab->text + 1);
	assert_int_equal(weir_config_running_write(lab->dir, EPOCH, (uid_t)-1, (gid_t)-1, text), 0);
	assert_int_equal(weir_config_running_read(lab->dir, EPOCH, &config), 0);
	weir_config_free(config);
	free(text);
}

// A file is refused if it is not a configuration or not a regular file. If no epoch is given and
// there are several files, the result is the same as for no file.
TEST(running_file_that_is_broken_is_refused) {
	struct lab *lab = *state;
	struct weir_config *config = NULL;

	put(lab, FILE_NAME);
	assert_int_equal(weir_config_running_read(lab->dir, EPOCH, &config), -EINVAL);
	put(lab, "dataplane-0123456789abcdef.json");
	assert_int_equal(weir_config_running_read(lab->dir, 0, &config), -ENOENT);
	assert_int_equal(unlink(lab->file), 0);
	assert_int_equal(mkfifo(lab->file, 0600), 0);
	alarm(10);
	assert_int_equal(weir_config_running_read(lab->dir, EPOCH, &config), -EINVAL);
	alarm(0);
}
