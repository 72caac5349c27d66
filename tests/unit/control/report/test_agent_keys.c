// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the key file: accepted contents, and the errors for other contents.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent_keys.h"
#include "test.h"

#define A "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"
#define B "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

struct keys_lab {
	char folder[32];
	char file[64];
	struct weir_agent_keys keys;
	char why[256];
};

static int set_up(void **state) {
	struct keys_lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	strcpy(lab->folder, "/tmp/weir-keys-XXXXXX");
	assert_non_null(mkdtemp(lab->folder));
	snprintf(lab->file, sizeof(lab->file), "%s/agent.keys", lab->folder);
	*state = lab;
	return weir_agent_crypto_start();
}

static int tear_down(void **state) {
	struct keys_lab *lab = *state;

	unlink(lab->file);
	rmdir(lab->folder);
	free(lab);
	return 0;
}

static void write_file(const struct keys_lab *lab, const char *text, size_t bytes) {
	int fd = open(lab->file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
	close(fd);
	assert_int_equal(chmod(lab->file, 0600), 0);
}

static int read_text(struct keys_lab *lab, const char *text) {
	write_file(lab, text, strlen(text));
	return weir_agent_keys_read(lab->file, getuid(), &lab->keys, lab->why, sizeof(lab->why));
}

static void expect_refused(struct keys_lab *lab, const char *text, const char *reason) {
	struct weir_agent_keys before;
	char line[256];

	memset(&lab->keys, 0x5a, sizeof(lab->keys));
	before = lab->keys;
	assert_int_equal(read_text(lab, text), -EINVAL);
	snprintf(line, sizeof(line), "%s%s", lab->file, reason);
	assert_string_equal(lab->why, line);
	assert_memory_equal(&lab->keys, &before, sizeof(before));
}

TEST_EACH(set_up, tear_down);

TEST(keys_are_read_in_their_order) {
	struct keys_lab *lab = *state;
	const uint8_t start[] = {0x00, 0x11, 0x22}, end[] = {0xdd, 0xee, 0xff};
	const struct weir_agent_key *key;

	assert_int_equal(read_text(lab, "# keys\n\n  \t\n  65535\t " A " # new\r\n1 " B), 0);
	assert_int_equal(lab->keys.count, 2);
	assert_int_equal(lab->keys.key[0].id, 65535);
	assert_int_equal(lab->keys.key[1].id, 1);
	key = weir_agent_keys_find(&lab->keys, 65535);
	assert_ptr_equal(key, &lab->keys.key[0]);
	assert_memory_equal(key->secret, start, sizeof(start));
	assert_memory_equal(key->secret + 29, end, sizeof(end));
	assert_int_equal(weir_agent_keys_find(&lab->keys, 1)->secret[0], 0xff);
	assert_null(weir_agent_keys_find(&lab->keys, 2));
	// Id 0 is not found, although the ids of unused entries are 0.
	assert_null(weir_agent_keys_find(&lab->keys, 0));
	assert_int_equal(read_text(lab, "1 " A "#no space\n"), 0);
	assert_int_equal(lab->keys.count, 1);
}

TEST(invalid_lines_are_named) {
	static const char *const bad_ids[] = {"0 " A, "65536 " A, "99999999999999999999 " A, "x " A,
		"-1 " A, "+1 " A, "1", "1" A, A};
	static const char *const bad_keys[] = {"1 abc", "1 " A "0", "1 " A " x", "1 x" A,
		"1 0g112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "1 \n",
		"1 # " A};
	struct keys_lab *lab = *state;

	for (size_t i = 0; i < sizeof(bad_ids) / sizeof(bad_ids[0]); i++) {
		expect_refused(
			lab, bad_ids[i], ":1: expected a key id from 1 to 65535 and its key");
	}
	for (size_t i = 0; i < sizeof(bad_keys) / sizeof(bad_keys[0]); i++) {
		expect_refused(
			lab, bad_keys[i], ":1: expected 64 hexadecimal digits after the key id");
	}
	expect_refused(lab, "", ": contains no key");
	expect_refused(lab, "# 1 " A "\n", ": contains no key");
	expect_refused(
		lab, "\n\n7 " A "\n# x\n07 " B "\n", ":5: key id 7 is already used on line 3");
	expect_refused(lab, "7 " A "\n8 " ZEROS "\n", ":2: the key is all zeros");
	write_file(lab, "7 " A "\n8 \0" B, 4 + 2 * sizeof(A));
	assert_int_equal(
		weir_agent_keys_read(lab->file, getuid(), &lab->keys, lab->why, sizeof(lab->why)),
		-EINVAL);
	assert_non_null(strstr(lab->why, ":2: contains a NUL character"));
}

TEST(number_and_size_are_limited) {
	struct keys_lab *lab = *state;
	char text[16384], line[128];

	text[0] = '\0';
	for (uint32_t id = 1; id <= WEIR_AGENT_KEYS_MOST; id++) {
		snprintf(line, sizeof(line), "%u %s\n", id, A);
		strcat(text, line);
	}
	assert_int_equal(read_text(lab, text), 0);
	assert_int_equal(lab->keys.count, WEIR_AGENT_KEYS_MOST);
	strcat(text, "17 " B "\n");
	expect_refused(lab, text, ":17: more than 16 keys");
	memset(text, '#', sizeof(text));
	text[8193] = '\0';
	expect_refused(lab, text, ": longer than 8192 bytes");
	text[8192] = '\0';
	memcpy(text, "1 " A " #", sizeof("1 " A " #") - 1);
	assert_int_equal(read_text(lab, text), 0);
}

TEST(mode_is_at_most_0640) {
	static const mode_t good[] = {0400, 0440, 0600, 0640};
	struct keys_lab *lab = *state;
	char reason[256];

	assert_int_equal(read_text(lab, "1 " A), 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(chmod(lab->file, good[i]), 0);
		assert_int_equal(weir_agent_keys_read(lab->file, getuid(), &lab->keys, lab->why,
					 sizeof(lab->why)),
			0);
	}
	for (uint32_t bit = 0; bit < 12; bit++) {
		mode_t mode = 0600 | (mode_t)(1u << bit);

		assert_int_equal(chmod(lab->file, mode), 0);
		if ((mode & ~0640u) == 0) {
			continue;
		}
		assert_int_equal(weir_agent_keys_read(lab->file, getuid(), &lab->keys, lab->why,
					 sizeof(lab->why)),
			-EPERM);
		snprintf(reason, sizeof(reason), "%s: mode %04o is too permissive: chmod 0640 %s",
			lab->file, mode, lab->file);
		assert_string_equal(lab->why, reason);
	}
}

TEST(owner_is_root_or_the_user) {
	struct keys_lab *lab = *state;

	assert_int_equal(read_text(lab, "1 " A), 0);
	if (getuid() != 0) {
		assert_int_equal(weir_agent_keys_read(lab->file, getuid() + 1, &lab->keys, lab->why,
					 sizeof(lab->why)),
			-EPERM);
		return;
	}
	// A file that root owns is accepted for each user. A user's own file is accepted only for
	// that user.
	assert_int_equal(
		weir_agent_keys_read(lab->file, 4321, &lab->keys, lab->why, sizeof(lab->why)), 0);
	assert_int_equal(chown(lab->file, 4321, 0), 0);
	assert_int_equal(
		weir_agent_keys_read(lab->file, 4321, &lab->keys, lab->why, sizeof(lab->why)), 0);
	assert_int_equal(
		weir_agent_keys_read(lab->file, 0, &lab->keys, lab->why, sizeof(lab->why)), -EPERM);
	assert_non_null(strstr(lab->why, "owned by user 4321; the owner must be root or user 0"));
}

TEST(other_file_types_are_not_read) {
	struct keys_lab *lab = *state;

	assert_int_equal(weir_agent_keys_read(lab->file, 0, &lab->keys, lab->why, sizeof(lab->why)),
		-ENOENT);
	assert_non_null(strstr(lab->why, "agent.keys: No such file"));
	assert_int_equal(
		weir_agent_keys_read(lab->folder, 0, &lab->keys, lab->why, sizeof(lab->why)),
		-EINVAL);
	assert_non_null(strstr(lab->why, ": not a regular file"));
	assert_int_equal(mkfifo(lab->file, 0600), 0); // opening does not wait for a writer
	assert_int_equal(weir_agent_keys_read(lab->file, 0, &lab->keys, lab->why, sizeof(lab->why)),
		-EINVAL);
	assert_non_null(strstr(lab->why, ": not a regular file"));
}

TEST(generated_lines_can_be_read_and_differ) {
	struct keys_lab *lab = *state;
	char text[2 * WEIR_AGENT_KEY_LINE_BYTES], line[WEIR_AGENT_KEY_LINE_BYTES];

	weir_agent_key_generate(65535, line);
	strcpy(text, line);
	weir_agent_key_generate(1, line);
	strcat(text, line);
	assert_int_equal(read_text(lab, text), 0);
	assert_int_equal(lab->keys.count, 2);
	assert_int_equal(lab->keys.key[0].id, 65535);
	assert_memory_not_equal(
		lab->keys.key[0].secret, lab->keys.key[1].secret, WEIR_AGENT_KEY_BYTES);
	weir_agent_keys_wipe(&lab->keys);
	assert_int_equal(lab->keys.count, 0);
	assert_int_equal(lab->keys.key[0].secret[0] | lab->keys.key[0].secret[31], 0);
}
