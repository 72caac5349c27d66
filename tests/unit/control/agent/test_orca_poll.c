// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "orca_poll.h"
#include "test.h"

// A request that is in progress when no balancer requests the load any more has no effect.
TEST(orca_poll_that_is_not_wanted_ignores_a_response) {
	struct sockaddr_in at;
	struct weir_log log = {.fd = -1};
	struct weir_orca_poll_params params = {.interval_ms = 1000, .log = &log};
	int server = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t bytes = sizeof(at);
	struct weir_orca_poll *poll;
	uv_loop_t loop;
	char url[64];

	assert_int_equal(listen(server, 1), 0); // at any free port
	assert_int_equal(getsockname(server, (struct sockaddr *)&at, &bytes), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", ntohs(at.sin_port));
	params.url = url;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(weir_orca_poll_create(&loop, &params, &poll), 0);
	weir_orca_poll_want(poll, true);
	uv_run(&loop, UV_RUN_NOWAIT); // starts the request
	weir_orca_poll_want(poll, false);
	assert_string_equal(weir_orca_poll_state(poll), "not wanted");
	close(server);
	uv_run(&loop, UV_RUN_DEFAULT); // until the request has failed
	assert_string_equal(weir_orca_poll_state(poll), "not wanted");
	weir_orca_poll_close(poll);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}
