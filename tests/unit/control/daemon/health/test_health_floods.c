// SPDX-License-Identifier: BSD-3-Clause
//
// Tests probes with libcurl to servers that endlessly send data that libcurl skips. No iteration of
// the event loop may take long. Runs in a network namespace of this process. Needs root.
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe_lab.h"

#define REPEATED_BYTES 65536
// Maximum CPU time of one iteration of the loop on a busy machine. An iteration usually takes less
// than 30 ms, and up to 270 ms with AddressSanitizer.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TURN_MOST_MS 2000
#else
#define TURN_MOST_MS 400
#endif

struct flood {
	const char *first; // data sent once
	size_t first_bytes;
	const char *part; // data sent repeatedly after `first`
	size_t part_bytes; // 0 = no repeated data
};

#define FLOOD(first, part) (&(struct flood){first, sizeof(first) - 1, part, sizeof(part) - 1})

static void send_all(int fd, const char *data, size_t bytes) {
	while (bytes > 0) {
		ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);

		if (n <= 0) {
			_exit(0);
		}
		data += n;
		bytes -= (size_t)n;
	}
}

static void serve(int listener, const struct flood *flood) {
	static char block[REPEATED_BYTES], question[4096];
	size_t bytes = 0;
	int fd = accept(listener, NULL, NULL);

	for (; flood->part_bytes > 0 && bytes + flood->part_bytes <= sizeof(block);
		bytes += flood->part_bytes) {
		memcpy(block + bytes, flood->part, flood->part_bytes);
	}
	if (fd < 0 || recv(fd, question, sizeof(question), 0) <= 0) {
		_exit(0);
	}
	send_all(fd, flood->first, flood->first_bytes);
	while (bytes > 0) {
		send_all(fd, block, bytes);
	}
	pause();
}

// Returns the server's pid.
static pid_t start_server(const struct flood *flood, uint16_t *ret_port) {
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t length = sizeof(name);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	pid_t pid;

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &length), 0);
	*ret_port = ntohs(name.sin_port);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(listener, flood);
	}
	close(listener);
	assert_true(pid > 0);
	return pid;
}

static uint64_t cpu_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// Handler of the alarm for a blocked loop.
static void give_up(int signal) {
	static const char text[] = "the loop hangs\n";

	(void)signal;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(1);
}

static struct result run_flood(
	const struct flood *flood, const struct weir_config_health_check *check) {
	struct result result = {0};
	struct weir_probe_params params = {.address = watch_lab_address("127.0.0.1"),
		.check = check,
		.done = probe_done,
		.context = &result};
	pid_t pid = start_server(flood, &params.port);
	struct weir_health_curl *curl;
	struct weir_health_http *http;
	uv_loop_t loop;

	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	signal(SIGALRM, give_up);
	alarm(20);
	assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
	while (result.calls == 0) {
		uint64_t before_ms = cpu_ms();

		uv_run(&loop, UV_RUN_ONCE);
		assert_in_range(cpu_ms() - before_ms, 0, TURN_MOST_MS);
	}
	alarm(0);
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return result;
}

static struct result probe_flood(
	const struct flood *flood, const struct weir_config_health_check *check) {
	struct result result = run_flood(flood, check);

	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	return result;
}

static const char too_much[] = "server sent more than 1024 KiB";

TEST_GROUP(watch_lab_enter);

TEST(floods_of_http_end_the_probe) {
	static const struct weir_config_health_check check = {.type = WEIR_CHECK_HTTP,
		.url.status_first = 200,
		.url.status_last = 399,
		.timeout_ms = 3000,
		.url.path = "/",
		.url.body = "never",
		.orca = true};
#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

	const char *detail =
		probe_flood(FLOOD(CHUNKED "0\r\n", "endpoint-load-metrics: TEXT rps=1\r\n"), &check)
			.detail;
	// libcurl has its own limit since 8.7, which is reached first.
	assert_true(strcmp(detail, too_much) == 0 ||
		    strstr(detail, "Too many response headers") != NULL);
	assert_string_equal(
		probe_flood(FLOOD(CHUNKED "1;", "an extension "), &check).detail, too_much);
	probe_flood(FLOOD("", "HTTP/1.1 100 Continue\r\n\r\n"), &check);
	probe_flood(FLOOD("HTTP/1.1 200 OK\r\n", "a: b\r\n"), &check);
	assert_string_equal(probe_flood(FLOOD("HTTP/1.1 200 OK\r\n", "a"), &check).detail,
		"response header is too long");
	assert_string_equal(probe_flood(FLOOD(CHUNKED, "1\r\na\r\n"), &check).detail,
		"HTTP 200, body without \"never\"");
}

// Only the headers determine the result. The probe does not wait for the body, which may be slow,
// endless or too large.
TEST(body_that_never_ends_does_not_matter) {
	struct weir_config_health_check check = {.type = WEIR_CHECK_HTTP,
		.url.status_first = 200,
		.url.status_last = 399,
		.timeout_ms = 3000,
		.url.path = "/"};
	const struct flood *const floods[] = {
		FLOOD("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nabc", ""),
		FLOOD("HTTP/1.1 200 OK\r\n\r\n", "abc"),
		FLOOD("HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n", "abc"),
		FLOOD(CHUNKED "1\r\na\r\n", ""),
		FLOOD(CHUNKED "1;", "an extension "),
	};

	for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]); i++) {
		struct result result = run_flood(floods[i], &check);

		assert_string_equal(result.detail, "HTTP 200");
		assert_int_equal(result.outcome, WEIR_PROBE_PASSED);
	}
	strcpy(check.url.body, "never");
	check.timeout_ms = 300;
	assert_string_equal(probe_flood(floods[0], &check).detail, "timeout after 300 ms");
	check.timeout_ms = 3000;
	assert_string_equal(
		probe_flood(floods[1], &check).detail, "HTTP 200, body without \"never\"");
	// The status alone makes the probe fail.
	assert_string_equal(
		probe_flood(FLOOD("HTTP/1.1 503 No\r\n\r\n", ""), &check).detail, "HTTP 503");
}

TEST(floods_of_grpc_end_the_probe) {
	static const struct weir_config_health_check check = {
		.type = WEIR_CHECK_GRPC, .timeout_ms = 3000};
#define SETTINGS "\0\0\0\4\0\0\0\0\0"
#define STATUS_200 "\0\0\1\1\4\0\0\0\1\x88"

	assert_string_equal( // data frames without data
		probe_flood(FLOOD(SETTINGS STATUS_200, "\0\0\0\0\0\0\0\0\1"), &check).detail,
		too_much);
	assert_string_equal( // window updates for a request that was sent
		probe_flood(FLOOD(SETTINGS, "\0\0\4\x8\0\0\0\0\1\0\0\0\1"), &check).detail,
		too_much);
	probe_flood(FLOOD(SETTINGS, "\0\0\x8\6\0\0\0\0\0pingping"), &check);
	probe_flood(FLOOD(SETTINGS, SETTINGS), &check);
	probe_flood(FLOOD(SETTINGS STATUS_200, STATUS_200), &check);
}

// The flood begins before the TLS handshake.
TEST(floods_of_tls_end_the_probe) {
	static const struct weir_config_health_check check = {.type = WEIR_CHECK_HTTPS,
		.url.status_first = 200,
		.url.status_last = 399,
		.timeout_ms = 3000,
		.url.path = "/"};

	probe_flood(FLOOD("", "\x16\3\3\0\4\0\0\0\0"), &check); // repeated HelloRequest messages
	probe_flood(FLOOD("", "\x14\3\3\0\1\1"), &check); // repeated ChangeCipherSpec messages
}
