// SPDX-License-Identifier: BSD-3-Clause
//
// HTTP probes against nginx and socat, in a network namespace of this process. Needs root.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "probe_lab.h"

#define NGINX_PORT 8100
#define TALKER_PORT 8101 // says something that is not HTTP
#define SILENT_PORT 8102 // says nothing
#define CLOSER_PORT 8103 // closes at once
#define TLS_PORT 8104 // by name: web.example, else a certificate that is not trusted
#define OLD_PORT 8105 // of web.example, but expired
#define ADDRESS_PORT 8106 // certificate for the address 127.0.0.1
#define GROUP_PORT 8107 // TLS with Diffie-Hellman in a group of its own, and nothing else

struct lab {
	char dir[64];
	pid_t pids[5];
};

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

static struct result probe(
	const char *address, uint16_t port, const struct weir_config_health_check *check) {
	return probe_curl(address, port, check, 0);
}

static void expect(const char *address, uint16_t port, const struct weir_config_health_check *check,
	enum weir_probe_outcome outcome, const char *detail) {
	probe_expect(address, port, check, outcome, detail, check->path);
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
	result = probe_curl("127.0.0.1", NGINX_PORT, &check, 600);
	assert_string_equal(result.detail, "HTTP 200");
	assert_int_equal(result.outcome, WEIR_PROBE_PASSED);
	result = probe_curl("127.0.0.1", SILENT_PORT, &check, 600);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_string_equal(result.detail, "timeout after 200 ms");
}

static void http_probe_wants_text_in_the_body(void **state) {
	struct weir_config_health_check check = check_of("/healthz");

	(void)state;
	strcpy(check.body, "ok");
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	strcpy(check.body, "OK");
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 200, body without \"OK\"");
	strcpy(check.path, "/broken"); // the status comes first
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 503");
	strcpy(check.path, "/large");
	strcpy(check.body, "not in it");
	check.timeout_ms = 1500;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED,
		"HTTP 200, body without \"not in it\"");
}

static void http_probe_uses_the_method(void **state) {
	struct weir_config_health_check check = check_of("/method");

	(void)state;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_FAILED, "HTTP 405");
	check.method = WEIR_METHOD_HEAD;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 204");
	check.method = WEIR_METHOD_OPTIONS;
	expect("127.0.0.1", NGINX_PORT, &check, WEIR_PROBE_PASSED, "HTTP 206");
}

// --- TLS ----------------------------------------------------------------------------------

static struct weir_config_health_check tls_check_of(const struct lab *lab, const char *path) {
	struct weir_config_health_check check = check_of(path);

	check.type = WEIR_CHECK_HTTPS;
	check.verify = true;
	snprintf(check.ca_file, sizeof(check.ca_file), "%s/ca.pem", lab->dir);
	return check;
}

static void https_probe_verifies_the_certificate(void **state) {
	static const char *const addresses[] = {"127.0.0.1", "::1"};

	for (int i = 0; i < 2; i++) {
		struct weir_config_health_check check = tls_check_of(*state, "/name");

		strcpy(check.server_name, "web.example");
		expect(addresses[i], TLS_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
		strcpy(check.server_name, "other.example"); // trusted by nobody
		expect(addresses[i], TLS_PORT, &check, WEIR_PROBE_FAILED,
			"SSL certificate problem: self-signed certificate");
		check.verify = false;
		check.ca_file[0] = '\0';
		expect(addresses[i], TLS_PORT, &check, WEIR_PROBE_PASSED, "HTTP 201");
		check.verify = true; // by the system's authorities
		strcpy(check.server_name, "web.example");
		expect(addresses[i], TLS_PORT, &check, WEIR_PROBE_FAILED,
			"SSL certificate problem: unable to get local issuer certificate");
	}
}

// A group may be so large that one check takes a second of CPU.
static void https_probe_uses_no_group_of_the_server(void **state) {
	struct weir_config_health_check check = tls_check_of(*state, "/");
	struct result result;

	check.verify = false;
	result = probe("127.0.0.1", GROUP_PORT, &check);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_non_null(strstr(result.detail, "handshake failure"));
}

static void https_probe_verifies_the_name(void **state) {
	struct weir_config_health_check check = tls_check_of(*state, "/name");
	struct result result;

	strcpy(check.server_name, "alias.example"); // has the certificate of web.example
	result = probe("127.0.0.1", TLS_PORT, &check);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_non_null(strstr(result.detail, "matches target host name 'alias.example'"));
	strcpy(check.server_name, "");
	strcpy(check.host, "web.example:8443"); // the port is not part of the name
	expect("127.0.0.1", TLS_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	// Without any name the address is verified, which is in the first certificate of the port.
	strcpy(check.host, "");
	expect("127.0.0.1", ADDRESS_PORT, &check, WEIR_PROBE_PASSED, "HTTP 204");
	expect("::1", ADDRESS_PORT, &check, WEIR_PROBE_FAILED,
		"SSL: no alternative certificate subject name matches target host name '::1'");
}

static void https_probe_fails_on_an_expired_certificate(void **state) {
	struct weir_config_health_check check = tls_check_of(*state, "/");

	strcpy(check.server_name, "web.example");
	expect("127.0.0.1", OLD_PORT, &check, WEIR_PROBE_FAILED,
		"SSL certificate problem: certificate has expired");
	check.verify = false;
	expect("127.0.0.1", OLD_PORT, &check, WEIR_PROBE_PASSED, "HTTP 204");
}

static void https_probe_fails_on_what_is_not_tls(void **state) {
	struct weir_config_health_check check = tls_check_of(*state, "/");
	struct result result;

	check.timeout_ms = 300;
	result = probe("127.0.0.1", NGINX_PORT, &check);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_non_null(strstr(result.detail, "wrong version number"));
	expect("127.0.0.1", SILENT_PORT, &check, WEIR_PROBE_FAILED, "timeout after 300 ms");
	expect("127.0.0.1", 9, &check, WEIR_PROBE_FAILED, "connection refused");
}

// A file of authorities that cannot be read is no fault of the backends.
static void https_probe_without_its_authorities_is_unknown(void **state) {
	struct weir_config_health_check check = tls_check_of(*state, "/");

	strcpy(check.ca_file, "/nonexistent/ca.pem");
	expect("127.0.0.1", TLS_PORT, &check, WEIR_PROBE_UNKNOWN,
		"cannot read the authorities in /nonexistent/ca.pem");
}

// Checks of several services, which share an engine: one after the other, each again and again.
struct turn {
	struct weir_config_health_check check;
	enum weir_probe_outcome outcome;
	const char *detail;
};

static struct turn turn_of(const struct lab *lab, const char *authorities, bool verify,
	enum weir_probe_outcome outcome, const char *detail) {
	struct turn turn = {
		.check = tls_check_of(lab, "/name"), .outcome = outcome, .detail = detail};

	strcpy(turn.check.server_name, "web.example");
	snprintf(turn.check.ca_file, sizeof(turn.check.ca_file), "%s/%s", lab->dir, authorities);
	turn.check.verify = verify;
	return turn;
}

static void take_turns(const struct turn *turns, uint32_t count, uint32_t rounds) {
	struct weir_health_curl *curl;
	uv_loop_t loop;

	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	for (uint32_t i = 0; i < rounds * count; i++) {
		const struct turn *turn = &turns[i % count];
		struct result result = {0};
		struct weir_probe_params params = {
			.address = watch_lab_address("127.0.0.1"),
			.port = TLS_PORT,
			.check = &turn->check,
			.done = probe_done,
			.context = &result,
		};
		struct weir_health_http *http;

		assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
		watch_lab_run(&loop, probe_has_result, &result, 5000, turn->detail);
		if (result.outcome != turn->outcome || strcmp(result.detail, turn->detail) != 0) {
			fail_msg("turn %u: %d \"%s\" instead of %d \"%s\"", i, result.outcome,
				result.detail, turn->outcome, turn->detail);
		}
	}
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
}

static void https_probes_of_two_authorities_are_kept_apart(void **state) {
	static const char stranger[] =
		"SSL certificate problem: unable to get local issuer certificate";
	const struct turn turns[] = {
		turn_of(*state, "ca.pem", true, WEIR_PROBE_PASSED, "HTTP 200"),
		turn_of(*state, "other.pem", true, WEIR_PROBE_FAILED, stranger),
		turn_of(*state, "other.pem", false, WEIR_PROBE_PASSED, "HTTP 200"),
		turn_of(*state, "both.pem", true, WEIR_PROBE_PASSED, "HTTP 200"),
		turn_of(*state, "other.pem", true, WEIR_PROBE_FAILED, stranger),
	};

	take_turns(turns, 5, 5);
}

// Who does not verify needs no authorities, and leaves none behind for who does.
static void https_probes_that_do_not_verify_are_kept_apart(void **state) {
	struct turn turns[] = {
		turn_of(*state, "absent.pem", false, WEIR_PROBE_PASSED, "HTTP 200"),
		turn_of(*state, "absent.pem", true, WEIR_PROBE_UNKNOWN, ""),
		turn_of(*state, "web.pem", false, WEIR_PROBE_PASSED, "HTTP 200"),
		turn_of(*state, "web.pem", true, WEIR_PROBE_PASSED, "HTTP 200"), // itself
	};
	char detail[128];

	snprintf(detail, sizeof(detail), "cannot read the authorities in %.60s",
		turns[1].check.ca_file);
	turns[1].detail = detail;
	take_turns(turns, 2, 5);
	take_turns(turns + 2, 2, 5);
}

// Those of a service are not read again because another service has others.
static void https_probes_read_authorities_once(void **state) {
	const struct turn alone[] = {
		turn_of(*state, "many.pem", true, WEIR_PROBE_PASSED, "HTTP 200"),
		turn_of(*state, "many.pem", true, WEIR_PROBE_PASSED, "HTTP 200"),
	};
	const struct turn mixed[] = {
		alone[0], turn_of(*state, "ca.pem", true, WEIR_PROBE_PASSED, "HTTP 200")};
	clock_t began = clock(), between;
	double once, by_turns;

	take_turns(alone, 2, 20);
	between = clock();
	take_turns(mixed, 2, 20);
	once = (double)(between - began) / CLOCKS_PER_SEC;
	by_turns = (double)(clock() - between) / CLOCKS_PER_SEC;
	print_message("%.3f s of CPU with one file, %.3f s with two\n", once, by_turns);
	assert_true(by_turns < 3 * once);
}

// --- limits -------------------------------------------------------------------------------

// Out of descriptors: that says nothing about the backend.
static void http_probe_without_a_socket_is_unknown(void **state) {
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

	(void)state;
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
	// The handle comes from the pool now: nothing of this is left in it.
	result.calls = 0;
	assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
	watch_lab_run(&loop, probe_has_result, &result, 5000, "another result");
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
				.done = probe_done,
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
		.done = probe_done,
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

// The first one of a port is that of clients that send no name or another one.
static void print_tls_server(FILE *file, const char *dir, uint16_t port, const char *name,
	const char *certificate, int status) {
	fprintf(file,
		"	server {\n"
		"		listen 127.0.0.1:%u ssl; listen [::1]:%u ssl; server_name %s;\n"
		"		ssl_certificate %s/%s.pem; ssl_certificate_key %s/%s.key;\n"
		"		return %d;\n"
		"	}\n",
		port, port, name, dir, certificate, dir, certificate, status);
}

// name.pem and name.key, signed by ca.pem.
static void make_certificate(const char *dir, const char *name, const char *subject, int days) {
	watch_lab_sh(
		"cd %s && { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
		"-subj /CN=%s -addext subjectAltName=%s -keyout %s.key -out %s.csr && "
		"openssl x509 -req -in %s.csr -copy_extensions copyall -CA ca.pem -CAkey ca.key "
		"-CAcreateserial -days %d -out %s.pem; } >/dev/null 2>&1",
		dir, name, subject, name, name, name, days, name);
}

static void make_certificates(const char *dir) {
	static const char *const signed_by_itself[] = {"ca", "self", "other"};

	for (int i = 0; i < 3; i++) {
		watch_lab_sh("cd %s && openssl req -x509 -newkey ec -pkeyopt "
			     "ec_paramgen_curve:P-256 -nodes -subj /CN=%s -days 2 -keyout %s.key "
			     "-out %s.pem 2>/dev/null",
			dir, signed_by_itself[i], signed_by_itself[i], signed_by_itself[i]);
	}
	make_certificate(dir, "web", "DNS:web.example", 2);
	make_certificate(dir, "old", "DNS:web.example", -1);
	make_certificate(dir, "address", "IP:127.0.0.1", 2);
	watch_lab_sh("cd %s && cat other.pem ca.pem > both.pem && "
		     "for i in $(seq 400); do cat ca.pem; done > many.pem",
		dir);
}

static pid_t start_group_server(const char *dir) {
	char port[8], certificate[128], key[128];
	const char *words[] = {"openssl", "s_server", "-accept", port, "-tls1_2", "-cipher",
		"DHE-RSA-AES128-GCM-SHA256", "-cert", certificate, "-key", key, "-www", "-quiet",
		NULL};

	watch_lab_sh("cd %s && openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=group -days 2 "
		     "-keyout group.key -out group.pem 2>/dev/null",
		dir);
	snprintf(port, sizeof(port), "%u", GROUP_PORT);
	snprintf(certificate, sizeof(certificate), "%s/group.pem", dir);
	snprintf(key, sizeof(key), "%s/group.key", dir);
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
		"		location /method {\n"
		"			if ($request_method = HEAD) { return 204; }\n"
		"			if ($request_method = OPTIONS) { return 206; }\n"
		"			return 405;\n"
		"		}\n"
		"	}\n",
		dir, NGINX_PORT, NGINX_PORT, dir);
	print_tls_server(file, dir, TLS_PORT, "other.example", "self", 201);
	print_tls_server(file, dir, TLS_PORT, "web.example", "web", 200);
	print_tls_server(file, dir, TLS_PORT, "alias.example", "web", 202);
	print_tls_server(file, dir, OLD_PORT, "_", "old", 204);
	print_tls_server(file, dir, ADDRESS_PORT, "_", "address", 204);
	fprintf(file, "}\n");
	fclose(file);
	watch_lab_sh("truncate -s 8000000 %s/large", dir);
	return watch_lab_start(words);
}

static int start_servers(void **state) {
	static const uint16_t ports[] = {
		NGINX_PORT, TALKER_PORT, SILENT_PORT, CLOSER_PORT, GROUP_PORT};
	struct lab *lab = calloc(1, sizeof(*lab));

	if (watch_lab_enter(state)) {
		free(lab);
		return -1;
	}
	watch_lab_make_hole();
	strcpy(lab->dir, "/tmp/weir-health-XXXXXX");
	assert_non_null(mkdtemp(lab->dir));
	make_certificates(lab->dir);
	lab->pids[0] = start_nginx(lab->dir);
	lab->pids[1] = start_socat(TALKER_PORT, "echo SSH-2.0; sleep 1");
	lab->pids[2] = start_socat(SILENT_PORT, "sleep 5");
	lab->pids[3] = start_socat(CLOSER_PORT, "true");
	lab->pids[4] = start_group_server(lab->dir);
	for (int i = 0; i < 5; i++) {
		watch_lab_sh("for i in $(seq 500); do ss -Htln sport = :%u | grep -q . && exit;"
			     "sleep 0.01; done; exit 1",
			ports[i]);
	}
	*state = lab;
	return 0;
}

static int stop_servers(void **state) {
	struct lab *lab = *state;

	for (int i = 0; i < 5; i++) {
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
		cmocka_unit_test(http_probe_wants_text_in_the_body),
		cmocka_unit_test(http_probe_uses_the_method),
		cmocka_unit_test(https_probe_verifies_the_certificate),
		cmocka_unit_test(https_probe_verifies_the_name),
		cmocka_unit_test(https_probe_uses_no_group_of_the_server),
		cmocka_unit_test(https_probe_fails_on_an_expired_certificate),
		cmocka_unit_test(https_probe_fails_on_what_is_not_tls),
		cmocka_unit_test(https_probe_without_its_authorities_is_unknown),
		cmocka_unit_test(https_probes_of_two_authorities_are_kept_apart),
		cmocka_unit_test(https_probes_that_do_not_verify_are_kept_apart),
		cmocka_unit_test(https_probes_read_authorities_once),
		cmocka_unit_test(http_probe_without_a_socket_is_unknown),
		cmocka_unit_test(http_probe_leaves_no_time_wait),
		cmocka_unit_test(http_probes_run_side_by_side),
		cmocka_unit_test(http_probe_cancelled_says_nothing),
	};

	return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
