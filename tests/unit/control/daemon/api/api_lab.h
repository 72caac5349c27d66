// SPDX-License-Identifier: BSD-3-Clause
//
// Runs the server of the control socket in a thread. The handler answers the commands listed below.
// Clients use real sockets.
//
// A system call of a client may return EINTR without a signal. From libuv 1.45 on, a loop has an
// io_uring. Some time after the loop of the previous test was closed, the kernel removes this
// io_uring and interrupts the thread that created it.
#pragma once

#include <pthread.h>

#include "api.h"
#include "test.h"

#define BIG_BYTES (8u << 20) // far more bytes than a socket buffers
#define DEADLINE_MS 10000
// Limit for the memory of lists that are being sent to clients of one user
#define USER_BYTES (64u << 20)
#define SLOW_NS (2 * WEIR_API_TURN_NS)

// Commands of the handler, and their answers:
// echo: the request
// big: a very long answer
// keep: an answer after the command "release" has arrived
// later: an answer a few loop iterations later
// slow: an answer that takes SLOW_NS of the loop's time
// rows: an object with the members `head` and `list`; `list` has `n` numbers, and the handler
//       cancels it at row `cancel`
// fail: an error whose text is invalid UTF-8
struct server {
	uv_loop_t loop;
	uv_async_t stop;
	uv_timer_t later;
	uv_check_t turn; // runs once in each iteration of the loop
	struct weir_api *api;
	struct weir_api_call *kept; // call of the command "keep"; the command "release" answers it
	unsigned int handled;
	// Number of slow requests in this iteration, and the maximum of all iterations
	unsigned int slow_in_turn, most_in_turn;
	unsigned int rows, lists, lists_freed; // totals so far
	bool failed_unread; // a list has failed, although its client had disconnected
	bool closed;
	pthread_t thread;
	char dir[32];
	char path[64];
};

int api_lab_setup(void **state); // *state is a struct server
int api_lab_teardown(void **state);

int client(const struct server *server); // returns a connected socket
// Returns false if the server has closed the connection.
bool put(int fd, const char *data, size_t bytes);
void say(int fd, const char *text);
// Send a text. This may fail, because the server may already have the maximum number of clients.
void say_if_let(int fd, const char *text);
// Read one answer. Returns NULL if the server has closed the connection.
json_t *hear(int fd);
// Read an answer and compare its code ("ok" if it has none).
void expect(int fd, const char *code);
void expect_end(int fd);
void expect_alive(const struct server *server);
// Check that the server is alive after many clients have closed their connections. The server
// refuses new clients until it has detected the closed connections, so the function tries
// repeatedly.
void expect_alive_soon(const struct server *server);
