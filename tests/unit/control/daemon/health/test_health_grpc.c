// SPDX-License-Identifier: BSD-3-Clause
//
// Tests gRPC probes against real gRPC servers, in a network namespace of this process. Needs root.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "health_grpc.h"
#include "probe_lab.h"

#define PLAIN_PORT 8401
#define TLS_PORT 8402
#define BARE_PORT 8403
#define REFUSING_PORT 8404
#define HTTP_PORT 8405 // port of an HTTP/1.1 server

struct lab {
	char dir[64];
	pid_t servers, http;
};

static struct weir_config_health_check check_of(const char *service) {
	struct weir_config_health_check check = {.type = WEIR_CHECK_GRPC, .timeout_ms = 3000};

	strcpy(check.grpc_service, service);
	return check;
}

static void expect(const char *address, uint16_t port, const struct weir_config_health_check *check,
	enum weir_probe_outcome outcome, const char *detail) {
	probe_expect(address, port, check, outcome, detail, check->grpc_service);
}

TEST(grpc_probe_passes_when_the_service_serves) {
	static const char *const addresses[] = {"127.0.0.1", "::1"};
	char name[256] = "long-";

	memset(name + 5, 'x', 200);
	name[205] = '\0';
	for (int i = 0; i < 2; i++) {
		struct weir_config_health_check check = check_of("");

		expect(addresses[i], PLAIN_PORT, &check, WEIR_PROBE_PASSED, "SERVING");
		check = check_of("serving");
		expect(addresses[i], PLAIN_PORT, &check, WEIR_PROBE_PASSED, "SERVING");
		check = check_of(name); // a name whose length takes two bytes
		expect(addresses[i], PLAIN_PORT, &check, WEIR_PROBE_PASSED, "SERVING");
	}
}

TEST(grpc_probe_fails_with_the_reason) {
	struct weir_config_health_check check = check_of("not-serving");

	expect("127.0.0.1", PLAIN_PORT, &check, WEIR_PROBE_FAILED, "NOT_SERVING");
	check = check_of("absent");
	expect("127.0.0.1", PLAIN_PORT, &check, WEIR_PROBE_FAILED, "NOT_FOUND: no such service");
	check = check_of("odd");
	expect("127.0.0.1", PLAIN_PORT, &check, WEIR_PROBE_FAILED,
		"response is not a grpc.health.v1 message");
	check = check_of("");
	expect("127.0.0.1", BARE_PORT, &check, WEIR_PROBE_FAILED,
		"UNIMPLEMENTED: Method not found!");
	expect("127.0.0.1", 9, &check, WEIR_PROBE_FAILED, "connection refused");
	expect("127.0.0.1", REFUSING_PORT, &check, WEIR_PROBE_FAILED, "server refused the request");
	assert_int_equal(probe_curl("127.0.0.1", HTTP_PORT, &check, 0).outcome, WEIR_PROBE_FAILED);
}

TEST(grpc_probe_verifies_the_certificate) {
	const struct lab *lab = *state;
	struct weir_config_health_check check = check_of("serving");
	struct result result;

	check.tls = true;
	check.verify = true;
	snprintf(check.ca_file, sizeof(check.ca_file), "%s/web.pem", lab->dir);
	strcpy(check.server_name, "web.example");
	expect("127.0.0.1", TLS_PORT, &check, WEIR_PROBE_PASSED, "SERVING");
	strcpy(check.server_name, "other.example");
	result = probe_curl("127.0.0.1", TLS_PORT, &check, 0);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_non_null(strstr(result.detail, "other.example"));
	check.verify = false;
	expect("127.0.0.1", TLS_PORT, &check, WEIR_PROBE_PASSED, "SERVING");
}

static int answer(size_t n, const char *bytes) {
	uint8_t *copy = malloc(n > 0 ? n : 1); // so that ASan detects a read beyond the end
	int status;

	memcpy(copy, bytes, n);
	status = weir_grpc_answer(copy, n);
	free(copy);
	return status;
}

TEST(grpc_answers_of_every_form) {
	assert_int_equal(answer(7, "\0\0\0\0\2\x08\1"), WEIR_GRPC_SERVING);
	assert_int_equal(answer(5, "\0\0\0\0\0"), 0); // an answer without fields means UNKNOWN
	// Unknown fields are skipped. If a field occurs twice, its last value counts.
	assert_int_equal(answer(17, "\0\0\0\0\x0c\x12\3abc\x08\2\x18\x80\1\x08\1"), 1);
	assert_int_equal(answer(15, "\0\0\0\0\x0a\x0d\1\2\3\4\x08\1\x08\2\x10"), -EINVAL);
	assert_int_equal(answer(7, "\1\0\0\0\2\x08\1"), -EINVAL); // a compressed answer
	assert_int_equal(answer(7, "\0\0\0\0\3\x08\1"), -EINVAL);
	assert_int_equal(answer(6, "\0\0\0\0\1\x08"), -EINVAL);
	assert_int_equal(answer(7, "\0\0\0\0\2\x12\x7f"), -EINVAL);
	assert_int_equal(answer(4, "\0\0\0\0"), -EINVAL);
	assert_int_equal(answer(0, ""), -EINVAL);
}

// --- servers ------------------------------------------------------------------------------

static int start_servers(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));
	char ports[4][8], key[80], certificate[80];
	const char *words[] = {"/usr/bin/python3", getenv("WEIR_GRPC_SERVER"), ports[0], ports[1],
		ports[2], ports[3], key, certificate, NULL};
	const char *http[] = {"/usr/bin/python3", "-m", "http.server", "8405", NULL};

	if (watch_lab_enter(state)) {
		free(lab);
		return -1;
	}
	strcpy(lab->dir, "/tmp/weir-health-XXXXXX");
	assert_non_null(mkdtemp(lab->dir));
	SHELL("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 "
	      "-nodes -subj /CN=web -addext subjectAltName=DNS:web.example -days 2 "
	      "-keyout web.key -out web.pem 2>/dev/null",
		lab->dir);
	for (int i = 0; i < 4; i++) {
		snprintf(ports[i], sizeof(ports[i]), "%d", PLAIN_PORT + i);
	}
	snprintf(key, sizeof(key), "%s/web.key", lab->dir);
	snprintf(certificate, sizeof(certificate), "%s/web.pem", lab->dir);
	lab->servers = watch_lab_start(words);
	lab->http = watch_lab_start(http);
	for (int port = PLAIN_PORT; port <= HTTP_PORT; port++) {
		SHELL("for i in $(seq 1000); do ss -Htln sport = :%d | grep -q . && exit;"
		      "sleep 0.01; done; exit 1",
			port);
	}
	*state = lab;
	return 0;
}

static int stop_servers(void **state) {
	struct lab *lab = *state;

	watch_lab_stop(lab->servers);
	watch_lab_stop(lab->http);
	SHELL("rm -r %s", lab->dir);
	free(lab);
	return 0;
}

TEST_GROUP(start_servers, stop_servers);
