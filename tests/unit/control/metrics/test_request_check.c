// SPDX-License-Identifier: BSD-3-Clause
#include "request_check.h"
#include "test.h"

static const char *const names[] = {"lb-0.example.net", "lb"};

static bool allowed(const char *host) {
	return weir_request_host_allowed(host, names, 2);
}

TEST(addresses_and_known_names_are_allowed) {
	static const char *const hosts[] = {"127.0.0.1", "127.0.0.1:9479", "192.0.2.7:80", "[::1]",
		"[::1]:9479", "[2001:db8::1]:1", "localhost", "LocalHost:9479", "lb",
		"LB-0.example.NET:9479"};

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		if (!allowed(hosts[i])) {
			fail_msg("%s is refused", hosts[i]);
		}
	}
}

TEST(other_names_are_refused) {
	static const char *const hosts[] = {"", ":", ":80", "evil.example.net", "localhost.",
		"localhost.evil.example.net", "127.0.0.1.evil.example.net",
		"127.0.0.1:", "127.0.0.1:80x", "127.0.0.1:80:80", "127.1", "0x7f.0.0.1", "[", "[]",
		"[::1", "[::1]x", "[::1]:", "[127.0.0.1]", "[::1%lo]", "lb-0",
		"lb-0.example.net.evil", "lb:x", "lb-0.example.net@evil"};

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		if (allowed(hosts[i])) {
			fail_msg("%s is allowed", hosts[i]);
		}
	}
	assert_false(weir_request_host_allowed("lb", NULL, 0));
}

TEST(format_is_the_first_accepted_one) {
	assert_false(weir_request_wants_openmetrics(NULL));
	assert_false(weir_request_wants_openmetrics("*/*"));
	assert_false(weir_request_wants_openmetrics("text/plain;version=0.0.4"));
	assert_true(weir_request_wants_openmetrics(
		"application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5"));
	assert_true(weir_request_wants_openmetrics("application/OpenMetrics-Text"));
	assert_false(weir_request_wants_openmetrics(
		"text/plain;version=0.0.4,application/openmetrics-text;q=0.5"));
}
