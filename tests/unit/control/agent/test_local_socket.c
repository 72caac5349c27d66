// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "local_socket.h"
#include "test.h"

TEST(local_socket_of_a_running_agent_stays_without_free_descriptors) {
	char dir[] = "/tmp/weir-local-XXXXXX", path[64], why[256];
	struct weir_log log = {.fd = -1};
	struct rlimit before, limit;
	int fd;

	assert_non_null(mkdtemp(dir));
	fd = weir_local_socket_open(dir, &log, why, sizeof(why));
	assert_return_code(fd, errno);
	assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
	limit = before;
	limit.rlim_cur = (rlim_t)fd + 2; // one more descriptor
	assert_return_code(setrlimit(RLIMIT_NOFILE, &limit), errno);
	assert_int_equal(weir_local_socket_open(dir, &log, why, sizeof(why)), -EADDRINUSE);
	assert_return_code(setrlimit(RLIMIT_NOFILE, &before), errno);
	close(fd);
	// the socket of an agent that has crashed is replaced
	fd = weir_local_socket_open(dir, &log, why, sizeof(why));
	assert_return_code(fd, errno);
	close(fd);
	snprintf(path, sizeof(path), "%s/%s", dir, WEIR_LOCAL_SOCKET);
	assert_return_code(unlink(path), errno);
	assert_return_code(rmdir(dir), errno);
}
