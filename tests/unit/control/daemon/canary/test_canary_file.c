// SPDX-License-Identifier: BSD-3-Clause
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "canary_file.h"
#include "tables.h"

#define FILE_OF "/tmp/weir-canary-XXXXXX"

static int setup(void **state) {
	char *dir = strdup(FILE_OF);

	char path[128];

	*state = mkdtemp(dir);
	snprintf(path, sizeof(path), "%s/control", dir);
	return *state == NULL || mkdir(path, 0700) < 0;
}

static void path_of(const char *dir, char path[128]) {
	snprintf(path, 128, "%s/control/canaries.json", dir);
}

static int teardown(void **state) {
	char path[128];

	path_of(*state, path);
	unlink(path);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/control", (const char *)*state);
	rmdir(path);
	rmdir(*state);
	free(*state);
	return 0;
}

TEST_GROUP(setup, teardown);

static const struct weir_canary_record sample = {.service = "web",
	.backend = "web-4",
	.plan = {.percent = {0.5, 20},
		.steps = 2,
		.every_ms = 2500,
		.error_ratio = 1.25,
		.latency_ratio = 2,
		.min_requests = 7},
	.step = 1,
	.state = WEIR_CANARY_RUNNING,
	.weight = 75,
	.started_ms = 1700000000123,
	.who = {.known = true, .uid = 1000, .gid = 100, .pid = 4321}};

TEST(file_keeps_everything) {
	const char *dir = *state;
	struct weir_canary_record records[2] = {sample, sample}, *read;
	uint32_t count;
	struct stat file;
	char path[128];

	snprintf(records[1].service, sizeof(records[1].service), "dns");
	snprintf(records[1].why, sizeof(records[1].why), "errors: \"many\"");
	records[1].state = WEIR_CANARY_PROMOTED;
	records[1].weight = WEIR_WEIGHT_UNSET;
	records[1].ended_ms = 1700000009999;
	assert_int_equal(weir_canary_file_read(dir, &read, &count), -ENOENT);
	assert_int_equal(weir_canary_file_write(dir, records, 2), 0);
	path_of(dir, path);
	assert_int_equal(stat(path, &file), 0);
	assert_int_equal(file.st_mode & 0777, 0600);
	assert_int_equal(weir_canary_file_read(dir, &read, &count), 0);
	assert_int_equal(count, 2);
	for (int i = 0; i < 2; i++) {
		assert_string_equal(read[i].service, records[i].service);
		assert_string_equal(read[i].backend, records[i].backend);
		assert_string_equal(read[i].why, records[i].why);
		assert_memory_equal(&read[i].plan, &records[i].plan, sizeof(read[i].plan));
		assert_int_equal(read[i].step, records[i].step);
		assert_int_equal(read[i].state, records[i].state);
		assert_int_equal(read[i].weight, records[i].weight);
		assert_int_equal(read[i].started_ms, records[i].started_ms);
		assert_int_equal(read[i].ended_ms, records[i].ended_ms);
		assert_int_equal(read[i].who.uid, 1000);
	}
	free(read);
	assert_int_equal(weir_canary_file_write(dir, NULL, 0), 0);
	assert_int_equal(weir_canary_file_read(dir, &read, &count), 0);
	assert_int_equal(count, 0);
	free(read);
}

TEST(file_of_the_longest_canaries_of_all_services_is_read) {
	const char *dir = *state;
	struct weir_canary_record *records = calloc(WEIR_SERVICES_MAX, sizeof(*records)), *read;
	uint32_t count;

	assert_non_null(records);
	for (uint32_t i = 0; i < WEIR_SERVICES_MAX; i++) {
		struct weir_canary_record *record = &records[i];

		*record = sample;
		memset(record->service, 's', sizeof(record->service) - 1);
		memset(record->backend, 'b', sizeof(record->backend) - 1);
		memset(record->why, '"', sizeof(record->why) - 1);
		record->plan.steps = WEIR_CANARY_STEPS_MOST;
		for (uint32_t j = 0; j < WEIR_CANARY_STEPS_MOST; j++) {
			record->plan.percent[j] = 10.0 / 3 * (j + 1);
		}
		record->plan.error_ratio = record->plan.latency_ratio = 4.0 / 3;
		record->ended_ms = UINT32_MAX * (uint64_t)1000;
		record->who = (struct weir_audit_who){
			.known = true, .uid = UINT32_MAX, .gid = UINT32_MAX, .pid = INT32_MAX};
	}
	assert_int_equal(weir_canary_file_write(dir, records, WEIR_SERVICES_MAX), 0);
	assert_int_equal(weir_canary_file_read(dir, &read, &count), 0);
	assert_int_equal(count, WEIR_SERVICES_MAX);
	assert_string_equal(read[count - 1].why, records[count - 1].why);
	free(read);
	free(records);
}

// The file is truncated after any byte, or any byte is overwritten. It is then refused, or its
// plan is valid. A directory in place of the file is also refused.
TEST(file_of_any_content_is_read_safely) {
	const char *dir = *state;
	struct weir_canary_record *read;
	char path[128], text[4096];
	uint32_t count;
	size_t bytes;
	FILE *file;

	assert_int_equal(weir_canary_file_write(dir, &sample, 1), 0);
	path_of(dir, path);
	file = fopen(path, "r");
	bytes = fread(text, 1, sizeof(text), file);
	fclose(file);
	for (size_t i = 0; i < 2 * bytes; i++) {
		size_t length = i < bytes ? i : bytes;
		char own[sizeof(text)];
		int r;

		memcpy(own, text, bytes);
		if (i >= bytes) {
			own[i - bytes] = '9';
		}
		file = fopen(path, "w");
		fwrite(own, 1, length, file);
		fclose(file);
		r = weir_canary_file_read(dir, &read, &count);
		if (i < bytes) {
			assert_int_equal(r, -EINVAL);
		} else if (r == 0) {
			assert_true(count <= 1);
			assert_true(count == 0 || read[0].step < read[0].plan.steps);
			free(read);
		}
	}
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(weir_canary_file_read(dir, &read, &count), -EINVAL);
	assert_true(weir_canary_file_write(dir, &sample, 1) < 0);
}
