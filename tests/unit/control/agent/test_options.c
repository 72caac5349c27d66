// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "help_text.h"
#include "options.h"
#include "test.h"

#define WORDS_MAX 200

static int parse(const char *line, struct weir_agent_options *ret, char *why, size_t bytes) {
	static char copy[4096]; // the parsed options point into this memory
	char *words[WORDS_MAX + 1] = {"weir-agent"};
	int count = 1;

	assert_true(strlen(line) < sizeof(copy));
	strcpy(copy, line);
	for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
		assert_true(count < WORDS_MAX);
		words[count++] = word;
	}
	return weir_agent_options_parse(count, words, ret, why, bytes);
}

TEST(options_of_decap) {
	struct weir_agent_options options;
	char why[256] = "";

	assert_int_equal(parse("decap eth0 --address 10.0.0.11 --address 2001:db8::1 "
			       "--from 10.0.0.77/24 --mode skb --stats",
				 &options, why, sizeof(why)),
		0);
	assert_int_equal(options.command, WEIR_AGENT_DECAP);
	assert_string_equal(options.interface, "eth0");
	assert_int_equal(options.address_count, 2);
	assert_int_equal(options.addresses[0].family, 4);
	assert_int_equal(options.addresses[1].family, 6);
	assert_int_equal(options.source_count, 1);
	assert_int_equal(options.sources[0].bits, 24);
	assert_int_equal(options.sources[0].address.bytes[2], 0);
	assert_int_equal(options.sources[0].address.bytes[3], 0);
	assert_int_equal(options.mode, WEIR_AGENT_MODE_SKB);
	assert_true(options.stats);
	assert_false(options.detach);
	assert_int_equal(options.forwardings, 0);
	assert_int_equal(options.gue_port, 6080);
	assert_int_equal(options.gre_key, 0);
}

TEST(options_of_decap_select_the_forwarding_modes) {
	struct weir_agent_options options;
	char why[256] = "";

	assert_int_equal(parse("decap eth0 --forwarding gue --forwarding gre --gue-port 6081 "
			       "--gre-key 4294967295",
				 &options, why, sizeof(why)),
		0);
	assert_int_equal(options.forwardings, weir_agent_forwarding(WEIR_FORWARDING_GUE) |
						      weir_agent_forwarding(WEIR_FORWARDING_GRE));
	assert_int_equal(options.gue_port, 6081);
	assert_int_equal(options.gre_key, UINT32_MAX);
	assert_int_equal(
		parse("doctor eth0 --forwarding l2 --gue-port 7000", &options, why, sizeof(why)),
		0);
	assert_int_equal(options.forwardings, weir_agent_forwarding(WEIR_FORWARDING_L2));
	assert_int_equal(options.gue_port, 7000);
}

TEST(options_of_capacity) {
	struct weir_agent_options options;
	char why[256];

	assert_int_equal(parse("capacity --measure --json --cgroup /a --run-dir /b", &options, why,
				 sizeof(why)),
		0);
	assert_int_equal(options.command, WEIR_AGENT_CAPACITY);
	assert_true(options.measure && options.json);
	assert_string_equal(options.cgroups[0], "/a");
	assert_string_equal(options.run_dir, "/b");
	assert_int_equal(parse("capacity eth0", &options, why, sizeof(why)), -EINVAL);
	assert_int_equal(parse("status --measure", &options, why, sizeof(why)), -EINVAL);
}

TEST(options_of_doctor) {
	struct weir_agent_options options;
	char why[256] = "";

	assert_int_equal(parse("doctor eth0 --vip 198.51.100.10 --vip 2001:db8:f::10 --port 80 "
			       "--key-file k --run-dir /run/b --json",
				 &options, why, sizeof(why)),
		0);
	assert_int_equal(options.command, WEIR_AGENT_DOCTOR);
	assert_string_equal(options.interface, "eth0");
	assert_int_equal(options.vip_count, 2);
	assert_int_equal(options.vips[1].family, 6);
	assert_int_equal(options.port_count, 1);
	assert_string_equal(options.key_file, "k");
	assert_true(options.json);
	assert_int_equal(parse("doctor", &options, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "INTERFACE is missing; use weir-agent doctor INTERFACE");
	assert_int_equal(parse("doctor eth0 --vip web", &options, why, sizeof(why)), -EINVAL);
	assert_int_equal(parse("decap eth0 --vip 10.0.0.1", &options, why, sizeof(why)), -EINVAL);
}

TEST(options_accept_the_interface_in_both_forms) {
	struct weir_agent_options options;
	char why[256] = "";

	assert_int_equal(parse("decap --interface eth0", &options, why, sizeof(why)), 0);
	assert_string_equal(options.interface, "eth0");
	assert_int_equal(parse("--interface eth1 stats --json", &options, why, sizeof(why)), 0);
	assert_int_equal(options.command, WEIR_AGENT_STATS);
	assert_string_equal(options.interface, "eth1");
	assert_true(options.json);
}

TEST(options_for_help_need_no_others) {
	struct weir_agent_options options;
	char why[256] = "", help[WEIR_HELP_BYTES];

	assert_int_equal(parse("--help", &options, why, sizeof(why)), 0);
	assert_true(options.help);
	assert_int_equal(options.help_of, -1);
	assert_int_equal(parse("decap --version", &options, why, sizeof(why)), 0);
	assert_true(options.version);
	assert_non_null(strstr(weir_agent_help(-1, help, sizeof(help)), "Exit status"));
}

TEST(help_of_a_command_has_its_own_options) {
	struct weir_agent_options options;
	char why[256] = "", help[WEIR_HELP_BYTES];

	assert_int_equal(parse("decap --help", &options, why, sizeof(why)), 0);
	assert_int_equal(options.help_of, WEIR_AGENT_DECAP);
	weir_agent_help(WEIR_AGENT_DECAP, help, sizeof(help));
	assert_non_null(
		strstr(help, "Usage: weir-agent decap [--interface] INTERFACE [OPTION]...\n\n"));
	assert_non_null(strstr(help, "--from PREFIX"));
	assert_non_null(strstr(help, "Example: weir-agent decap eth0 --from"));
	assert_null(strstr(help, "--orca-url"));
	for (int command = WEIR_AGENT_DECAP; command <= WEIR_AGENT_DOCTOR; command++) {
		assert_non_null(strstr(weir_agent_help(command, help, sizeof(help)), "Example: "));
		assert_null(strstr(help, "Examples: "));
	}
	assert_int_equal(parse("nosuch --help", &options, why, sizeof(why)), 0);
	assert_int_equal(options.help_of, -1);
}

TEST(options_of_run) {
	struct weir_agent_options options;
	char why[256] = "";

	assert_int_equal(parse("run --port 80 -p 443 --cgroup /sys/fs/cgroup/a --interval 90s "
			       "--max-active-flows 2k --orca-url http://[::1]:8/m --user www",
				 &options, why, sizeof(why)),
		0);
	assert_int_equal(options.command, WEIR_AGENT_RUN);
	assert_int_equal(options.port_count, 2);
	assert_int_equal(options.ports[1], 443);
	assert_int_equal(options.udp_port, 4777);
	assert_int_equal(options.interval_ms, 90000);
	assert_int_equal(options.max_active_flows, 2000);
	assert_int_equal(options.orca_interval_ms, 1000);
	assert_string_equal(options.cgroups[0], "/sys/fs/cgroup/a");
	assert_string_equal(options.orca_url, "http://[::1]:8/m");
	assert_string_equal(options.key_file, "/etc/weir/agent.keys");
	assert_string_equal(options.run_dir, "/run/weir-agent");
	assert_null(options.warm_up);
}

TEST(options_name_ports_of_both_protocols) {
	struct weir_agent_options options;
	char why[256] = "";

	assert_int_equal(parse("run --port 80 --port 53/udp --port 53/tcp -p 80/tcp -p 53/udp "
			       "--grace 500ms",
				 &options, why, sizeof(why)),
		0);
	assert_int_equal(options.port_count, 2); // duplicate ports are removed
	assert_int_equal(options.ports[0], 80);
	assert_int_equal(options.ports[1], 53);
	assert_int_equal(options.port_udp_count, 1);
	assert_int_equal(options.ports_udp[0], 53);
	assert_int_equal(options.grace_ms, 500);
	for (const char *const *word = (const char *const[]){"0", "65536/udp", "53/sctp", "53/",
		     "53udp", "udp", "/udp", "-1", NULL};
		*word != NULL; word++) {
		char line[64];

		snprintf(line, sizeof(line), "run --port %s", *word);
		assert_int_equal(parse(line, &options, why, sizeof(why)), -EINVAL);
		assert_non_null(strstr(why, "is not a port; use 1 to 65535, with /udp for UDP"));
	}
	assert_int_equal(
		parse("run --allow-steal --port 53/udp", &options, why, sizeof(why)), -EINVAL);
	assert_int_equal(parse("run --grace 11m", &options, why, sizeof(why)), -EINVAL);
}

TEST(options_of_the_local_commands) {
	struct weir_agent_options options;
	char why[256] = "";

	assert_int_equal(
		parse("lame-duck --interval 0 --then true", &options, why, sizeof(why)), 0);
	assert_int_equal(options.command, WEIR_AGENT_LAME_DUCK);
	assert_int_equal(options.interval_ms, 0);
	assert_string_equal(options.then, "true");
	assert_int_equal(parse("lame-duck", &options, why, sizeof(why)), 0);
	assert_int_equal(options.interval_ms, 30000);
	assert_int_equal(parse("ready --run-dir /run/b", &options, why, sizeof(why)), 0);
	assert_int_equal(options.command, WEIR_AGENT_READY);
	assert_string_equal(options.run_dir, "/run/b");
	assert_int_equal(parse("status --json", &options, why, sizeof(why)), 0);
	assert_true(options.json);
	assert_int_equal(parse("key generate --id 9", &options, why, sizeof(why)), 0);
	assert_int_equal(options.command, WEIR_AGENT_KEY);
	assert_int_equal(options.key_id, 9);
	assert_int_equal(parse("key generate --key-file k", &options, why, sizeof(why)), 0);
	assert_int_equal(options.key_id, 0);
	assert_string_equal(options.key_file, "k");
}

TEST(options_invalid_ones_are_named) {
	static const struct {
		const char *line, *why;
	} cases[] = {
		{"", "no command is given; use decap, stats, run, lame-duck, ready, announce, "
		     "exec, status, key, doctor or capacity"},
		{"encap eth0", "unknown command \"encap\"; did you mean \"decap\"?"},
		{"decap", "INTERFACE is missing; use weir-agent decap INTERFACE"},
		{"decap eth0 eth1", "\"eth1\" is a second interface, after eth0; use one"},
		{"decap --interface eth0 eth1", "\"eth1\" is a second interface, after eth0"},
		{"decap a-very-long-name0", "is not an interface name; use 1 to 15 characters"},
		{"decap eth0 --address 10.0.0",
			"--address: \"10.0.0\" is not an IPv4 or IPv6 address; use"},
		{"decap eth0 --from 10.0.0.0/33",
			"--from: \"10.0.0.0/33\" is not a prefix; use a prefix such as"},
		{"decap eth0 --mode generic",
			"--mode: \"generic\" is not known; use native or skb"},
		{"decap eth0 --forwarding tunnel", "--forwarding: \"tunnel\" is not a forwarding "
						   "mode; use ipip, gue or gre"},
		{"doctor eth0 --forwarding tunnel", "--forwarding: \"tunnel\" is not a forwarding "
						    "mode; use ipip, l2, gue or gre"},
		{"decap eth0 --forwarding l2", "do not need weir-agent decap"},
		{"decap eth0 --forwarding ipip --gre-key 7", "--gre-key needs --forwarding gre"},
		{"decap eth0 --gre-key 0", "is out of range; use 1 to 4294967295"},
		{"decap eth0 --gue-port 65536", "is out of range; use 1 to 65535"},
		{"doctor eth0 --gre-key 7", "--gre-key is not an option of doctor; leave it out"},
		{"decap eth0 --speed", "unknown option --speed"},
		{"decap eth0 --address", "--address needs a value; use --address ADDRESS"},
		{"decap eth0 --json", "--json is not an option of decap; leave it out"},
		{"stats eth0 --detach", "--detach is not an option of stats; leave it out"},
		{"stats eth0 --mode skb", "--mode is not an option of stats; leave it out"},
		{"stats eth0 --from ::", "--from is not an option of stats"},
		{"stats eth0 --address ::", "--address is not an option of stats"},
		{"stats eth0 --stats", "--stats is not an option of stats"},
		{"run eth0", "unexpected \"eth0\"; leave it out"},
		{"run --port 0", "--port: \"0\" is not a port; use 1 to 65535"},
		{"run --port 65536", "is not a port"},
		{"run --port 80x", "is not a port"},
		{"run --cgroup nginx.service", "is not an absolute path; use a path such as"},
		{"run --then true", "--then is not an option of run; leave it out"},
		{"run --interface eth0", "--interface is not an option of run"},
		{"ready --json", "--json is not an option of ready"},
		{"ready now", "unexpected \"now\"; leave it out"},
		{"key", "use weir-agent key generate"},
		{"key make", "use weir-agent key generate"},
		{"key generate one", "unexpected \"one\"; leave it out"},
		{"key generate --id 0", "--id: \"0\" is out of range; use 1 to 65535"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_agent_options options = {.address_count = 77};
		char why[256] = "";

		if (parse(cases[i].line, &options, why, sizeof(why)) != -EINVAL ||
			strstr(why, cases[i].why) == NULL) {
			fail_msg("\"%s\": \"%s\"", cases[i].line, why);
		}
		assert_int_equal(options.address_count, 77);
	}
}

TEST(options_invalid_ones_name_the_help_of_their_command) {
	static const struct {
		const char *line, *help;
	} cases[] = {
		{"run --port 0", "weir-agent run --help"},
		{"key make", "weir-agent key --help"},
		{"decap eth0 --speed", "weir-agent decap --help"},
		{"encap eth0", "weir-agent --help"},
		{"", "weir-agent --help"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_agent_options options = {.help_of = 77};
		char why[256] = "", help[64];

		assert_int_equal(parse(cases[i].line, &options, why, sizeof(why)), -EINVAL);
		assert_string_equal(
			weir_agent_help_words(options.help_of, help, sizeof(help)), cases[i].help);
	}
}

TEST(options_limit_their_lists) {
	struct weir_agent_options options;
	char line[4096] = "decap eth0", why[256] = "";

	for (int i = 0; i < WEIR_AGENT_LIST_MAX; i++) {
		strcat(line, " --from 10.0.0.1");
	}
	assert_int_equal(parse(line, &options, why, sizeof(why)), 0);
	strcat(line, " --from 10.0.0.1");
	assert_int_equal(parse(line, &options, why, sizeof(why)), -EINVAL);
	assert_string_equal(
		why, "--from: \"10.0.0.1\" does not fit into the source list; use at most 64");
}

TEST(prefix_parse_clears_the_rest) {
	static const uint8_t expected[16] = {0x20, 0x01, 0x0d, 0xb8, 0xff, 0xfe};
	struct weir_prefix prefix;

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

TEST(prefix_parse_refuses) {
	static const char *const cases[] = {"", "/", "/24", "10.0.0.0/", "10.0.0.0/-1",
		"10.0.0.0/ 8", "10.0.0.0/8x", "10.0.0.0/33", "::/129", "eth0/8", "10.0.0.0/8/8",
		"1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee:ffff/64"};
	struct weir_prefix prefix;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (weir_prefix_parse(cases[i], &prefix) != -EINVAL) {
			fail_msg("\"%s\" was taken", cases[i]);
		}
	}
}

TEST(options_of_services) {
	struct weir_agent_options options;
	char why[256] = "";

	assert_int_equal(parse("run --allow-user nginx=web --service web=80,443 --port 80 "
			       "--service dns=53,53/udp --allow-user 77=dns",
				 &options, why, sizeof(why)),
		0);
	assert_int_equal(options.services.count, 2);
	assert_string_equal(options.services.service[0].user, "nginx");
	assert_string_equal(options.services.service[1].user, "77");
	// Each port of a service is added to the ports of --port, without duplicates
	assert_int_equal(options.port_count, 3);
	assert_int_equal(options.ports[2], 53);
	assert_int_equal(options.port_udp_count, 1);
	assert_int_equal(parse("run --allow-user nginx=web", &options, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "--allow-user: \"nginx=web\" names an unknown service; add the "
				 "service with --service NAME=PORT");
	assert_int_equal(parse("run --service web", &options, why, sizeof(why)), -EINVAL);
	assert_string_equal(
		why, "--service: \"web\" has no ports; add ports, as in --service web=80,443");
	assert_int_equal(
		parse("announce ready --service web=80", &options, why, sizeof(why)), -EINVAL);
	assert_string_equal(
		why, "--service: ports are for weir-agent run only; use --service NAME");
	assert_int_equal(parse("status --service web", &options, why, sizeof(why)), -EINVAL);
}

TEST(options_of_announce) {
	struct weir_agent_options options;
	char why[256] = "";

	assert_int_equal(
		parse("announce lame-duck --service web --run-dir /r", &options, why, sizeof(why)),
		0);
	assert_int_equal(options.command, WEIR_AGENT_ANNOUNCE);
	assert_string_equal(options.word, "lame-duck");
	assert_string_equal(options.service, "web");
	// "exec" is a command only as the first argument that is no option
	assert_int_equal(parse("announce --service exec -- down", &options, why, sizeof(why)), 0);
	assert_string_equal(options.word, "down");
	assert_string_equal(options.service, "exec");
	assert_int_equal(parse("announce", &options, why, sizeof(why)), -EINVAL);
	assert_int_equal(parse("announce ready down", &options, why, sizeof(why)), -EINVAL);
}

TEST(options_of_exec) {
	struct weir_agent_options options;
	char why[256] = "";

	assert_int_equal(
		parse("exec --delay 2 --drain-timeout 1m --stop-signal QUIT --starting -- "
		      "nginx -g --help -- 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21",
			&options, why, sizeof(why)),
		0);
	assert_int_equal(options.command, WEIR_AGENT_EXEC);
	assert_null(options.service);
	assert_int_equal(options.delay_ms, 2000);
	assert_int_equal(options.drain_timeout_ms, 60000);
	assert_int_equal(options.stop_signal, SIGQUIT);
	assert_true(options.starting);
	assert_false(options.help);
	assert_string_equal(options.program[0], "nginx");
	assert_string_equal(options.program[2], "--help");
	assert_string_equal(options.program[24], "21");
	assert_null(options.program[25]);
	assert_int_equal(parse("--service web exec -- nginx", &options, why, sizeof(why)), 0);
	assert_string_equal(options.program[0], "nginx");
	assert_int_equal(parse("exec -- nginx", &options, why, sizeof(why)), 0);
	assert_int_equal(options.stop_signal, SIGTERM);
	assert_int_equal(options.drain_timeout_ms, 30000);
	for (int i = 0; i < 3; i++) {
		static const char *const bad[] = {"exec", "exec --", "exec nginx"};

		assert_int_equal(parse(bad[i], &options, why, sizeof(why)), -EINVAL);
	}
	assert_int_equal(parse("exec nginx -- x", &options, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "unexpected \"nginx\"; put \"--\" before the command");
}
