// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the check whether clients may still have valid SYN cookies. The test writes files like
// those in /proc.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "syn_cookies.h"
#include "test.h"

#define GOOD_MS WEIR_SYN_COOKIES_GOOD_MS

struct lab {
	char root[64], netstat[128], setting[128];
	struct weir_syn_cookies cookies;
};

static void write_file(const char *path, const char *text) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void set_sent(const struct lab *lab, const char *sent) {
	char text[256];

	snprintf(text, sizeof(text),
		"IpExt: SyncookiesSent X\nIpExt: 9 9\n"
		"TcpExt: A SyncookiesSent SyncookiesRecv\nTcpExt: 5 %s 6\n",
		sent);
	write_file(lab->netstat, text);
}

static void make_folder(const struct lab *lab, const char *name) {
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", lab->root, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	strcpy(lab->root, "/tmp/weir-cookies-XXXXXX");
	assert_non_null(mkdtemp(lab->root));
	make_folder(lab, "net");
	make_folder(lab, "sys");
	make_folder(lab, "sys/net");
	make_folder(lab, "sys/net/ipv4");
	snprintf(lab->netstat, sizeof(lab->netstat), "%s/net/netstat", lab->root);
	snprintf(lab->setting, sizeof(lab->setting), "%s/sys/net/ipv4/tcp_syncookies", lab->root);
	write_file(lab->setting, "1\n");
	set_sent(lab, "0");
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	static const char *const folders[] = {"sys/net/ipv4", "sys/net", "sys", "net", "."};
	struct lab *lab = *state;
	char path[128];

	unlink(lab->netstat);
	unlink(lab->setting);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", lab->root, i < 4 ? folders[i] : "");
		assert_int_equal(rmdir(path), 0);
	}
	free(lab);
	return 0;
}

TEST_EACH(setup, teardown);

TEST(no_cookie_was_ever_sent) {
	struct lab *lab = *state;

	weir_syn_cookies_init(&lab->cookies, lab->root, 1000);
	assert_false(weir_syn_cookies_possible(&lab->cookies, 1000));
	assert_false(weir_syn_cookies_possible(&lab->cookies, 1001));
}

TEST(new_cookies_are_valid_for_two_minutes) {
	struct lab *lab = *state;

	weir_syn_cookies_init(&lab->cookies, lab->root, 1000);
	set_sent(lab, "1");
	assert_true(weir_syn_cookies_possible(&lab->cookies, 50000));
	assert_true(weir_syn_cookies_possible(&lab->cookies, 50000 + GOOD_MS - 1));
	assert_false(weir_syn_cookies_possible(&lab->cookies, 50000 + GOOD_MS));
	set_sent(lab, "2");
	assert_true(weir_syn_cookies_possible(&lab->cookies, 50000 + GOOD_MS));
}

// If the kernel sent cookies before the agent started, the last cookie may have been sent just
// before the start.
TEST(cookies_from_before_the_start_are_valid_from_the_start) {
	struct lab *lab = *state;

	set_sent(lab, "7");
	weir_syn_cookies_init(&lab->cookies, lab->root, 1000);
	assert_true(weir_syn_cookies_possible(&lab->cookies, 1000));
	assert_true(weir_syn_cookies_possible(&lab->cookies, 1000 + GOOD_MS - 1));
	assert_false(weir_syn_cookies_possible(&lab->cookies, 1000 + GOOD_MS));
}

TEST(setting_decides) {
	struct lab *lab = *state;

	weir_syn_cookies_init(&lab->cookies, lab->root, 1000);
	write_file(lab->setting, "2\n"); // setting 2: the kernel always sends cookies
	assert_true(weir_syn_cookies_possible(&lab->cookies, 1000));
	write_file(lab->setting, "1\n");
	assert_false(weir_syn_cookies_possible(&lab->cookies, 1000));
	set_sent(lab, "3");
	write_file(lab->setting, "0\n"); // setting 0: the kernel does not accept cookies either
	assert_false(weir_syn_cookies_possible(&lab->cookies, 1000));
	write_file(lab->setting, "1\n");
	assert_true(weir_syn_cookies_possible(&lab->cookies, 1000));
}

TEST(kernel_without_the_setting_has_a_counter) {
	struct lab *lab = *state;

	assert_int_equal(unlink(lab->setting), 0);
	weir_syn_cookies_init(&lab->cookies, lab->root, 1000);
	assert_false(weir_syn_cookies_possible(&lab->cookies, 1000));
	set_sent(lab, "1");
	assert_true(weir_syn_cookies_possible(&lab->cookies, 1000));
}

TEST(unreadable_files_may_mean_cookies) {
	static const char *const broken[] = {"", "TcpExt: A B\nTcpExt: 1 2\n",
		"TcpExt: SyncookiesSent\n", "TcpExt: A SyncookiesSent\nTcpExt: 1\n",
		"TcpExt: SyncookiesSent\nTcpExt: x\n", "TcpExt: SyncookiesSent\nTcpExt: 1x\n",
		"TcpExt: SyncookiesSent\nTcpExt: 99999999999999999999999\n"};
	struct lab *lab = *state;

	weir_syn_cookies_init(&lab->cookies, lab->root, 1000);
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		write_file(lab->netstat, broken[i]);
		assert_true(weir_syn_cookies_possible(&lab->cookies, 1000 + 10 * GOOD_MS));
	}
	// The counter can be read again, but cookies may have been sent while it could not be read.
	set_sent(lab, "1");
	assert_true(weir_syn_cookies_possible(&lab->cookies, 1000 + 10 * GOOD_MS));
	assert_false(weir_syn_cookies_possible(&lab->cookies, 1000 + 11 * GOOD_MS));
	write_file(lab->setting, "?\n");
	assert_true(weir_syn_cookies_possible(&lab->cookies, 1000 + 11 * GOOD_MS));
}

// Both files exist on this kernel and can be parsed.
TEST(files_of_this_kernel_are_parsed) {
	struct weir_syn_cookies cookies;

	weir_syn_cookies_init(&cookies, "/proc", 1000);
	assert_true(cookies.known);
}
