// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "bench_lab.h"
#include "help_text.h"
#include "test.h"

TEST(defaults) {
	struct weir_bench_options o;
	char why[256] = "";

	assert_int_equal(bench_lab_options("weir-bench", &o, why), 0);
	assert_int_equal(o.kind, WEIR_BENCH_CASE_ESTABLISHED);
	assert_int_equal(o.order, WEIR_BENCH_ORDER_UNIFORM);
	assert_int_equal(o.headers, WEIR_BENCH_HEADERS_WARM);
	assert_int_equal(o.policy, WEIR_POLICY_MAGLEV);
	assert_int_equal(o.flows, 1000000);
	assert_int_equal(o.table_flows, 1048576);
	assert_int_equal(o.backends, 100);
	assert_int_equal(o.services, 1);
	assert_int_equal(o.family, 4);
	assert_int_equal(o.protocol, IPPROTO_TCP);
	assert_int_equal(o.packet_bytes, 60);
	assert_int_equal(o.burst, 64);
	assert_int_equal(o.core, -1);
	assert_true(o.new_percent == 0);
	assert_false(o.json);
}

TEST(defaults_of_each_case) {
	struct weir_bench_options o;
	char why[256] = "";

	assert_int_equal(bench_lab_options("weir-bench --case new --flows 1000", &o, why), 0);
	assert_int_equal(o.table_flows, 1000);
	assert_true(o.new_percent == 100);
	assert_int_equal(bench_lab_options("weir-bench --case syn-flood --flows 2M", &o, why), 0);
	assert_int_equal(o.table_flows, 2000000);
	assert_true(o.new_percent == 50);
	assert_int_equal(bench_lab_options("weir-bench --case mixed --flows 2M", &o, why), 0);
	assert_int_equal(o.table_flows, 2500000);
	assert_true(o.new_percent == 5);
	assert_int_equal(o.packets_per_flow, 10);
	assert_int_equal(o.closing_ms, 100);
	assert_int_equal(
		bench_lab_options("weir-bench --flows 1k --packets-per-flow 7", &o, why), 0);
	assert_int_equal(o.packets, 7000);
	assert_int_equal(bench_lab_options("weir-bench --family 6 --vlan", &o, why), 0);
	assert_int_equal(o.packet_bytes, 78);
	assert_int_equal(o.table_flows, 1000000);
	assert_int_equal(weir_bench_flows_per_worker(&o), 4000000);
	assert_int_equal(bench_lab_options("weir-bench --family 6 --flows 10", &o, why), 0);
	assert_int_equal(o.table_flows, 262144);
	assert_int_equal(weir_bench_flows_per_worker(&o), 1048576);
}

TEST(every_option_is_read) {
	struct weir_bench_options o;
	char why[256] = "";

	assert_int_equal(
		bench_lab_options("weir-bench --case mixed --flows 12k --table-flows 20000 --order "
				  "zipf --zipf-exponent 1.25 --new-percent 0.5 --packets-per-flow "
				  "3 --publications 100 --family 6 --vlan --packet-bytes 512 "
				  "--policy fair-share --forwarding gue --backends 64 "
				  "--services 8 --slots 251 --half-open-percent 30 --bucketed",
			&o, why),
		0);
	assert_int_equal(o.kind, WEIR_BENCH_CASE_MIXED);
	assert_int_equal(o.flows, 12000);
	assert_int_equal(o.forwarding, WEIR_FORWARDING_GUE);
	assert_int_equal(o.table_flows, 20000);
	assert_int_equal(o.order, WEIR_BENCH_ORDER_ZIPF);
	assert_true(o.zipf_exponent == 1.25 && o.new_percent == 0.5);
	assert_int_equal(o.packets_per_flow, 3);
	assert_int_equal(o.publications, 100);
	assert_int_equal(o.family, 6);
	assert_true(o.vlan && o.bucketed);
	assert_int_equal(o.packet_bytes, 512);
	assert_int_equal(o.policy, WEIR_POLICY_FAIR_SHARE);
	assert_int_equal(o.backends, 64);
	assert_int_equal(o.services, 8);
	assert_int_equal(o.slots, 251);
	assert_int_equal(o.half_open_percent, 30);
	assert_int_equal(
		bench_lab_options("weir-bench --protocol=udp --syn-seen-ms 10 --closing-ms=20 "
				  "--headers cold --packets 1.5M --seconds 0.25 --runs 3 --repeats "
				  "4 --burst 32 --buffers 128 --core 1 --no-huge --seed 77 --json",
			&o, why),
		0);
	assert_int_equal(o.protocol, IPPROTO_UDP);
	assert_int_equal(o.syn_seen_ms, 10);
	assert_int_equal(o.closing_ms, 20);
	assert_int_equal(o.headers, WEIR_BENCH_HEADERS_COLD);
	assert_int_equal(o.packets, 1500000);
	assert_true(o.seconds == 0.25);
	assert_int_equal(o.runs, 3);
	assert_int_equal(o.repeats, 4);
	assert_int_equal(o.burst, 32);
	assert_int_equal(o.buffers, 128);
	assert_int_equal(o.core, 1);
	assert_int_equal(o.pages, WEIR_BENCH_PAGES_SMALL);
	assert_int_equal(o.seed, 77);
	assert_true(o.json);
	assert_int_equal(bench_lab_options("weir-bench --huge-pages", &o, why), 0);
	assert_int_equal(o.pages, WEIR_BENCH_PAGES_HUGE);
}

TEST(every_policy_has_its_name) {
	struct weir_bench_options o;
	char why[256], line[128];

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		snprintf(line, sizeof(line), "weir-bench --policy %s",
			weir_policy_name((enum weir_policy)policy));
		assert_int_equal(bench_lab_options(line, &o, why), 0);
		assert_int_equal(o.policy, policy);
	}
}

TEST(invalid_usage_is_explained) {
	static const struct {
		const char *line, *why;
	} cases[] = {
		{"weir-bench --flows", "--flows needs a value; use --flows N"},
		{"weir-bench --nonsense", "unknown option --nonsense"},
		{"weir-bench file", "unexpected argument \"file\""},
		{"weir-bench --flows 0", "--flows: \"0\" is out of range; use 1 to 268435456"},
		{"weir-bench --flows 1.5", "--flows: \"1.5\" is not a whole number such as 500, "
					   "64k or 2M; use 1 to 268435456"},
		{"weir-bench --flows -1", "--flows: \"-1\" is not a whole number such as 500, 64k "
					  "or 2M; use 1 to 268435456"},
		{"weir-bench --flows 10kk", "--flows: \"10kk\" is not a whole number such as 500, "
					    "64k or 2M; use 1 to 268435456"},
		{"weir-bench --flows 0x10", "--flows: \"0x10\" is not a whole number such as 500, "
					    "64k or 2M; use 1 to 268435456"},
		{"weir-bench --flows nan", "--flows: \"nan\" is not a whole number such as 500, "
					   "64k or 2M; use 1 to 268435456"},
		{"weir-bench --case fast",
			"--case: \"fast\" is not known; use established, new, syn-flood or mixed"},
		{"weir-bench --order random",
			"--order: \"random\" is not known; use uniform, zipf or one"},
		{"weir-bench --policy magliv",
			"--policy: \"magliv\" is not known; did you mean \"maglev\"?"},
		{"weir-bench --forwarding nat",
			"--forwarding: \"nat\" is not known; use ipip, l2, gue or gre"},
		{"weir-bench --family 5", "--family: \"5\" is not known; use 4 or 6"},
		{"weir-bench --new-percent 101",
			"--new-percent: \"101\" is out of range; use 0 to 100"},
		{"weir-bench --burst 65", "--burst: \"65\" is out of range; use 1 to 64"},
		{"weir-bench --packet-bytes 2000", "--packet-bytes: \"2000\" is out of range"},
		{"weir-bench --family 6 --packet-bytes 60",
			"--packet-bytes 60: the headers need 74 bytes"},
		{"weir-bench --services 10 --backends 9",
			"--backends 9: use at least 10, one backend for each service"},
		{"weir-bench --flows 10 --table-flows 5", "--flows 10: the flow table holds 5"},
		{"weir-bench --family 6 --table-flows 100M",
			"--table-flows 100000000: a flow table holds at most 67108864 IPv6 flows"},
		{"weir-bench --case new --protocol udp", "--protocol udp: case new measures TCP"},
		{"weir-bench --case new --new-percent 5", "--new-percent: in case new, all packets "
							  "start new flows; omit this option"},
		{"weir-bench --case mixed --new-percent 20",
			"--new-percent 20 with --packets-per-flow 10"},
		{"weir-bench --repeats 1", "--repeats: \"1\" is out of range; use 2"},
		{"weir-bench --repeats 2 --publications 9",
			"--repeats cannot be combined with --publications, because publications "
			"delay different bursts in each repetition; omit one of the two"},
		{"weir-bench --huge-pages --no-huge",
			"--huge-pages and --no-huge exclude each other"},
		{"weir-bench --no-huge --huge-pages",
			"--huge-pages and --no-huge exclude each other"},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_bench_options o = {.flows = 123};
		char why[256] = "";

		assert_int_equal(bench_lab_options(cases[i].line, &o, why), -EINVAL);
		if (strncmp(why, cases[i].why, strlen(cases[i].why)) != 0) {
			fail_msg("%s: \"%s\" instead of \"%s\"", cases[i].line, why, cases[i].why);
		}
		assert_int_equal(o.flows, 123); // unchanged
	}
}

TEST(usage_names_every_option) {
	static const char *const names[] = {"--case", "--flows", "--table-flows", "--order",
		"--zipf-exponent", "--new-percent", "--packets-per-flow", "--publications",
		"--family", "--protocol", "--vlan", "--packet-bytes", "--policy", "--forwarding",
		"--backends", "--services", "--slots", "--half-open-percent", "--syn-seen-ms",
		"--closing-ms", "--bucketed", "--headers", "--packets", "--seconds", "--runs",
		"--burst", "--buffers", "--repeats", "--core", "--huge-pages", "--no-huge",
		"--seed", "--json", "--help", "--version"};
	struct weir_bench_options o;
	char why[256], help[WEIR_HELP_BYTES];

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_non_null(strstr(weir_bench_help(help, sizeof(help)), names[i]));
	}
	assert_int_equal(bench_lab_options("weir-bench --help", &o, why), 0);
	assert_true(o.help);
	assert_int_equal(bench_lab_options("weir-bench --version", &o, why), 0);
	assert_true(o.version);
}
