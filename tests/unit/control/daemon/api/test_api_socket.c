// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api_socket.h"
#include "test.h"

static int setup(void **state) {
	char *dir = strdup("/tmp/weir-test-XXXXXX");
	char path[64];

	*state = dir;
	if (mkdtemp(dir) == NULL) {
		return -1;
	}
	snprintf(path, sizeof(path), "%s/control", dir);
	return mkdir(path, 0750);
}

static int teardown(void **state) {
	char path[64];

	snprintf(path, sizeof(path), "%s/control/control.sock", (char *)*state);
	unlink(path);
	snprintf(path, sizeof(path), "%s/control/control.pid", (char *)*state);
	unlink(path);
	snprintf(path, sizeof(path), "%s/control", (char *)*state);
	rmdir(path);
	rmdir(*state);
	free(*state);
	return 0;
}

static int open_it(const char *dir, struct weir_api_socket *opened, char *why, size_t bytes) {
	why[0] = '\0';
	return weir_api_socket_open(dir, opened, why, bytes);
}

TEST_EACH(setup, teardown);

TEST(socket_is_only_for_owner_and_group) {
	struct weir_api_socket opened;
	struct stat st;
	mode_t mask = umask(0);
	char why[256];

	assert_int_equal(open_it(*state, &opened, why, sizeof(why)), 0);
	assert_int_equal(umask(mask), 0); // the umask is restored
	assert_int_equal(stat(opened.path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0660);
	assert_int_equal(stat(opened.pid_path, &st), 0);
	// only the owner may open the file, because each process that can open it can also lock it
	assert_int_equal(st.st_mode & 0777, 0600);
	weir_api_socket_close(&opened);
	assert_int_equal(stat(opened.path, &st), -1);
	assert_int_equal(stat(opened.pid_path, &st), -1);
}

TEST(socket_takes_clients_before_the_loop_runs) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct weir_api_socket opened;
	char why[256];

	assert_int_equal(open_it(*state, &opened, why, sizeof(why)), 0);
	memcpy(address.sun_path, opened.path, sizeof(address.sun_path));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	weir_api_socket_close(&opened);
}

TEST(socket_second_one_is_refused_with_the_pid) {
	struct weir_api_socket first, second = {.fd = -7};
	char why[256], expected[64];

	assert_int_equal(open_it(*state, &first, why, sizeof(why)), 0);
	assert_int_equal(open_it(*state, &second, why, sizeof(why)), -EADDRINUSE);
	snprintf(expected, sizeof(expected), "weir-control (pid %d) is already running",
		(int)getpid());
	assert_non_null(strstr(why, expected));
	assert_int_equal(second.fd, -7);
	weir_api_socket_close(&first);
	assert_int_equal(open_it(*state, &second, why, sizeof(why)), 0);
	weir_api_socket_close(&second);
}

TEST(socket_of_a_killed_process_is_replaced) {
	struct weir_api_socket opened;
	char why[256];
	int ready[2], status;
	pid_t child;
	char byte;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		if (open_it(*state, &opened, why, sizeof(why)) == 0 && listen(opened.fd, 1) == 0) {
			write(ready[1], "x", 1);
		}
		pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(open_it(*state, &opened, why, sizeof(why)), -EADDRINUSE);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	assert_int_equal(open_it(*state, &opened, why, sizeof(why)), 0);
	assert_int_equal(listen(opened.fd, 1), 0);
	weir_api_socket_close(&opened);
	close(ready[0]);
	close(ready[1]);
}

// The pid file was removed by hand, so a process serves the socket without holding the lock.
TEST(socket_served_without_a_lock_is_not_replaced) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct weir_api_socket opened;
	char why[256], expected[32];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control/control.sock",
		(char *)*state);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(open_it(*state, &opened, why, sizeof(why)), -EADDRINUSE);
	snprintf(expected, sizeof(expected), "(pid %d)", (int)getpid());
	assert_non_null(strstr(why, expected));
	close(fd);
	assert_int_equal(open_it(*state, &opened, why, sizeof(why)), 0); // now the socket is stale
	weir_api_socket_close(&opened);
}

TEST(socket_failures_have_a_reason) {
	struct weir_api_socket opened;
	char why[256], path[200];

	snprintf(path, sizeof(path), "%s/missing", (char *)*state);
	assert_int_equal(open_it(path, &opened, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "control.pid: No such file"));
	memset(path, 'a', 150);
	path[150] = '\0';
	assert_int_equal(open_it(path, &opened, why, sizeof(why)), -ENAMETOOLONG);
	// A directory with the name of the socket.
	snprintf(path, sizeof(path), "%s/control/control.sock", (char *)*state);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(open_it(*state, &opened, why, sizeof(why)) < 0);
	assert_non_null(strstr(why, "control.sock"));
	rmdir(path);
	assert_int_equal(open_it(*state, &opened, why, sizeof(why)), 0); // the lock was released
	weir_api_socket_close(&opened);
}
