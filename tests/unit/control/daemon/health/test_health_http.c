// SPDX-License-Identifier: BSD-3-Clause
//
// Tests HTTP probes against nginx and socat.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http_lab.h"

TEST_GROUP(http_lab_start, http_lab_stop);

TEST(http_probe_passes_on_a_status_in_range) {
	static const char *const addresses[] = {"127.0.0.1", "::1"};

	for (int i = 0; i < 2; i++) {
		struct weir_config_health_check check = check_of("/healthz");

		expect(addresses[i], NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
		check = check_of("/broken");
		expect(addresses[i], NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 503");
		check.url.status_last = 503;
		expect(addresses[i], NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 503");
		check = check_of("/healthz?a=b&c=/../d");
		check.url.status_first = 201;
		expect(addresses[i], NGINX_PORT, &check, WEIR_PROBE_FAILED,
			"HTTP 200, expected 201 to 399");
	}
}

TEST(http_probe_follows_no_redirect) {
	struct weir_config_health_check check = check_of("/moved");

	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 301");
	check.url.status_last = 299;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 301, expected 200 to 299");
}

TEST(http_probe_sends_the_host_header) {
	struct weir_config_health_check check = check_of("/host");

	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 421");
	strcpy(check.host, "web.example");
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 204");
}

TEST(http_probe_ignores_proxies_of_the_environment) {
	struct weir_config_health_check check = check_of("/healthz");

	setenv("http_proxy", "http://127.0.0.1:9", 1);
	setenv("all_proxy", "http://127.0.0.1:9", 1);
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	unsetenv("http_proxy");
	unsetenv("all_proxy");
}

TEST(http_probe_reads_little_of_a_large_body) {
	struct weir_config_health_check check = check_of("/large");
	uint64_t start = uv_hrtime();

	check.timeout_ms = 1000; // nginx sends the body at 100 kB/s, which takes 80 s
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	assert_true(uv_hrtime() - start < 1500 * 1000000ull);
}

TEST(http_probe_fails_on_other_protocols) {
	struct weir_config_health_check check = check_of("/healthz");

	check.timeout_ms = 300;
	expect("127.0.0.1", TALKER_PORT, &check, WEIR_PROBE_FAILED, "response is not HTTP");
	expect("127.0.0.1", CLOSER_PORT, &check, WEIR_PROBE_FAILED,
		"connection closed without a response");
	expect("127.0.0.1", SILENT_PORT, &check, WEIR_PROBE_FAILED, "timeout after 300 ms");
}

TEST(http_probe_fails_on_dead_ports_and_black_holes) {
	struct weir_config_health_check check = check_of("/healthz");

	check.timeout_ms = 200;
	expect("127.0.0.1", 9, &check, WEIR_PROBE_FAILED, "connection refused");
	expect("::1", 9, &check, WEIR_PROBE_FAILED, "connection refused");
	expect(WATCH_LAB_HOLE4, 80, &check, WEIR_PROBE_FAILED, "timeout after 200 ms");
	expect("10.99.0.1", 80, &check, WEIR_PROBE_FAILED, "network is unreachable");
}

TEST(http_probe_passes_although_the_loop_was_busy) {
	struct weir_config_health_check check = check_of("/healthz");
	struct result result;

	check.timeout_ms = 200;
	result = probe_curl("127.0.0.1", NGINX_PORT, &check, 600);
	assert_string_equal(result.detail, "HTTP 200");
	assert_int_equal(result.outcome, WEIR_PROBE_PASSED);
	result = probe_curl("127.0.0.1", SILENT_PORT, &check, 600);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_string_equal(result.detail, "timeout after 200 ms");
}

TEST(http_probe_requires_the_text_in_the_body) {
	struct weir_config_health_check check = check_of("/healthz");

	strcpy(check.url.body, "ok");
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	strcpy(check.url.body, "OK");
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 200, body without \"OK\"");
	strcpy(check.url.path, "/broken"); // the status arrives before the error
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 503");
	strcpy(check.url.path, "/large");
	strcpy(check.url.body, "not in it");
	check.timeout_ms = 1500;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED,
		"HTTP 200, body without \"not in it\"");
}

// nginx sends "ok". md5sum and sha256sum have the same digests.
TEST(http_probe_requires_the_digest_or_a_match_of_the_body) {
	struct weir_config_health_check check = check_of("/healthz");

	check.url.body_sha256.count = 32;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED,
		"HTTP 200, body_sha256 is "
		"2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df");
	check.url.body_sha256.count = 0;
	check.url.body_md5 = (struct weir_config_bytes){
		16, {0x44, 0x4b, 0xcb, 0x3a, 0x3f, 0xcf, 0x83, 0x89, 0x29, 0x6c, 0x49, 0x46, 0x7f,
			    0x27, 0xe1, 0xd6}};
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	strcpy(check.url.path, "/broken"); // the status arrives before the error
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 503");
	strcpy(check.url.path, "/large"); // the digest needs the whole body
	check.timeout_ms = 300;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "timeout after 300 ms");
	check = check_of("/healthz");
	strcpy(check.url.body_regex, "^(ok|fine)$");
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	strcpy(check.url.body_regex, "^k");
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED,
		"HTTP 200, body does not match \"^k\"");
}

TEST(http_probe_uses_the_method) {
	struct weir_config_health_check check = check_of("/method");

	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 405");
	check.method = WEIR_METHOD_HEAD;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 204");
	check.method = WEIR_METHOD_OPTIONS;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 206");
}

// --- other users --------------------------------------------------------------------------

static bool is_own_socket(unsigned long inode) {
	struct stat file;

	for (int fd = 0; fd < 256; fd++) {
		if (fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode) && file.st_ino == inode) {
			return true;
		}
	}
	return false;
}

static void connect_often(const char *name, size_t bytes, unsigned int times) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct rlimit limit = {.rlim_cur = 8192, .rlim_max = 8192};

	setrlimit(RLIMIT_NOFILE, &limit);
	memcpy(address.sun_path + 1, name, bytes);
	for (unsigned int i = 0; i < times; i++) {
		connect(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0),
			(struct sockaddr *)&address,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes));
	}
}

struct others {
	unsigned int connections; // connections to each socket
	// result: number of libcurl's listening sockets, summed over all iterations of the loop
	unsigned int sockets;
};

// Simulate another process that connects to each listening abstract socket before libcurl does.
static void connect_others(uv_check_t *turn) {
	struct others *others = turn->data;
	FILE *file = fopen("/proc/net/unix", "r");
	char line[256];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL) {
		char name[128];
		unsigned long inode;

		if (sscanf(line, "%*s %*s %*s 00010000 %*s %*s %lu @%127s", &inode, name) != 2 ||
			!is_own_socket(inode)) {
			continue;
		}
		if (fork() == 0) {
			connect_often(name, strlen(name), others->connections);
			_exit(0);
		}
		wait(NULL);
		others->sockets++;
	}
	fclose(file);
}

static enum weir_probe_outcome probe_among(unsigned int connections) {
	struct weir_config_health_check check = check_of("/healthz");
	struct others others = {.connections = connections};
	struct result result = {0};
	struct weir_probe_params params = {
		.address = watch_lab_address("127.0.0.1"),
		.port = NGINX_PORT,
		.check = &check,
		.done = probe_done,
		.context = &result,
	};
	struct weir_health_curl *curl;
	struct weir_health_http *http;
	uv_check_t turn;
	uv_loop_t loop;

	uv_loop_init(&loop);
	uv_check_init(&loop, &turn);
	turn.data = &others;
	uv_check_start(&turn, connect_others);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
	watch_lab_run(&loop, probe_has_result, &result, 5000, "a result");
	// The probe must end after a few iterations, although each one adds connections.
	assert_in_range(others.sockets, 1, 10);
	weir_health_curl_free(curl);
	uv_close((uv_handle_t *)&turn, NULL);
	watch_lab_close(&loop);
	return result.outcome;
}

TEST(http_probe_passes_though_others_connect) {
	assert_int_equal(probe_among(100), WEIR_PROBE_PASSED);
}

TEST(http_probe_that_others_prevent_is_unknown) {
	assert_int_equal(probe_among(6000), WEIR_PROBE_UNKNOWN);
}

// --- limits -------------------------------------------------------------------------------

// A probe without a free descriptor has no result about the backend.
TEST(http_probe_without_a_socket_is_unknown) {
	struct weir_config_health_check check = check_of("/healthz");
	struct result result = {0};
	struct weir_probe_params params = {
		.address = watch_lab_address("127.0.0.1"),
		.port = NGINX_PORT,
		.check = &check,
		.done = probe_done,
		.context = &result,
	};
	struct weir_health_curl *curl;
	struct weir_health_http *http;
	struct rlimit before, none;
	uv_loop_t loop;

	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 3;
	assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	watch_lab_run(&loop, probe_has_result, &result, 5000, "a result");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(result.outcome, WEIR_PROBE_UNKNOWN);
	assert_string_equal(result.detail, "too many open files");
	// The handle now comes from the pool, and must contain no state of the previous probe.
	result.calls = 0;
	assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
	watch_lab_run(&loop, probe_has_result, &result, 5000, "another result");
	assert_int_equal(result.outcome, WEIR_PROBE_PASSED);
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
}

TEST(http_probe_leaves_no_time_wait) {
	struct weir_config_health_check check = check_of("/healthz");

	for (int i = 0; i < 30; i++) {
		expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	}
	SHELL("! ss -Htan state time-wait '( sport = :%d or dport = :%d )' | grep -q .", NGINX_PORT,
		NGINX_PORT);
}

struct crowd {
	struct result results[200];
	int passed;
};

static bool all_have_results(void *context) {
	struct crowd *crowd = context;

	crowd->passed = 0;
	for (int i = 0; i < 200; i++) {
		if (crowd->results[i].calls == 0) {
			return false;
		}
		crowd->passed += crowd->results[i].outcome == WEIR_PROBE_PASSED;
	}
	return true;
}

TEST(http_probes_run_concurrently) {
	struct weir_config_health_check check = check_of("/healthz");
	struct weir_health_http *http[200];
	struct weir_health_curl *curl;
	struct crowd crowd = {0};
	uv_loop_t loop;

	check.timeout_ms = 20000; // for 200 probes of a slow machine
	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	for (int round = 0; round < 3; round++) { // later probes use handles of the pool
		memset(&crowd, 0, sizeof(crowd));
		for (int i = 0; i < 200; i++) {
			struct weir_probe_params params = {
				.address = watch_lab_address(i % 2 ? "127.0.0.1" : "::1"),
				.port = NGINX_PORT,
				.check = &check,
				.done = probe_done,
				.context = &crowd.results[i],
			};

			assert_int_equal(weir_health_http_start(curl, &params, &http[i]), 0);
		}
		watch_lab_run(&loop, all_have_results, &crowd, 30000, "200 probes");
		assert_int_equal(crowd.passed, 200);
	}
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
}

TEST(http_probe_cancelled_calls_nothing) {
	struct weir_config_health_check check = check_of("/healthz");
	struct result result = {0};
	struct weir_probe_params params = {
		.address = watch_lab_address("127.0.0.1"),
		.port = SILENT_PORT,
		.check = &check,
		.done = probe_done,
		.context = &result,
	};
	struct weir_health_curl *curl;
	struct weir_health_http *http;
	uv_loop_t loop;

	check.timeout_ms = 200;
	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
	watch_lab_idle(&loop, 50);
	weir_health_http_cancel(http);
	watch_lab_idle(&loop, 300);
	assert_int_equal(result.calls, 0);
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
}
