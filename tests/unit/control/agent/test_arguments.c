// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "arguments.h"

#define WORDS_MAX 200

static int parse(const char *line, struct weir_agent_arguments *ret, char *why, size_t bytes) {
	static char copy[4096]; // arguments point into it
	char *words[WORDS_MAX + 1] = {"weir-agent"};
	int count = 1;

	assert_true(strlen(line) < sizeof(copy));
	strcpy(copy, line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
		assert_true(count < WORDS_MAX);
		words[count++] = word;
	}
	return weir_agent_arguments_parse(count, words, ret, why, bytes);
}

static void arguments_of_decap(void **state) {
	struct weir_agent_arguments arguments;
	char why[256] = "";

	(void)state;
	assert_int_equal(parse("decap eth0 --address 10.0.0.11 --address 2001:db8::1 "
			       "--from 10.0.0.77/24 --mode skb --stats",
				 &arguments, why, sizeof(why)),
		0);
	assert_int_equal(arguments.command, WEIR_AGENT_DECAP);
	assert_string_equal(arguments.interface, "eth0");
	assert_int_equal(arguments.address_count, 2);
	assert_int_equal(arguments.addresses[0].family, 4);
	assert_int_equal(arguments.addresses[1].family, 6);
	assert_int_equal(arguments.source_count, 1);
	assert_int_equal(arguments.sources[0].bits, 24);
	assert_int_equal(arguments.sources[0].address.bytes[2], 0);
	assert_int_equal(arguments.sources[0].address.bytes[3], 0);
	assert_int_equal(arguments.mode, WEIR_AGENT_MODE_SKB);
	assert_true(arguments.stats);
	assert_false(arguments.detach);
}

static void arguments_take_the_interface_either_way(void **state) {
	struct weir_agent_arguments arguments;
	char why[256] = "";

	(void)state;
	assert_int_equal(parse("decap --interface eth0", &arguments, why, sizeof(why)), 0);
	assert_string_equal(arguments.interface, "eth0");
	assert_int_equal(parse("--interface eth1 stats --json", &arguments, why, sizeof(why)), 0);
	assert_int_equal(arguments.command, WEIR_AGENT_STATS);
	assert_string_equal(arguments.interface, "eth1");
	assert_true(arguments.json);
}

static void arguments_for_help_need_nothing_else(void **state) {
	struct weir_agent_arguments arguments;
	char why[256] = "";

	(void)state;
	assert_int_equal(parse("--help", &arguments, why, sizeof(why)), 0);
	assert_true(arguments.help);
	assert_int_equal(parse("decap --version", &arguments, why, sizeof(why)), 0);
	assert_true(arguments.version);
	assert_non_null(strstr(weir_agent_arguments_usage(), "exit status"));
}

static void arguments_that_are_wrong_are_named(void **state) {
	static const struct {
		const char *line, *why;
	} cases[] = {
		{"", "no command"},
		{"encap eth0", "unknown command \"encap\""},
		{"decap", "which interface?"},
		{"decap eth0 eth1", "one interface, not two: eth0, eth1"},
		{"decap --interface eth0 eth1", "one interface, not two: eth0, eth1"},
		{"decap a-very-long-name0", "cannot be the name of an interface"},
		{"decap eth0 --address 10.0.0", "\"10.0.0\" is no IPv4 or IPv6 address"},
		{"decap eth0 --from 10.0.0.0/33", "\"10.0.0.0/33\" is no prefix"},
		{"decap eth0 --mode generic", "native or skb, not \"generic\""},
		{"decap eth0 --speed", "unknown option \"--speed\""},
		{"decap eth0 --address", "no value after \"--address\""},
		{"decap eth0 --json", "--json is an option of stats"},
		{"stats eth0 --detach", "stats takes --json and no other option"},
		{"stats eth0 --mode skb", "stats takes --json and no other option"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_agent_arguments arguments = {.address_count = 77};
		char why[256] = "";

		if (parse(cases[i].line, &arguments, why, sizeof(why)) != -EINVAL ||
			!strstr(why, cases[i].why)) {
			fail_msg("\"%s\": \"%s\"", cases[i].line, why);
		}
		assert_int_equal(arguments.address_count, 77);
	}
}

static void arguments_bound_their_lists(void **state) {
	struct weir_agent_arguments arguments;
	char line[4096] = "decap eth0", why[256] = "";

	(void)state;
	for (int i = 0; i < WEIR_AGENT_LIST_MAX; i++) {
		strcat(line, " --from 10.0.0.1");
	}
	assert_int_equal(parse(line, &arguments, why, sizeof(why)), 0);
	strcat(line, " --from 10.0.0.1");
	assert_int_equal(parse(line, &arguments, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "at most 64 --from");
}

static void prefix_parse_clears_the_rest(void **state) {
	static const uint8_t expected[16] = {0x20, 0x01, 0x0d, 0xb8, 0xff, 0xfe};
	struct weir_prefix prefix;

	(void)state;
	assert_int_equal(weir_prefix_parse("2001:db8:ffff:ffff::1/47", &prefix), 0);
	assert_int_equal(prefix.bits, 47);
	assert_memory_equal(prefix.address.bytes, expected, 16);
	assert_int_equal(weir_prefix_parse("10.1.2.3", &prefix), 0);
	assert_int_equal(prefix.bits, 32);
	assert_int_equal(prefix.address.bytes[3], 3);
	assert_int_equal(weir_prefix_parse("10.1.2.3/0", &prefix), 0);
	assert_int_equal(prefix.bits, 0);
	assert_int_equal(prefix.address.bytes[0], 0);
}

static void prefix_parse_refuses(void **state) {
	static const char *const cases[] = {"", "/", "/24", "10.0.0.0/", "10.0.0.0/-1",
		"10.0.0.0/ 8", "10.0.0.0/8x", "10.0.0.0/33", "::/129", "eth0/8", "10.0.0.0/8/8",
		"1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee:ffff/64"};
	struct weir_prefix prefix;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (weir_prefix_parse(cases[i], &prefix) != -EINVAL) {
			fail_msg("\"%s\" was taken", cases[i]);
		}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_of_decap),
		cmocka_unit_test(arguments_take_the_interface_either_way),
		cmocka_unit_test(arguments_for_help_need_nothing_else),
		cmocka_unit_test(arguments_that_are_wrong_are_named),
		cmocka_unit_test(arguments_bound_their_lists),
		cmocka_unit_test(prefix_parse_clears_the_rest),
		cmocka_unit_test(prefix_parse_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
