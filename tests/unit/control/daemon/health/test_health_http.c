// SPDX-License-Identifier: BSD-3-Clause
//
// HTTP probes against nginx and socat, in a network namespace of this process. Needs root.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "health_http.h"
#include "watch_lab.h"

#define NGINX_PORT 8100
#define TALKER_PORT 8101 // says something that is not HTTP
#define SILENT_PORT 8102 // says nothing
#define CLOSER_PORT 8103 // closes at once

struct lab {
	char dir[64];
	pid_t pids[4];
};

struct result {
	int calls;
	enum weir_probe_outcome outcome;
	char detail[96];
};

static void on_done(void *context, enum weir_probe_outcome outcome, const char *detail) {
	struct result *result = context;

	result->calls++;
	result->outcome = outcome;
	strncpy(result->detail, detail, sizeof(result->detail) - 1);
}

static bool has_result(void *context) {
	return ((struct result *)context)->calls > 0;
}

static struct weir_config_health_check check_of(const char *path) {
	struct weir_config_health_check check = {
		.type = WEIR_CHECK_HTTP,
		.status_first = 200,
		.status_last = 399,
		.timeout_ms = 2000,
	};

	strcpy(check.path, path);
	return check;
}

// The loop has other work for stall_ms once the probe has begun to connect.
static struct result probe_stalled(const char *address, uint16_t port,
	const struct weir_config_health_check *check, unsigned int stall_ms) {
	struct result result = {0};
	struct weir_probe_params params = {
		.address = watch_lab_address(address),
		.port = port,
		.check = check,
		.done = on_done,
		.context = &result,
	};
	struct weir_health_curl *curl;
	struct weir_health_http *http;
	uv_loop_t loop;

	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
	assert_int_equal(result.calls, 0);
	if (stall_ms > 0) {
		uv_run(&loop, UV_RUN_NOWAIT);
		usleep(stall_ms * 1000);
	}
	watch_lab_run(&loop, has_result, &result, 5000, check->path);
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
	assert_int_equal(result.calls, 1);
	return result;
}

static struct result probe(
	const char *address, uint16_t port, const struct weir_config_health_check *check) {
	return probe_stalled(address, port, check, 0);
}

static void expect(const char *address, uint16_t port, const struct weir_config_health_check *check,
	enum weir_probe_outcome outcome, const char *detail) {
	struct result result = probe(address, port, check);

	if (result.outcome != outcome || strcmp(result.detail, detail) != 0) {
		fail_msg("%s: %d \"%s\" instead of %d \"%s\"", check->path, result.outcome,
			result.detail, outcome, detail);
	}
}

static void http_probe_passes_on_a_status_in_range(void **state) {
	static const char *const addresses[] = {"127.0.0.1", "::1"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct weir_config_health_check check = check_of("/healthz");

		expect(addresses[i], NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
		check = check_of("/broken");
		expect(addresses[i], NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 503");
		check.status_last = 503;
		expect(addresses[i], NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 503");
		check = check_of("/healthz?a=b&c=/../d");
		check.status_first = 201;
		expect(addresses[i], NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 200");
	}
}

static void http_probe_follows_no_redirect(void **state) {
	struct weir_config_health_check check = check_of("/moved");

	(void)state;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 301");
	check.status_last = 299;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 301");
}

static void http_probe_sends_the_host_header(void **state) {
	struct weir_config_health_check check = check_of("/host");

	(void)state;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 421");
	strcpy(check.host, "web.example");
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 204");
}

static void http_probe_ignores_proxies_of_the_environment(void **state) {
	struct weir_config_health_check check = check_of("/healthz");

	(void)state;
	setenv("http_proxy", "http://127.0.0.1:9", 1);
	setenv("all_proxy", "http://127.0.0.1:9", 1);
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	unsetenv("http_proxy");
	unsetenv("all_proxy");
}

static void http_probe_reads_little_of_a_large_body(void **state) {
	struct weir_config_health_check check = check_of("/large");
	uint64_t start = uv_hrtime();

	(void)state;
	check.timeout_ms = 1000; // nginx sends it at 100 kB/s: the whole takes 80 s
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	assert_true(uv_hrtime() - start < 1500 * 1000000ull);
}

static void http_probe_fails_on_what_is_not_http(void **state) {
	struct weir_config_health_check check = check_of("/healthz");

	(void)state;
	check.timeout_ms = 300;
	expect("127.0.0.1", TALKER_PORT, &check, WEIR_PROBE_FAILED, "response is not HTTP");
	expect("127.0.0.1", CLOSER_PORT, &check, WEIR_PROBE_FAILED, "closed without a response");
	expect("127.0.0.1", SILENT_PORT, &check, WEIR_PROBE_FAILED, "timeout after 300 ms");
}

static void http_probe_fails_on_dead_ports_and_black_holes(void **state) {
	struct weir_config_health_check check = check_of("/healthz");

	(void)state;
	check.timeout_ms = 200;
	expect("127.0.0.1", 9, &check, WEIR_PROBE_FAILED, "connection refused");
	expect("::1", 9, &check, WEIR_PROBE_FAILED, "connection refused");
	expect(WATCH_LAB_HOLE4, 80, &check, WEIR_PROBE_FAILED, "timeout after 200 ms");
	expect("10.99.0.1", 80, &check, WEIR_PROBE_FAILED, "network is unreachable");
}

static void http_probe_passes_though_the_loop_was_busy(void **state) {
	struct weir_config_health_check check = check_of("/healthz");
	struct result result;

	(void)state;
	check.timeout_ms = 200;
	result = probe_stalled("127.0.0.1", NGINX_PORT, &check, 600);
	assert_string_equal(result.detail, "HTTP 200");
	assert_int_equal(result.outcome, WEIR_PROBE_PASSED);
	result = probe_stalled("127.0.0.1", SILENT_PORT, &check, 600);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_string_equal(result.detail, "timeout after 200 ms");
}

// Out of descriptors: that says nothing about the backend.
static void http_probe_without_a_socket_is_unknown(void **state) {
	struct weir_config_health_check check = check_of("/healthz");
	struct result result = {0};
	struct weir_probe_params params = {
		.address = watch_lab_address("127.0.0.1"),
		.port = NGINX_PORT,
		.check = &check,
		.done = on_done,
		.context = &result,
	};
	struct weir_health_curl *curl;
	struct weir_health_http *http;
	struct rlimit before, none;
	uv_loop_t loop;

	(void)state;
	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 3;
	assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	watch_lab_run(&loop, has_result, &result, 5000, "a result");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(result.outcome, WEIR_PROBE_UNKNOWN);
	assert_string_equal(result.detail, "too many open files");
	// The handle comes from the pool now: nothing of this is left in it.
	result.calls = 0;
	assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
	watch_lab_run(&loop, has_result, &result, 5000, "another result");
	assert_int_equal(result.outcome, WEIR_PROBE_PASSED);
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
}

static void http_probe_leaves_no_time_wait(void **state) {
	struct weir_config_health_check check = check_of("/healthz");

	(void)state;
	for (int i = 0; i < 30; i++) {
		expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	}
	watch_lab_sh("! ss -Htan state time-wait '( sport = :%d or dport = :%d )' | grep -q .",
		NGINX_PORT, NGINX_PORT);
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

static void http_probes_run_side_by_side(void **state) {
	struct weir_config_health_check check = check_of("/healthz");
	struct weir_health_http *http[200];
	struct weir_health_curl *curl;
	struct crowd crowd = {0};
	uv_loop_t loop;

	(void)state;
	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	for (int round = 0; round < 3; round++) { // the later ones use handles of the pool
		memset(&crowd, 0, sizeof(crowd));
		for (int i = 0; i < 200; i++) {
			struct weir_probe_params params = {
				.address = watch_lab_address(i % 2 ? "127.0.0.1" : "::1"),
				.port = NGINX_PORT,
				.check = &check,
				.done = on_done,
				.context = &crowd.results[i],
			};

			assert_int_equal(weir_health_http_start(curl, &params, &http[i]), 0);
		}
		watch_lab_run(&loop, all_have_results, &crowd, 5000, "200 probes");
		assert_int_equal(crowd.passed, 200);
	}
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
}

static void http_probe_cancelled_says_nothing(void **state) {
	struct weir_config_health_check check = check_of("/healthz");
	struct result result = {0};
	struct weir_probe_params params = {
		.address = watch_lab_address("127.0.0.1"),
		.port = SILENT_PORT,
		.check = &check,
		.done = on_done,
		.context = &result,
	};
	struct weir_health_curl *curl;
	struct weir_health_http *http;
	uv_loop_t loop;

	(void)state;
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

// --- servers ------------------------------------------------------------------------------

static pid_t start_socat(uint16_t port, const char *command) {
	char listen[64], action[128];
	const char *words[] = {"socat", listen, action, NULL};

	snprintf(listen, sizeof(listen), "TCP4-LISTEN:%u,fork,reuseaddr", port);
	snprintf(action, sizeof(action), "SYSTEM:%s", command);
	return watch_lab_start(words);
}

static pid_t start_nginx(const char *dir) {
	char path[128];
	const char *words[] = {"nginx", "-p", dir, "-c", path, "-e", "stderr", NULL};
	FILE *file;

	snprintf(path, sizeof(path), "%s/nginx.conf", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file,
		"daemon off; master_process off; pid %s/nginx.pid; user root;\n"
		"events { worker_connections 1024; }\n"
		"http {\n"
		"	access_log off; error_log stderr crit;\n"
		"	server {\n"
		"		listen 127.0.0.1:%d backlog=1024; listen [::1]:%d backlog=1024;\n"
		"		location /healthz { return 200 ok; }\n"
		"		location /broken { return 503; }\n"
		"		location /moved { return 301 /healthz; }\n"
		"		location /host {\n"
		"			if ($http_host = web.example) { return 204; }\n"
		"			return 421;\n"
		"		}\n"
		"		location /large { root %s; limit_rate 100k; }\n"
		"	}\n"
		"}\n",
		dir, NGINX_PORT, NGINX_PORT, dir);
	fclose(file);
	watch_lab_sh("truncate -s 8000000 %s/large", dir);
	return watch_lab_start(words);
}

static int start_servers(void **state) {
	static const uint16_t ports[] = {NGINX_PORT, TALKER_PORT, SILENT_PORT, CLOSER_PORT};
	struct lab *lab = calloc(1, sizeof(*lab));

	if (watch_lab_enter(state)) {
		free(lab);
		return -1;
	}
	watch_lab_make_hole();
	strcpy(lab->dir, "/tmp/weir-health-XXXXXX");
	assert_non_null(mkdtemp(lab->dir));
	lab->pids[0] = start_nginx(lab->dir);
	lab->pids[1] = start_socat(TALKER_PORT, "echo SSH-2.0; sleep 1");
	lab->pids[2] = start_socat(SILENT_PORT, "sleep 5");
	lab->pids[3] = start_socat(CLOSER_PORT, "true");
	for (int i = 0; i < 4; i++) {
		watch_lab_sh("for i in $(seq 500); do ss -Htln sport = :%u | grep -q . && exit;"
			     "sleep 0.01; done; exit 1",
			ports[i]);
	}
	*state = lab;
	return 0;
}

static int stop_servers(void **state) {
	struct lab *lab = *state;

	for (int i = 0; i < 4; i++) {
		watch_lab_stop(lab->pids[i]);
	}
	watch_lab_sh("rm -r %s", lab->dir);
	free(lab);
	return 0;
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(http_probe_passes_on_a_status_in_range),
		cmocka_unit_test(http_probe_follows_no_redirect),
		cmocka_unit_test(http_probe_sends_the_host_header),
		cmocka_unit_test(http_probe_ignores_proxies_of_the_environment),
		cmocka_unit_test(http_probe_reads_little_of_a_large_body),
		cmocka_unit_test(http_probe_fails_on_what_is_not_http),
		cmocka_unit_test(http_probe_fails_on_dead_ports_and_black_holes),
		cmocka_unit_test(http_probe_passes_though_the_loop_was_busy),
		cmocka_unit_test(http_probe_without_a_socket_is_unknown),
		cmocka_unit_test(http_probe_leaves_no_time_wait),
		cmocka_unit_test(http_probes_run_side_by_side),
		cmocka_unit_test(http_probe_cancelled_says_nothing),
	};

	return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
