// SPDX-License-Identifier: BSD-3-Clause
//
// The server of the control socket in a thread, with a handler that echoes, and clients with real
// sockets.
//
// A system call of a client may return EINTR without a signal: from libuv 1.45 on a loop has an
// io_uring, and when the kernel removes it, some time after the loop of the previous test was
// closed, it interrupts the thread that created it.
#pragma once

#include <pthread.h>

#include "api.h"
#include "test.h"

#define BIG_BYTES (8u << 20) // far more than a socket buffers
#define DEADLINE_MS 10000
#define USER_BYTES (64u << 20) // memory of lists to clients of a user
#define SLOW_NS (2 * WEIR_API_TURN_NS)

// Commands: echo -> the request; big -> a very long answer; keep -> no answer until release; later
// -> an answer a few turns later; slow -> an answer that takes the loop SLOW_NS; rows -> a list of
// `n` numbers, as the member `list` of an object with `head`, cancelled at the row `cancel`; fail
// -> an error with broken UTF-8 in its text.
struct server {
	uv_loop_t loop;
	uv_async_t stop;
	uv_timer_t later;
	uv_check_t turn; // runs once in each turn of the loop
	struct weir_api *api;
	struct weir_api_call *kept; // by command "keep", answered by "release"
	unsigned int handled;
	// Slow requests of this turn, and the maximum of any turn
	unsigned int slow_in_turn, most_in_turn;
	unsigned int rows, lists, lists_freed; // so far
	bool closed;
	pthread_t thread;
	char dir[32];
	char path[64];
};

int api_lab_setup(void **state); // *state is a struct server
int api_lab_teardown(void **state);

int client(const struct server *server); // connected
// Returns false if the server has closed.
bool put(int fd, const char *data, size_t bytes);
void say(int fd, const char *text);
// The same, but the server may still have its maximum number of clients.
void say_if_let(int fd, const char *text);
// One answer, or NULL at the end of the connection.
json_t *hear(int fd);
// Read an answer and compare its code ("ok" if it has none).
void expect(int fd, const char *code);
void expect_end(int fd);
void expect_alive(const struct server *server);
// The same after many clients: until the server has detected that they closed, new clients are
// refused.
void expect_alive_soon(const struct server *server);
