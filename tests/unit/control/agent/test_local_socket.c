// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
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

static json_t *answer(void *context, const json_t *request) {
	(void)context, (void)request;
	return json_pack("{s:s}", "word", "ready");
}

static int connect_to(const struct sockaddr_un *address, uv_loop_t *loop) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_return_code(connect(fd, (const struct sockaddr *)address, sizeof(*address)), errno);
	uv_run(loop, UV_RUN_NOWAIT);
	return fd;
}

TEST(local_socket_answers_while_idle_clients_are_connected) {
	static const char request[] = "{\"command\": \"status\"}\n";
	char dir[] = "/tmp/weir-local-XXXXXX", why[256], reply[64] = "";
	int clients[2 * WEIR_LOCAL_SOCKET_CLIENTS], count = 2 * WEIR_LOCAL_SOCKET_CLIENTS;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct weir_local_socket local;
	struct weir_log log = {.fd = -1};
	uv_loop_t loop;
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", dir, WEIR_LOCAL_SOCKET);
	fd = weir_local_socket_open(dir, &log, why, sizeof(why));
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(weir_local_socket_start(&loop, fd, answer, NULL, &local), 0);
	for (int i = 0; i < count; i++) {
		clients[i] = connect_to(&address, &loop);
	}
	assert_int_equal(write(clients[count - 1], request, strlen(request)), strlen(request));
	uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(read(clients[count - 1], reply, sizeof(reply)), 17);
	assert_string_equal(reply, "{\"word\":\"ready\"}\n");
	weir_local_socket_stop(&local);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	for (int i = 0; i < count; i++) {
		close(clients[i]);
	}
	close(fd);
	assert_return_code(unlink(address.sun_path), errno);
	assert_return_code(rmdir(dir), errno);
}
