// SPDX-License-Identifier: BSD-3-Clause
//
// Tests requests and answers of the control socket, and lists (guarantees A1, A2 and A5).
#include "api_lab.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned int read_count(const unsigned int *count) {
	return __atomic_load_n(count, __ATOMIC_RELAXED);
}

TEST_EACH(api_lab_setup, api_lab_teardown);

TEST(a1_one_answer_per_line_in_order) {
	int fd = client(*state);
	static char lines[65536];
	size_t used = 0;

	for (int i = 0; i < 1000; i++) {
		used += (size_t)sprintf(lines + used, "{\"command\": \"echo\", \"n\": %d}\n", i);
	}
	assert_true(put(fd, lines, used));
	for (int i = 0; i < 1000; i++) {
		json_t *answer = hear(fd);

		assert_int_equal(
			json_integer_value(json_object_get(json_object_get(answer, "result"), "n")),
			i);
		json_decref(answer);
	}
	close(fd);
}

TEST(a1_answer_later_keeps_the_order) {
	int fd = client(*state);

	say(fd, "{\"command\": \"later\"}\n{\"command\": \"fail\"}\n{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	expect(fd, "refused");
	expect(fd, "ok");
	close(fd);
}

TEST(a1_line_in_single_bytes) {
	const char *text = "{\"command\": \"echo\"}\r\n\n \n{\"command\": \"echo\"}\n";
	int fd = client(*state);

	for (const char *c = text; *c != '\0'; c++) {
		assert_true(put(fd, c, 1));
	}
	expect(fd, "ok");
	expect(fd, "ok");
	close(fd);
}

TEST(a1_last_line_without_newline_counts) {
	int fd = client(*state);

	say(fd, JSON({"command": "echo"}));
	shutdown(fd, SHUT_WR);
	expect(fd, "ok");
	expect_end(fd);
}

TEST(a1_half_closed_client_gets_all_answers) {
	int fd = client(*state);

	say(fd, "{\"command\": \"later\"}\n{\"command\": \"big\"}\n{\"command\": \"echo\"}\n");
	shutdown(fd, SHUT_WR);
	expect(fd, "ok");
	expect(fd, "ok");
	expect(fd, "ok");
	expect_end(fd);
}

TEST(a1_invalid_requests_get_an_error) {
	static const char *const lines[] = {"hello\n", "[]\n", "1\n", "null\n", "\"x\"\n", "{\n",
		"{}\n", "{\"command\": 1}\n", "{\"command\": null}\n", "{\"command\":\"a\"} x\n",
		"{\"command\": \"echo\", \"command\": \"echo\"}\n", "\xff\xfe{}\n",
		"{\"a\": \"\xc3\x28\"}\n", "{\"a\": \"\\ud800\"}\n", "GET / HTTP/1.1\r\n",
		"{'command': 'echo'}\n"};
	int fd = client(*state);

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		say(fd, lines[i]);
		expect(fd, "bad-request");
	}
	assert_true(put(fd, "{\"command\": \"ec\0ho\"}\n", 21));
	expect(fd, "bad-request");
	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	close(fd);
}

TEST(a1_deep_nesting_is_refused) {
	char line[WEIR_API_LINE_BYTES];
	int fd = client(*state);

	memset(line, '[', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	assert_true(put(fd, line, sizeof(line)));
	expect(fd, "bad-request");
	close(fd);
}

// A request with too many values is refused before it is parsed, because the parser needs much more
// time for a value than for a byte.
TEST(a7_many_values_are_refused_unparsed) {
	static const char *const repeated[] = {"0,", "\"x\",", "[],", "{},", "\"\\\"\","};
	char line[1024];
	int fd = client(*state);

	for (size_t i = 0; i < sizeof(repeated) / sizeof(repeated[0]); i++) {
		size_t used = (size_t)sprintf(line, "{\"command\": \"echo\", \"n\": [");
		json_t *answer;

		for (int n = 0; n < WEIR_API_VALUES_MAX; n++) {
			used += (size_t)sprintf(line + used, "%s", repeated[i]);
		}
		sprintf(line + used, "0]}\n");
		say(fd, line);
		answer = hear(fd);
		assert_string_equal(json_string_value(json_object_get(answer, "error")),
			"invalid request: too many JSON values");
		json_decref(answer);
	}
	// Brackets and commas in a string are not counted as values.
	sprintf(line, "{\"command\": \"peer\", \"n\": \"\\\"[{%0*d\"}\n", 500, 0);
	for (char *zero = strchr(line, '0'); *zero == '0'; zero++) {
		*zero = ',';
	}
	say(fd, line);
	expect(fd, "ok");
	close(fd);
}

// There are more slow requests than one iteration may process. The loop does other work between
// them, and answers all requests.
TEST(a7_loop_does_other_work_between_requests) {
	struct server *server = *state;
	int fds[32];

	for (size_t i = 0; i < 32; i++) {
		fds[i] = client(*state);
		say(fds[i], "{\"command\": \"slow\"}\n{\"command\": \"slow\"}\n");
	}
	for (size_t i = 0; i < 32; i++) {
		expect(fds[i], "ok");
		expect(fds[i], "ok");
		close(fds[i]);
	}
	assert_true(read_count(&server->most_in_turn) <= 2);
}

// The end of the connection, instead of a newline, ends each request.
TEST(a7_loop_does_other_work_between_last_requests) {
	struct server *server = *state;
	int fds[32];

	for (size_t i = 0; i < 32; i++) {
		fds[i] = client(*state);
		say(fds[i], JSON({"command": "slow"}));
	}
	expect_alive(server); // the requests were read
	for (size_t i = 0; i < 32; i++) {
		shutdown(fds[i], SHUT_WR);
	}
	for (size_t i = 0; i < 32; i++) {
		expect(fds[i], "ok");
		expect_end(fds[i]);
	}
	assert_true(read_count(&server->most_in_turn) <= 2);
}

TEST(a2_longest_line_is_accepted_and_a_longer_one_refused) {
	size_t bytes = WEIR_API_LINE_BYTES;
	char *line = malloc(bytes + 2);
	int fd = client(*state);
	int prefix = sprintf(line, "{\"command\": \"peer\", \"pad\": \"");

	memset(line + prefix, 'x', bytes - (size_t)prefix);
	memcpy(line + bytes - 2, "\"}\n", 3);
	assert_true(put(fd, line, bytes + 1));
	expect(fd, "ok");
	memcpy(line + bytes - 2, "x\"}\n", 4);
	assert_true(put(fd, line, bytes + 2));
	expect(fd, "bad-request");
	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	free(line);
	close(fd);
}

// Wait until each client has an unread answer.
static void wait_for_answers(const int *fds, size_t n) {
	for (size_t i = 0; i < n; i++) {
		struct pollfd answer = {.fd = fds[i], .events = POLLIN};

		assert_int_equal(poll(&answer, 1, DEADLINE_MS), 1);
	}
}

TEST(a2_long_lists_of_one_user_are_bounded) {
	enum { CLIENTS = 16 };
	unsigned int refused = 0, done = 0;
	int fds[CLIENTS];

	for (size_t i = 0; i < CLIENTS; i++) {
		fds[i] = client(*state);
		say(fds[i], "{\"command\": \"rows\", \"n\": 12, \"pad\": 524288}\n");
	}
	// read only when all clients have an answer, because reading a list makes room for
	// another list
	wait_for_answers(fds, CLIENTS);
	for (size_t i = 0; i < CLIENTS; i++) {
		json_t *answer = hear(fds[i]);
		const char *code = json_string_value(json_object_get(answer, "code"));

		if (code == NULL) {
			assert_int_equal(json_array_size(json_object_get(answer, "result")), 12);
		}
		done += code == NULL;
		refused += code != NULL && strcmp(code, "refused") == 0;
		json_decref(answer);
	}
	assert_int_equal(done + refused, CLIENTS);
	assert_in_range(done, 1, USER_BYTES / (6u << 20));
	// Lists that clients have read no longer count towards the limit
	for (size_t i = 0; i < CLIENTS; i++) {
		say(fds[i], "{\"command\": \"rows\", \"n\": 12, \"pad\": 524288}\n");
		expect(fds[i], "ok");
		close(fds[i]);
	}
}

TEST(a2_endless_line_gets_one_answer_and_no_memory) {
	char *block = malloc(1 << 20);
	int fd = client(*state);

	memset(block, 'x', 1 << 20);
	for (int i = 0; i < 64; i++) {
		assert_true(put(fd, block, 1 << 20));
	}
	say(fd, "\n{\"command\": \"echo\"}\n");
	expect(fd, "bad-request");
	expect(fd, "ok");
	free(block);
	close(fd);
}

TEST(a2_newlines_alone_do_not_delay_others) {
	char *block = malloc(1 << 20);
	int fd = client(*state);

	memset(block, '\n', 1 << 20);
	for (int i = 0; i < 16; i++) {
		assert_true(put(fd, block, 1 << 20));
		expect_alive(*state);
	}
	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	free(block);
	close(fd);
}

TEST(a5_list_is_complete) {
	static const struct {
		const char *request, *answer;
	} cases[] = {
		{"{\"command\": \"rows\", \"n\": 3}\n", "{\"ok\": true, \"result\": [0, 1, 2]}"},
		{"{\"command\": \"rows\", \"n\": 0}\n", "{\"ok\": true, \"result\": []}"},
		{"{\"command\": \"rows\", \"n\": 2, \"head\": {\"a\": {\"b\": 7}}}\n",
			"{\"ok\": true, \"result\": {\"a\": {\"b\": 7}, \"list\": [0, 1]}}"},
		{"{\"command\": \"rows\", \"n\": 0, \"head\": {}}\n",
			"{\"ok\": true, \"result\": {\"list\": []}}"},
		{"{\"command\": \"rows\", \"n\": 2, \"others\": 2, \"head\": {}}\n",
			"{\"ok\": true, \"result\": {\"list\": [0, 1], \"others\": [0, 1]}}"},
		{"{\"command\": \"rows\", \"n\": 0, \"others\": 0, \"head\": {\"a\": 7}}\n",
			"{\"ok\": true, \"result\": {\"a\": 7, \"list\": [], \"others\": []}}"},
	};
	struct server *server = *state;
	int fd = client(server);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *wanted = json_loads(cases[i].answer, 0, NULL), *answer;

		say(fd, cases[i].request);
		answer = hear(fd);
		assert_true(json_equal(answer, wanted));
		json_decref(answer);
		json_decref(wanted);
	}
	say(fd, "{\"command\": \"rows\", \"n\": 1000}\n");
	json_t *answer = hear(fd), *list = json_object_get(answer, "result");

	assert_int_equal(json_array_size(list), 1000);
	for (size_t i = 0; i < 1000; i++) {
		assert_int_equal(json_integer_value(json_array_get(list, i)), i);
	}
	json_decref(answer);
	say(fd, "{\"command\": \"rows\", \"n\": 1000, \"cancel\": 500}\n");
	expect(fd, "no-dataplane");
	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	assert_int_equal(read_count(&server->lists_freed), 8);
	close(fd);
}

#define MANY_ROWS 1000000u

TEST(a5_long_list_does_not_delay_others) {
	struct server *server = *state;
	int fd = client(server), second = client(server);

	say(fd, "{\"command\": \"rows\", \"n\": 1000000}\n");
	say(second, "{\"command\": \"rows\", \"n\": 1000000}\n");
	while (read_count(&server->rows) == 0) {
		sched_yield();
	}
	expect_alive(server);
	assert_true(read_count(&server->rows) < 2 * MANY_ROWS);
	close(fd); // after the first client has disconnected, the second client gets its list
	expect(second, "ok");
	close(second);
}

TEST(a5_server_may_close_within_a_list) {
	struct server *server = *state;
	int fd = client(server);

	say(fd, "{\"command\": \"rows\", \"n\": 1000000}\n");
	while (read_count(&server->rows) == 0) {
		sched_yield();
	}
	close(fd); // the teardown closes the server
}

TEST(api_gets_its_peer) {
	int fd = client(*state);
	json_t *answer, *result;

	say(fd, "{\"command\": \"peer\"}\n");
	answer = hear(fd);
	result = json_object_get(answer, "result");
	assert_int_equal(json_integer_value(json_object_get(result, "pid")), getpid());
	assert_int_equal(json_integer_value(json_object_get(result, "uid")), geteuid());
	json_decref(answer);
	close(fd);
}

TEST(api_error_text_is_always_utf8) {
	int fd = client(*state);
	json_t *answer;

	say(fd, "{\"command\": \"fail\"}\n");
	answer = hear(fd);
	assert_string_equal(json_string_value(json_object_get(answer, "error")), "odd: ?(");
	assert_true(json_is_array(json_object_get(answer, "errors")));
	json_decref(answer);
	close(fd);
}

// Sends random bytes mixed with parts of requests. The bytes are the same in each run.

TEST(api_survives_garbage) {
	static const char *const seasoning[] = {"{", "}", "\"command\"", ":", "\"echo\"", "\n", ",",
		"[", "]", "\"", "\\u0000", "\xff", "1e999", "-", "true", "\r"};
	unsigned int seed = 20260101;

	for (int round = 0; round < 300; round++) {
		int fd = client(*state);
		char bytes[4096];
		size_t used = 0;

		while (used < sizeof(bytes) - 16) {
			if (rand_r(&seed) % 3 == 0) {
				bytes[used++] = (char)rand_r(&seed);
			} else {
				const char *piece =
					seasoning[(size_t)rand_r(&seed) %
						  (sizeof(seasoning) / sizeof(seasoning[0]))];

				memcpy(bytes + used, piece, strlen(piece));
				used += strlen(piece);
			}
		}
		put(fd, bytes, used);
		if (round % 2 == 0) {
			json_t *answer;

			shutdown(fd, SHUT_WR);
			while ((answer = hear(fd)) != NULL) {
				assert_non_null(json_object_get(answer, "ok"));
				json_decref(answer);
			}
		}
		close(fd);
	}
	expect_alive_soon(*state);
}
