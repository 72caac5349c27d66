// SPDX-License-Identifier: BSD-3-Clause
//
// A helper process inherits its connection and the standard descriptors, but no other descriptors.
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper_process.h"
#include "test.h"

#define DEADLINE_MS 10000

// The loop of a helper: sends each byte back.
static void echo(int fd, const void *context) {
	char byte;

	(void)context;
	while (read(fd, &byte, 1) == 1 && send(fd, &byte, 1, MSG_NOSIGNAL) == 1) {
	}
}

// Sends a byte to a helper. Returns the byte of the answer, or -1.
static int ask(int fd, char byte) {
	char answer;

	if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1) {
		return -1;
	}
	for (int ms = 0; ms < DEADLINE_MS; ms++) {
		ssize_t n = read(fd, &answer, 1); // does not block

		if (n >= 0 || errno != EAGAIN) {
			return n == 1 ? answer : -1;
		}
		usleep(1000);
	}
	return -1;
}

// Wait until a child process exits. Returns false after the deadline, or if the exit status is not
// 0.
static bool one_ends(void) {
	int status = -1;
	pid_t child = 0;

	for (int ms = 0; child == 0 && ms < DEADLINE_MS; ms++) {
		child = waitpid(-1, &status, WNOHANG);
		usleep(1000);
	}
	return child > 0 && status == 0;
}

TEST(helper_ends_with_its_connection_while_a_later_helper_runs) {
	int first, second;

	if (close_range(INT_MAX, INT_MAX, 0) != 0) {
		skip(); // not supported by this kernel
	}
	assert_int_equal(weir_helper_start("first", echo, NULL, &first), 0);
	assert_int_equal(weir_helper_start("second", echo, NULL, &second), 0);
	assert_int_equal(ask(first, '1'), '1');
	assert_int_equal(ask(second, '2'), '2');
	close(first);
	assert_true(one_ends());
	assert_int_equal(ask(second, '3'), '3');
	close(second);
	assert_true(one_ends());
}

static int run_without_standard_descriptors(void) {
	int helper;

	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	if (weir_helper_start("helper", echo, NULL, &helper) || ask(helper, '1') != '1') {
		return 1;
	}
	close(helper);
	return one_ends() ? 0 : 2;
}

// If descriptors 0 to 2 are closed, the connection to the helper gets one of these numbers.
TEST(helper_works_without_standard_descriptors) {
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		_exit(run_without_standard_descriptors());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}
