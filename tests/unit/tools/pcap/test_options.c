// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <string.h>

#include "options.h"
#include "test.h"

#define ARGS_MAX 24

static int read_line(const char *line, struct weir_pcap_options *options, char *why) {
	static char text[512]; // the parsed options refer to this text
	char *argv[ARGS_MAX + 1] = {0};
	int argc = 0;

	strcpy(text, line);
	for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
		assert_true(argc < ARGS_MAX);
		argv[argc++] = word;
	}
	return weir_pcap_options_parse(argc, argv, options, why, 256);
}

TEST(every_option_is_read) {
	struct weir_pcap_options options;
	char why[256];

	assert_int_equal(
		read_line("weir-pcap --json --drain web/b-1 c.json --down dns/b.2 in out "
			  "--in-port wan --out-port lan --worker 63 --mac 02:00:5E:10:00:0a",
			&options, why),
		0);
	assert_true(options.json);
	assert_false(options.help);
	assert_string_equal(options.config, "c.json");
	assert_string_equal(options.input, "in");
	assert_string_equal(options.output, "out");
	assert_string_equal(options.in_port, "wan");
	assert_string_equal(options.out_port, "lan");
	assert_int_equal(options.worker, 63);
	assert_true(options.has_mac);
	assert_memory_equal(options.mac, ((uint8_t[]){2, 0, 0x5e, 0x10, 0, 0x0a}), 6);
	assert_int_equal(options.changes, 2);
	assert_int_equal(options.change[0].kind, WEIR_PCAP_DRAIN);
	assert_string_equal(options.change[0].service, "web");
	assert_string_equal(options.change[0].backend, "b-1");
	assert_int_equal(options.change[1].kind, WEIR_PCAP_DOWN);
	assert_string_equal(options.change[1].backend, "b.2");
	assert_int_equal(options.change[1].packet, 1);
	assert_int_equal(read_line("weir-pcap c in out --down web/b@4294967295 "
				   "--maintenance web/c@2 --weight web/d=7@30",
				 &options, why),
		0);
	assert_string_equal(options.change[0].backend, "b");
	assert_int_equal(options.change[0].packet, UINT32_MAX);
	assert_int_equal(options.change[1].kind, WEIR_PCAP_MAINTENANCE);
	assert_string_equal(options.change[1].backend, "c");
	assert_int_equal(options.change[1].packet, 2);
	assert_string_equal(options.change[2].backend, "d");
	assert_int_equal(options.change[2].weight, 7);
	assert_int_equal(options.change[2].packet, 30);

	assert_int_equal(
		read_line("weir-pcap c - out --weight=web/b=0 --weight web/c=65535", &options, why),
		0);
	assert_false(options.json);
	assert_null(options.in_port);
	assert_false(options.has_mac);
	assert_int_equal(options.worker, 0);
	assert_string_equal(options.input, "-");
	assert_int_equal(options.change[0].kind, WEIR_PCAP_WEIGHT);
	assert_int_equal(options.change[0].weight, 0);
	assert_int_equal(options.change[1].weight, 65535);

	assert_int_equal(
		read_line("weir-pcap a b c --reload x@y.json@12 --reload z", &options, why), 0);
	assert_int_equal(options.change[0].kind, WEIR_PCAP_RELOAD);
	assert_int_equal(options.change[0].file_bytes, strlen("x@y.json"));
	assert_memory_equal(options.change[0].file, "x@y.json", strlen("x@y.json"));
	assert_int_equal(options.change[0].packet, 12);
	assert_int_equal(options.change[1].file_bytes, 1);
	assert_int_equal(options.change[1].packet, 1);

	assert_int_equal(read_line("weir-pcap --help", &options, why), 0);
	assert_true(options.help);
	assert_int_equal(read_line("weir-pcap --version x", &options, why), 0);
	assert_true(options.version);
}

TEST(invalid_usage_is_explained) {
	static const char *const cases[][2] = {
		{"weir-pcap", "0 arguments instead of 3; use CONFIG IN.pcap OUT.pcap"},
		{"weir-pcap a", "1 argument instead of 3"},
		{"weir-pcap a b", "2 arguments instead of 3"},
		{"weir-pcap a b c d", "4 arguments instead of 3"},
		{"weir-pcap a b -", "OUT.pcap cannot be -"},
		{"weir-pcap a b c --nonsense", "--nonsense"},
		{"weir-pcap a b c -x", "-x"},
		{"weir-pcap a b c --drain", "--drain needs a value; use --drain SERVICE/BACKEND"},
		{"weir-pcap a b c --worker 64", "use 0 to 63"},
		{"weir-pcap a b c --worker -1", "use 0 to 63"},
		{"weir-pcap a b c --worker 1x", "use 0 to 63"},
		{"weir-pcap a b c --mac 2", "is not a valid unicast MAC address"},
		{"weir-pcap a b c --mac 2:0:0:0:0:1", "is not a valid unicast MAC address"},
		{"weir-pcap a b c --mac 02:00:00:00:00:01x", "is not a valid unicast MAC address"},
		{"weir-pcap a b c --mac 03:00:00:00:00:01", "is not a valid unicast MAC address"},
		{"weir-pcap a b c --mac ff:ff:ff:ff:ff:ff", "is not a valid unicast MAC address"},
		{"weir-pcap a b c --mac 00:00:00:00:00:00", "is not a valid unicast MAC address"},
		{"weir-pcap a b c --mac +2:00:00:00:00:01", "is not a valid unicast MAC address"},
		{"weir-pcap a b c --drain web", "SERVICE/BACKEND"},
		{"weir-pcap a b c --drain /b", "SERVICE/BACKEND"},
		{"weir-pcap a b c --drain web/", "SERVICE/BACKEND"},
		{"weir-pcap a b c --down web/b@", "@N with N from 1"},
		{"weir-pcap a b c --down web/b@0", "@N with N from 1"},
		{"weir-pcap a b c --down web/b@1x", "@N with N from 1"},
		{"weir-pcap a b c --down web/b@4294967296", "@N with N from 1"},
		{"weir-pcap a b c --down web@1/b", "@N with N from 1"},
		{"weir-pcap a b c --reload weir.json@", "@N with N from 1"},
		{"weir-pcap a b c --reload weir@home.json", "@N with N from 1"},
		{"weir-pcap a b c --reload @3",
			"--reload: \"@3\" contains no file name; use CONFIG[@N]"},
		{"weir-pcap a b c --weight web/b@1=7", "@N with N from 1"},
		{"weir-pcap a b c --weight web/b=123456789@1", "N from 0 to 65535"},
		{"weir-pcap a b c --weight web/b@1", "N from 0 to 65535"},
		{"weir-pcap a b c --weight web/b", "N from 0 to 65535"},
		{"weir-pcap a b c --weight web/b=", "N from 0 to 65535"},
		{"weir-pcap a b c --weight web/b=-1", "N from 0 to 65535"},
		{"weir-pcap a b c --weight web/b=65536", "N from 0 to 65535"},
		{"weir-pcap a b c --weight web/b=99999999999999999999", "N from 0 to 65535"},
		{"weir-pcap a b c --weight web/b=1x", "N from 0 to 65535"},
		{"weir-pcap a b c --weight web=1/2", "N from 0 to 65535"},
		{"weir-pcap a b c --weight web=1", "SERVICE/BACKEND=N"},
		{"weir-pcap a b c --drain "
		 "w23456789012345678901234567890123456789012345678901234567890123456789/b",
			"SERVICE/BACKEND"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_pcap_options options = {.config = "untouched"};
		char why[256] = "";

		assert_int_equal(read_line(cases[i][0], &options, why), -EINVAL);
		if (strstr(why, cases[i][1]) == NULL) {
			fail_msg("%s: \"%s\" does not say \"%s\"", cases[i][0], why, cases[i][1]);
		}
		assert_string_equal(options.config, "untouched");
	}
}

TEST(too_many_changes_are_refused) {
	static struct weir_pcap_options options;
	char *argv[WEIR_PCAP_CHANGES_MAX + 8] = {"weir-pcap", "a", "b", "c"};
	char why[256];
	int argc = 4;

	while (argc < 4 + WEIR_PCAP_CHANGES_MAX) {
		argv[argc++] = "--drain=web/b";
	}
	assert_int_equal(weir_pcap_options_parse(argc, argv, &options, why, sizeof(why)), 0);
	assert_int_equal(options.changes, WEIR_PCAP_CHANGES_MAX);
	argv[argc++] = "--drain=web/b";
	assert_int_equal(weir_pcap_options_parse(argc, argv, &options, why, sizeof(why)), -EINVAL);
}
