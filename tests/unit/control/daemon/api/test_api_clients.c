// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the guarantees A3 and A4 with slow, idle and disconnected clients, with many clients, and
// with a client for which there is no memory.
#include "api_lab.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static unsigned int *callocs_to_fail(void) {
	static unsigned int count;

	return &count;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes) {
	unsigned int left = __atomic_load_n(callocs_to_fail(), __ATOMIC_RELAXED);

	if (left > 0) {
		__atomic_store_n(callocs_to_fail(), left - 1, __ATOMIC_RELAXED);
		return NULL;
	}
	return __real_calloc(count, bytes);
}

TEST_EACH(api_lab_setup, api_lab_teardown);

// If there is no memory for a client, its connection cannot be accepted at once. libuv accepts no
// other connection before this one.
TEST(a_client_without_memory_is_served_later) {
	int fd;

	__atomic_store_n(callocs_to_fail(), 2, __ATOMIC_RELAXED);
	fd = client(*state);
	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	assert_int_equal(__atomic_load_n(callocs_to_fail(), __ATOMIC_RELAXED), 0);
	expect_alive(*state);
	close(fd);
}

TEST(a3_slow_reader_does_not_delay_others) {
	int slow[8];

	for (int i = 0; i < 8; i++) {
		slow[i] = client(*state);
		say(slow[i], "{\"command\": \"big\"}\n");
	}
	for (int i = 0; i < 50; i++) {
		expect_alive(*state);
	}
	// this client has not read anything yet, but gets its complete answer
	expect(slow[0], "ok");
	for (int i = 0; i < 8; i++) {
		close(slow[i]);
	}
	expect_alive(*state);
}

TEST(a3_client_that_never_reads_is_disconnected) {
	struct server *server = *state;
	int fd = client(server);
	struct timespec pause = {.tv_nsec = 50000000};
	char byte;

	say(fd, "{\"command\": \"big\"}\n");
	while (__atomic_load_n(&server->handled, __ATOMIC_RELAXED) == 0) {
		nanosleep(&pause, NULL);
	}
	assert_int_equal(weir_api_clients(server->api), 1);
	for (int i = 0; weir_api_clients(server->api) != 0; i++) {
		assert_true(i < (WEIR_API_ANSWER_MS + DEADLINE_MS) / 50);
		nanosleep(&pause, NULL);
	}
	// Data that was sent can be read before the connection ends
	assert_int_equal(recv(fd, &byte, 1, 0), 1);
	close(fd);
}

TEST(a3_too_many_clients_are_refused_while_all_are_busy) {
	int fd[WEIR_API_CLIENTS + 4];

	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		fd[i] = client(*state);
		say(fd[i], "{\"command\": \"echo\"}\n");
		expect(fd[i], "ok");
	}
	for (int i = WEIR_API_CLIENTS; i < WEIR_API_CLIENTS + 4; i++) {
		fd[i] = client(*state);
		expect(fd[i], "refused");
		expect_end(fd[i]);
	}
	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		say(fd[i], "{\"command\": \"echo\"}\n");
		expect(fd[i], "ok");
		close(fd[i]);
	}
}

TEST(a3_idle_client_is_replaced_by_a_new_one) {
	int fd[WEIR_API_CLIENTS], newcomer;
	struct timespec idle = {.tv_sec = WEIR_API_IDLE_MS / 1000, .tv_nsec = 100000000};

	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		fd[i] = client(*state);
		say(fd[i], "{\"command\": \"echo\"}\n");
		expect(fd[i], "ok");
	}
	nanosleep(&idle, NULL); // lets all clients become idle
	newcomer = client(*state);
	say(newcomer, "{\"command\": \"echo\"}\n");
	expect(newcomer, "ok");
	close(newcomer);
	assert_null(hear(fd[0])); // the client that was idle for the longest time is disconnected
	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		close(fd[i]);
	}
}

// The requests of clients that were idle wait for their iteration of the loop.
TEST(a3_client_whose_request_waits_is_not_idle) {
	int fd[WEIR_API_CLIENTS], newcomer;
	struct timespec idle = {.tv_sec = WEIR_API_IDLE_MS / 1000, .tv_nsec = 100000000};

	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		fd[i] = client(*state);
		say(fd[i], "{\"command\": \"echo\"}\n");
		expect(fd[i], "ok");
	}
	nanosleep(&idle, NULL);
	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		say(fd[i], "{\"command\": \"slow\"}\n");
	}
	newcomer = client(*state);
	expect(newcomer, "refused");
	close(newcomer);
	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		expect(fd[i], "ok");
		close(fd[i]);
	}
}

TEST(a4_client_may_die_before_its_answer) {
	for (int i = 0; i < 200; i++) {
		int fd = client(*state);

		say_if_let(fd,
			i % 10 != 0 ? "{\"command\": \"later\"}\n" : "{\"command\": \"big\"}\n");
		close(fd);
	}
	expect_alive_soon(*state);
}

TEST(a4_client_may_die_in_the_middle_of_a_line) {
	for (int i = 0; i < 200; i++) {
		int fd = client(*state);

		say_if_let(fd, "{\"command\": \"ec");
		close(fd);
	}
	expect_alive_soon(*state);
}
