// SPDX-License-Identifier: BSD-3-Clause
//
// Tests HTTPS probes against nginx and openssl: certificates, names and CAs.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include "http_lab.h"

#define MANY 400u // transfers at a time

static struct weir_config_health_check tls_check_of(const struct lab *lab, const char *path) {
	struct weir_config_health_check check = check_of(path);

	check.type = WEIR_CHECK_HTTPS;
	check.verify = true;
	snprintf(check.ca_file, sizeof(check.ca_file), "%s/ca.pem", lab->dir);
	return check;
}

TEST_GROUP(http_lab_start, http_lab_stop);

TEST(https_probe_verifies_the_certificate) {
	static const char *const addresses[] = {"127.0.0.1", "::1"};

	for (int i = 0; i < 2; i++) {
		struct weir_config_health_check check = tls_check_of(*state, "/name");

		strcpy(check.server_name, "web.example");
		expect(addresses[i], TLS_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
		// a certificate that is not signed by a trusted CA
		strcpy(check.server_name, "other.example");
		expect(addresses[i], TLS_PORT, &check, WEIR_PROBE_FAILED,
			"SSL certificate problem: self-signed certificate");
		check.verify = false;
		check.ca_file[0] = '\0';
		expect(addresses[i], TLS_PORT, &check, WEIR_PROBE_PASSED, "HTTP 201");
		check.verify = true; // verify with the system's CAs
		strcpy(check.server_name, "web.example");
		expect(addresses[i], TLS_PORT, &check, WEIR_PROBE_FAILED,
			"SSL certificate problem: unable to get local issuer certificate");
	}
}

// A server's Diffie-Hellman group may be so large that one check takes a second of CPU time.
TEST(https_probe_accepts_no_group_of_the_server) {
	struct weir_config_health_check check = tls_check_of(*state, "/");
	struct result result;

	check.verify = false;
	result = probe("127.0.0.1", GROUP_PORT, &check);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_non_null(strstr(result.detail, "handshake failure"));
}

// Check the message: "host name" before libcurl 8.10, "hostname" later.
static void assert_names_host(const struct result *result, const char *name) {
	assert_non_null(strstr(result->detail, "no alternative certificate subject name matches"));
	assert_non_null(strstr(result->detail, name));
}

TEST(https_probe_verifies_the_name) {
	struct weir_config_health_check check = tls_check_of(*state, "/name");
	struct result result;

	// this server has the certificate of web.example
	strcpy(check.server_name, "alias.example");
	result = probe("127.0.0.1", TLS_PORT, &check);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_names_host(&result, "'alias.example'");
	strcpy(check.server_name, "");
	strcpy(check.host, "web.example:8443"); // the port is not part of the name
	expect("127.0.0.1", TLS_PORT, &check, WEIR_PROBE_PASSED, "HTTP 200");
	strcpy(check.host, "[2001:db8::1]:8443");
	result = probe("127.0.0.1", ADDRESS_PORT, &check);
	assert_names_host(&result, "'2001:db8::1'");
	// Without a name the address is verified. The first certificate of the port contains the
	// address.
	strcpy(check.host, "");
	expect("127.0.0.1", ADDRESS_PORT, &check, WEIR_PROBE_PASSED, "HTTP 204");
	result = probe("::1", ADDRESS_PORT, &check);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_names_host(&result, "'::1'");
}

TEST(https_probe_fails_on_an_expired_certificate) {
	struct weir_config_health_check check = tls_check_of(*state, "/");

	strcpy(check.server_name, "web.example");
	expect("127.0.0.1", OLD_PORT, &check, WEIR_PROBE_FAILED,
		"SSL certificate problem: certificate has expired");
	check.verify = false;
	expect("127.0.0.1", OLD_PORT, &check, WEIR_PROBE_PASSED, "HTTP 204");
}

TEST(https_probe_fails_on_servers_without_tls) {
	struct weir_config_health_check check = tls_check_of(*state, "/");
	struct result result;

	check.timeout_ms = 300;
	result = probe("127.0.0.1", NGINX_PORT, &check);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_non_null(strstr(result.detail, "wrong version number"));
	expect("127.0.0.1", SILENT_PORT, &check, WEIR_PROBE_FAILED, "timeout after 300 ms");
	expect("127.0.0.1", 9, &check, WEIR_PROBE_FAILED, "connection refused");
}

// An unreadable CA file is not an error of the backends.
TEST(https_probe_without_its_ca_file_is_unknown) {
	struct weir_config_health_check check = tls_check_of(*state, "/");

	strcpy(check.ca_file, "/nonexistent/ca.pem");
	expect("127.0.0.1", TLS_PORT, &check, WEIR_PROBE_UNKNOWN,
		"cannot read CA certificates from /nonexistent/ca.pem");
}

// Checks of several services share a weir_health_curl, and run one after the other, repeatedly.
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

static void take_turn(
	uv_loop_t *loop, struct weir_health_curl *curl, const struct turn *turn, uint32_t number) {
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
	watch_lab_run(loop, probe_has_result, &result, 5000, turn->detail);
	if (result.outcome != turn->outcome || strcmp(result.detail, turn->detail) != 0) {
		fail_msg("turn %u: %d \"%s\" instead of %d \"%s\"", number, result.outcome,
			result.detail, turn->outcome, turn->detail);
	}
}

static void take_turns(const struct turn *turns, uint32_t count, uint32_t rounds) {
	struct weir_health_curl *curl;
	uv_loop_t loop;

	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	for (uint32_t i = 0; i < rounds * count; i++) {
		take_turn(&loop, curl, &turns[i % count], i);
	}
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
}

TEST(https_probes_with_two_ca_files_are_separate) {
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

// A check that does not verify needs no CA file, and does not affect checks that verify.
TEST(https_probes_that_do_not_verify_are_separate) {
	struct turn turns[] = {
		turn_of(*state, "absent.pem", false, WEIR_PROBE_PASSED, "HTTP 200"),
		turn_of(*state, "absent.pem", true, WEIR_PROBE_UNKNOWN, ""),
		turn_of(*state, "web.pem", false, WEIR_PROBE_PASSED, "HTTP 200"),
		// the server's own certificate as CA file
		turn_of(*state, "web.pem", true, WEIR_PROBE_PASSED, "HTTP 200"),
	};
	char detail[128];

	snprintf(detail, sizeof(detail), "cannot read CA certificates from %.60s",
		turns[1].check.ca_file);
	turns[1].detail = detail;
	take_turns(turns, 2, 5);
	take_turns(turns + 2, 2, 5);
}

static uint32_t count_descriptors(void) {
	DIR *directory = opendir("/proc/self/fd");
	uint32_t count = 0;

	assert_non_null(directory);
	while (readdir(directory) != NULL) {
		count++;
	}
	closedir(directory);
	return count;
}

// What is kept for each CA file is removed in time: backends can have a CA file each, and reloads
// can name new files.
TEST(https_probes_with_many_ca_files_keep_few_descriptors) {
	const uint32_t before = count_descriptors();
	const struct lab *lab = *state;
	struct weir_health_curl *curl;
	uv_loop_t loop;

	SHELL("cd %s && for i in $(seq 0 299); do ln ca.pem many-$i.pem; done", lab->dir);
	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	for (uint32_t i = 0; i < 310; i++) {
		char file[32];
		struct turn turn;

		snprintf(file, sizeof(file), "many-%u.pem", i % 300);
		turn = turn_of(lab, file, true, WEIR_PROBE_PASSED, "HTTP 200");
		take_turn(&loop, curl, &turn, i);
	}
	assert_true(count_descriptors() < before + 2 * 256 + 20);
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
}

// Many transfers at a time need a group each. Later starts remove the groups that are unused then,
// even if they make no group.
TEST(https_probes_with_many_ca_files_at_a_time_keep_few_descriptors) {
	const uint32_t before = count_descriptors();
	const struct lab *lab = *state;
	struct turn *turns = calloc(MANY, sizeof(*turns));
	struct result *results = calloc(MANY, sizeof(*results));
	struct weir_health_curl *curl;
	struct weir_health_http *http;
	struct rlimit limit, most;
	uv_loop_t loop;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	most = (struct rlimit){.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
	SHELL("cd %s && for i in $(seq %u); do ln ca.pem burst-$i.pem; done", lab->dir, MANY);
	uv_loop_init(&loop);
	assert_int_equal(weir_health_curl_create(&loop, &curl), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		const struct weir_probe_params params = {
			.address = watch_lab_address("127.0.0.1"),
			.port = TLS_PORT,
			.check = &turns[i].check,
			.done = probe_done,
			.context = &results[i],
		};
		char file[32];

		snprintf(file, sizeof(file), "burst-%u.pem", i + 1);
		turns[i] = turn_of(lab, file, true, WEIR_PROBE_PASSED, "HTTP 200");
		turns[i].check.timeout_ms = 20000;
		assert_int_equal(weir_health_http_start(curl, &params, &http), 0);
	}
	for (uint32_t i = 0; i < MANY; i++) {
		watch_lab_run(&loop, probe_has_result, &results[i], 30000, turns[i].detail);
	}
	for (uint32_t i = 0; i < MANY / 4; i++) {
		take_turn(&loop, curl, &turns[MANY - 1], i);
	}
	assert_true(count_descriptors() < before + 2 * 256 + 20);
	weir_health_curl_free(curl);
	watch_lab_close(&loop);
	setrlimit(RLIMIT_NOFILE, &limit);
	free(results);
	free(turns);
}

// The CA file of a service is not read again when another service has a different CA file.
TEST(https_probes_read_the_ca_file_once) {
	const struct turn turns[] = {
		turn_of(*state, "both.pem", true, WEIR_PROBE_PASSED, "HTTP 200"),
		turn_of(*state, "ca.pem", true, WEIR_PROBE_PASSED, "HTTP 200"),
	};
	int opened = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct inotify_event events[8]; // the kernel merges equal events in succession

	assert_return_code(opened, errno);
	for (int i = 0; i < 2; i++) {
		const char *file = turns[i].check.ca_file;

		assert_return_code(inotify_add_watch(opened, file, IN_OPEN), errno);
	}
	take_turns(turns, 2, 20);
	assert_int_equal(read(opened, events, sizeof(events)), 2 * sizeof(events[0]));
	close(opened);
}
