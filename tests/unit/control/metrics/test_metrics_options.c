// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "metrics_options.h"
#include "test.h"

static int parse(const char *const *words, struct weir_metrics_options *ret, char *why) {
	int count = 0;

	while (words[count] != NULL) {
		count++;
	}
	return weir_metrics_options_parse(count, (char **)words, ret, why, 320);
}

TEST(options_listen_at_loopback_by_default) {
	static const char *const words[] = {"weir-metrics", NULL};
	struct weir_metrics_options options;
	const struct sockaddr_in *in = (const struct sockaddr_in *)&options.listen.address;
	char why[320];

	assert_int_equal(parse(words, &options, why), 0);
	assert_int_equal(in->sin_family, AF_INET);
	assert_int_equal(ntohs(in->sin_port), 9479);
	assert_int_equal(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
	assert_int_equal(options.host_count, 0);
	assert_false(options.ipvs_names);
}

TEST(options_accept_addresses_and_names) {
	static const char *const words[] = {"weir-metrics", "--listen", "[2001:db8::1]:80",
		"--host", "a.example.net", "--host=b", "--ipvs-names", NULL};
	struct weir_metrics_options options;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&options.listen.address;
	char why[320];

	assert_int_equal(parse(words, &options, why), 0);
	assert_int_equal(in6->sin6_family, AF_INET6);
	assert_int_equal(ntohs(in6->sin6_port), 80);
	assert_int_equal(options.host_count, 2);
	assert_string_equal(options.hosts[1], "b");
	assert_true(options.ipvs_names);
}

TEST(options_refuse_invalid_addresses) {
	static const char *const listens[] = {"", ":", "80", "127.0.0.1", "127.0.0.1:", ":80",
		"localhost:80", "127.0.0.1:http", "127.0.0.1:-1", "127.0.0.1:0", "127.0.0.1:65536",
		"127.0.0.1:94790", "::1:80", "[::1]", "[::1]:x", "[127.0.0.1]:80", "1.2.3.4.5:6"};
	struct weir_metrics_options options;
	char why[320];

	for (size_t i = 0; i < sizeof(listens) / sizeof(listens[0]); i++) {
		const char *const words[] = {"weir-metrics", "--listen", listens[i], NULL};

		if (parse(words, &options, why) == 0) {
			fail_msg("%s is taken", listens[i]);
		}
		assert_non_null(strstr(why, "use a value like 127.0.0.1:9479 or [::1]:9479"));
	}
	assert_true(parse((const char *const[]){"weir-metrics", "--host", "a:80", NULL}, &options,
			    why) < 0);
	assert_true(parse((const char *const[]){"weir-metrics", "extra", NULL}, &options, why) < 0);
}
