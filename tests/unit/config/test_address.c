// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <errno.h>

#include "config_lab.h"

TEST(address_parse_and_format_round_trip) {
	static const struct {
		const char *text, *formatted;
		uint8_t family;
	} cases[] = {
		{"192.0.2.1", "192.0.2.1", 4},
		{"0.0.0.0", "0.0.0.0", 4},
		{"255.255.255.255", "255.255.255.255", 4},
		{"2001:db8::1", "2001:db8::1", 6},
		{"2001:0DB8:0:0::1", "2001:db8::1", 6},
		{"::", "::", 6},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.1", 6},
		{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
			"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 6},
	};
	char buffer[INET6_ADDRSTRLEN];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_address address;

		assert_int_equal(weir_address_parse(cases[i].text, &address), 0);
		assert_int_equal(address.family, cases[i].family);
		assert_string_equal(
			weir_address_format(&address, buffer, sizeof(buffer)), cases[i].formatted);
	}
}

TEST(address_parse_pads_ipv4_with_zeros) {
	static const uint8_t expected[16] = {192, 0, 2, 1};
	struct weir_address address;

	memset(&address, 0xaa, sizeof(address));
	assert_int_equal(weir_address_parse("192.0.2.1", &address), 0);
	assert_memory_equal(address.bytes, expected, sizeof(expected));
}

TEST(address_parse_refuses_and_leaves_output_unchanged) {
	static const char *const bad[] = {"", " ", "192.0.2", "192.0.2.256", "192.0.2.1/24",
		"192.0.2.01", " 192.0.2.1", "192.0.2.1 ", "0x7f.0.0.1", "2001:db8::1%eth0",
		"2001:db8:::1", "[2001:db8::1]", "12345::", "localhost"};
	struct weir_address address = {.family = 77};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(weir_address_parse(bad[i], &address), -EINVAL);
		assert_int_equal(address.family, 77);
	}
}

TEST(address_format_without_address_or_space) {
	const struct weir_address none = {0};
	struct weir_address address;
	char buffer[8];

	assert_string_equal(weir_address_format(&none, buffer, sizeof(buffer)), "-");
	assert_int_equal(weir_address_parse("2001:db8::1234", &address), 0);
	assert_string_equal(weir_address_format(&address, buffer, sizeof(buffer)), "-");
	assert_string_equal(weir_address_format(&address, buffer, 0), "");
}
