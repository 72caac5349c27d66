// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import: the result for single lines, the line numbers in errors, and the output
// files.
#include "import_lab.h"

#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "import_report.h"

// --- schedulers ---------------------------------------------------------------------------

static const struct scheduler {
	const char *name, *equal, *different; // policies with equal and with different weights
	bool noted; // whether the import gives a note if the weights are equal
} schedulers[] = {
	{"rr", "round-robin", "round-robin", false},
	{"wrr", "weighted-round-robin", "weighted-round-robin", false},
	{"lc", "least-loaded", "least-loaded", false},
	{"wlc", "least-loaded", "least-loaded", false},
	{"sed", "least-loaded", "least-loaded", true},
	{"nq", "least-loaded", "least-loaded", true},
	{"sh", "maglev", "maglev", false},
	{"mh", "maglev", "maglev", false},
	{"dh", "maglev", "maglev", true},
	{"lblc", "maglev", "maglev", true},
	{"lblcr", "maglev", "maglev", true},
	{"fo", "maglev", "maglev", true},
	{"ovf", "least-loaded", "least-loaded", true},
	{"twos", "power-of-two", "power-of-two", true},
	{"magic", "maglev", "maglev", true},
};

TEST(schedulers_become_policies) {
	char text[256];

	for (size_t i = 0; i < sizeof(schedulers) / sizeof(schedulers[0]); i++) {
		const struct scheduler *row = &schedulers[i];

		for (int different = 0; different <= 1; different++) {
			struct lab lab;

			snprintf(text, sizeof(text),
				"-A -t 192.0.2.1:80 -s %s\n-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i -w "
				"2\n-a -t 192.0.2.1:80 -r 10.0.0.2:80 -i -w %d\n",
				row->name, different ? 3 : 2);
			lab = import(text, false, NULL);
			assert_string_equal(
				policy(&lab, 0), different ? row->different : row->equal);
			if (!different) {
				assert_int_equal(
					json_array_size(lab.import.notes) > IPVS_NOTES, row->noted);
			}
			done(&lab);
		}
	}
}

// The scheduler lc ignores weights, other than wlc.
TEST(weights_are_kept_unless_the_scheduler_ignores_them) {
	static const char format[] = "-A -t 192.0.2.1:80 -s %s\n"
				     "-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i -w 0\n"
				     "-a -t 192.0.2.1:80 -r 10.0.0.2:80 -i -w 9\n"
				     "-a -t 192.0.2.1:80 -r 10.0.0.3:80 -i -w 5\n";
	static const char *const names[] = {"wlc", "lc"};
	static const json_int_t weights[][3] = {{0, 9, 5}, {0, 9, 9}};
	char text[512];

	for (size_t i = 0; i < 2; i++) {
		struct lab lab;
		const json_t *backends;

		snprintf(text, sizeof(text), format, names[i]);
		lab = import(text, false, NULL);
		backends = json_object_get(service(&lab, 0), "backends");
		for (size_t k = 0; k < 3; k++) {
			assert_int_equal(
				number_in(json_array_get(backends, k), "weight"), weights[i][k]);
		}
		assert_int_equal(json_array_size(lab.import.notes), IPVS_NOTES + i);
		done(&lab);
	}
}

TEST(failover_by_weight_becomes_backups) {
	struct lab lab =
		import("-A -t 192.0.2.1:80 -s fo\n-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i -w 1\n"
		       "-a -t 192.0.2.1:80 -r 10.0.0.2:80 -i -w 9\n"
		       "-a -t 192.0.2.1:80 -r 10.0.0.3:80 -i -w 5\n",
			false, NULL);
	const json_t *backends = json_object_get(service(&lab, 0), "backends");

	assert_true(json_is_true(json_object_get(json_array_get(backends, 0), "backup")));
	assert_null(json_object_get(json_array_get(backends, 1), "backup"));
	assert_true(json_is_true(json_object_get(json_array_get(backends, 2), "backup")));
	done(&lab);
}

TEST(drained_server_makes_no_weights_different) {
	static const int drained[3][3] = {{0, 2, 2}, {2, 0, 2}, {0, 0, 0}};
	char text[256];

	for (int i = 0; i < 3; i++) {
		struct lab lab;

		snprintf(text, sizeof(text),
			"-A -t 192.0.2.1:80 -s wlc\n-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i -w %d\n"
			"-a -t 192.0.2.1:80 -r 10.0.0.2:80 -i -w %d\n"
			"-a -t 192.0.2.1:80 -r 10.0.0.3:80 -i -w %d\n",
			drained[i][0], drained[i][1], drained[i][2]);
		lab = import(text, false, NULL);
		assert_string_equal(policy(&lab, 0), "least-loaded");
		assert_int_equal(json_array_size(lab.import.notes), IPVS_NOTES);
		done(&lab);
	}
}

// --- rules of ipvsadm ---------------------------------------------------------------------

TEST(options_of_ipvsadm_are_accepted_in_all_forms) {
	static const char *const forms[] = {
		"-A -t 192.0.2.1:80 -s rr\n-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i -w 5\n",
		"ipvsadm -A -t192.0.2.1:80 -srr\nipvsadm -a -t192.0.2.1:80 -r10.0.0.1 -i -w5 # x\n",
		"\n--add-service --tcp-service 192.0.2.1:80 --scheduler=rr\r\n"
		"--add-server --tcp-service=192.0.2.1:80 --real-server 10.0.0.1:80 --ipip "
		"--weight=5"};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct lab lab = import(forms[i], false, NULL);
		const json_t *backend =
			json_array_get(json_object_get(service(&lab, 0), "backends"), 0);

		assert_int_equal(json_array_size(lab.import.errors), 0);
		assert_int_equal(json_array_size(lab.import.notes), IPVS_NOTES);
		assert_string_equal(
			json_string_value(json_object_get(backend, "address")), "10.0.0.1");
		assert_int_equal(json_integer_value(json_object_get(backend, "weight")), 5);
		done(&lab);
	}
}

TEST(scripts_of_ipvsadm_are_read) {
	struct lab lab = import("#!/bin/sh\n"
				"echo 1 > /proc/sys/net/ipv4/ip_forward\n"
				"/sbin/ipvsadm -C\n"
				"sudo /sbin/ipvsadm --set 900 60 0 # seconds\n"
				"${IPVSADM} -At '192.0.2.1:80' -s \"rr\" # the site\n"
				"$IPVSADM -at 192.0.2.1:80 -r 10.0.0.1:80 \\\n -iw 3\n"
				"ipvsadm -A -t $VIP:81 -p300\n"
				"ipvsadm -a -t $VIP:81 -r 10.0.0.2:81 -g\n"
				"ipvsadm -a -t 192.0.2.1:80 -r web-2:80 -i\n",
		false, NULL);
	const json_t *timeouts =
		json_object_get(json_object_get(lab.config, "flow_table"), "timeout_ms");
	const json_t *backends = json_object_get(service(&lab, 0), "backends");

	assert_int_equal(json_array_size(lab.import.errors), 0);
	assert_int_equal(number_in(timeouts, "established"), 900000);
	assert_int_equal(number_in(timeouts, "closing"), 60000);
	assert_null(json_object_get(timeouts, "udp"));
	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 1);
	assert_int_equal(json_array_size(backends), 1);
	assert_int_equal(number_in(json_array_get(backends, 0), "weight"), 3);
	expect_note(&lab, 2, "not a command of ipvsadm");
	expect_note(&lab, 8, "$VIP:81"); // no note about the service's persistence and servers
	expect_note(&lab, 10, "web-2:80");
	assert_int_equal(json_array_size(lab.import.notes), IPVS_NOTES + 3);
	done(&lab);
}

// A variable can stand for the address of any service, so that neither its service nor its servers
// can be assigned. The other services are imported.
TEST(variables_of_a_script_are_noted) {
	struct lab lab = import("ipvsadm -A -t 192.0.2.1:80\n"
				"ipvsadm -a -t 192.0.2.1:80 -r 10.0.0.1 -i\n"
				"ipvsadm -a -t $VIP:80 -r 10.0.0.2 -i\n" // line 3
				"ipvsadm -a -u $VIP:53 -r 10.0.0.2 -i\n"
				"ipvsadm -a -f $MARK -r 10.0.0.2 -i\n" // line 5
				"ipvsadm -A -t $OTHER:80\n"
				"ipvsadm -A -t $OTHER:80\n" // line 7
				"ipvsadm -a -t 192.0.2.2:80 -r 10.0.0.3 -i\n",
		false, NULL);

	assert_int_equal(json_array_size(lab.import.errors), 0);
	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 1);
	for (int line = 3; line <= 8; line++) {
		expect_note(&lab, line,
			line == 5   ? "not a firewall mark"
			: line == 8 ? "the service of this server has no readable address"
				    : "not an address and port");
	}
	assert_int_equal(notes_of_kind(&lab, "missing"), 6);
	done(&lab);
}

// A listing of ipvsadm lacks some settings. If the input is such a listing, the import prints a
// single error, which contains the command that prints all settings.
TEST(listing_of_ipvsadm_gets_one_error) {
	static const char *const listings[] = {
		"IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler "
		"Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n"
		"TCP  192.0.2.1:80 wlc\n  -> 10.0.0.1:80 Route 1 0 0\n",
		"TCP  192.0.2.1:80 wlc\n  -> 10.0.0.1:80 Route 1 0 0\n"};

	for (size_t i = 0; i < 2; i++) {
		struct lab lab = import(listings[i], false, NULL);

		assert_null(lab.text);
		assert_int_equal(json_array_size(lab.import.errors), 1);
		assert_int_equal(json_array_size(lab.import.notes), 0);
		assert_true(has_row(lab.import.errors, "reason", 1, "ipvsadm-save -n"));
		done(&lab);
	}
}

// If only one of the servers has a limit, the import omits it. With this limit, the other server
// would refuse connections that it accepted before.
TEST(limit_missing_at_some_servers_is_omitted) {
	static const char rules[] = "-A -t 192.0.2.1:80 -s rr\n"
				    "-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i -x 9\n"
				    "-a -t 192.0.2.1:80 -r 10.0.0.2:80 -i\n";
	struct lab lab = import(rules, false, NULL);

	assert_null(json_object_get(service(&lab, 0), "flow_control"));
	expect_note(&lab, 1, "some servers of the service have no limit");
	done(&lab);
}

TEST(rules_without_a_counterpart_are_noted_with_their_lines) {
	struct lab lab =
		import("-A -t 192.0.2.1:80 -s rr -p\n" // line 1
		       "-a -t 192.0.2.1:80 -r 10.0.0.1:80 -g -w 70000 -x 9 -y 8\n"
		       "-a -t 192.0.2.1:80 -r 10.0.0.1:81 -m -w 1\n" // line 3
		       "-A -u [2001:db8::1]:53 -s rr\n"
		       "-a -u [2001:db8::1]:53 -r [2001:db8::2]:54 -i --tun-type gre\n" // line 5
		       "-A -f 3 -s rr -6\n"
		       "-a -f 3 -r [2001:db8::2]:0 -g\n" // line 7
		       "-A --sctp-service 192.0.2.1:9 -s rr\n"
		       "-A -t 192.0.2.1:81 -s rr\n" // line 9
		       "-A -t 192.0.2.1:82 -s rr -M 255.255.255.0\n"
		       "-a -t 192.0.2.1:82 -r 10.0.0.1:82 -i -w 0\n",
			false, NULL);
	const json_t *backends;

	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 3);
	expect_note(&lab, 1, "-p");
	expect_note(&lab, 2, "direct routing");
	expect_note(&lab, 2, "above the maximum");
	expect_note(&lab, 2, "-y");
	expect_note(&lab, 3, "listens on port 81");
	expect_note(&lab, 5, "port 54 has no effect, as in IPVS");
	expect_note(&lab, 3, "sum of the weights");
	expect_note(&lab, 6, "fwmark-3");
	expect_note(&lab, 8, "TCP and UDP");
	expect_note(&lab, 9, "no real servers");
	expect_note(&lab, 10, "-M");
	backends = json_object_get(service(&lab, 0), "backends");
	assert_int_equal(json_array_size(backends), 1);
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(backends, 0), "weight")), 65535);
	assert_int_equal(
		json_integer_value(json_object_get(
			json_object_get(service(&lab, 0), "flow_control"), "max_active_flows")),
		9);
	backends = json_object_get(service(&lab, 2), "backends");
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(backends, 0), "weight")), 0);
	done(&lab);
}

// A server with two entries, of which only the second has a weight above 0, gets new flows.
TEST(equal_weights_are_not_those_of_a_server_without_new_flows) {
	struct lab lab = import("-A -t 192.0.2.1:80 -s lc\n"
				"-a -t 192.0.2.1:80 -r 10.0.0.1:80 -g -w 0\n"
				"-a -t 192.0.2.1:80 -r 10.0.0.1:8080 -g -w 5\n",
		false, NULL);

	assert_int_equal(number_in(backend(&lab, 0), "weight"), 5);
	done(&lab);
}

// IPVS ignores one-packet scheduling of TCP services.
TEST(one_packet_scheduling_becomes_udp_datagram) {
	static const char *const lines[] = {"-A -u 192.0.2.1:53 -s rr -o",
		"-A -u 192.0.2.1:53 --ops", "-A -u 192.0.2.1:53 --one-packet -s sh -p 60",
		"-A -u 192.0.2.1:53 -s rr", "-A -t 192.0.2.1:53 -s rr -o"};
	char text[256];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct lab lab;

		snprintf(text, sizeof(text), "%s\n-a -%c 192.0.2.1:53 -r 10.0.0.1:53 -i\n",
			lines[i], lines[i][4]);
		lab = import(text, false, NULL);
		if (i < 3) {
			assert_string_equal(text_in(service(&lab, 0), "udp"), "datagram");
		} else {
			assert_null(json_object_get(service(&lab, 0), "udp"));
		}
		done(&lab);
	}
}

// --- errors -------------------------------------------------------------------------------

static const struct refusal of_ipvs[] = {
	{"-A -t 192.0.2.1:80 -s\n", 1, "-s needs a value"},
	{"-A -t 192.0.2.1:80\n-A -t 192.0.2.1:80\n", 2, "adds a service for the second time"},
	{"\n-a -t 192.0.2.1:80 -r 10.0.0.1:80\n", 2, "no earlier line adds"},
	{"-A -t 192.0.2.1:80\n-a -t 192.0.2.1:80\n", 2, "names no server"},
	{"-A -t 192.0.2.1:80\n-a -t 192.0.2.1:80 -r 10.0.0.1 -w -1\n", 2, "-w \"-1\""},
	{"-A -t 192.0.2.1:80 -u 192.0.2.1:80\n", 1, "names two services"},
	{"-A -s rr\n", 1, "names no service"},
	{"-D -t 192.0.2.1:80\n", 1, "-D changes a service or server that an earlier line added"},
	{"--tcp 192.0.2.1:80\n", 1, "\"--tcp\" is not an option"},
	{"-Aq\n", 1, "\"-Aq\" is not an option"},
	{"-t 192.0.2.1:80\n", 1, "neither -A"},
	{"-A -t 192.0.2.1:80 -p 0\n", 1, "-p \"0\": use a number of seconds from 1 to 2678400"},
	{"-A -t 192.0.2.1:80 -p 2678401\n", 1, "-p \"2678401\""},
	{"-A -t 192.0.2.1:80 -p -M x\n", 1, "-M \"x\": use a netmask such as 255.255.255.0"},
	{"-A -t [2001:db8::1]:80 -p -M 129\n", 1, "-M \"129\": use a prefix length from 1 to 128"},
	{"-A -t [2001:db8::1]:80 -p -M 255.255.255.0\n", 1, "use a prefix length"},
	{"ipvsadm --set 900 120\n", 1, "needs three timeouts"},
	{"", 0, "no virtual service found; check whether this is the right file"},
};

TEST(errors_have_their_line_and_a_remedy) {
	expect_refusals(of_ipvs, sizeof(of_ipvs) / sizeof(of_ipvs[0]), false);
}

#define REAL "real_server 10.0.0.1 80 {\n }\n"

// --- the command --------------------------------------------------------------------------

static void write_file(const char *path, const char *text) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

// The folder contains a configuration, a file that the configuration includes, and the report.
TEST(command_prints_the_configuration_and_reports_elsewhere) {
	char dir[] = "/tmp/weir-test-XXXXXX", main_file[64], included[64], report[64],
	     text[8192] = "";
	struct outcome outcome;
	json_t *json;
	FILE *file;

	assert_non_null(mkdtemp(dir));
	snprintf(main_file, sizeof(main_file), "%s/a.conf", dir);
	snprintf(included, sizeof(included), "%s/b.inc", dir);
	snprintf(report, sizeof(report), "%s/report", dir);
	write_file(main_file, "include *.inc\n");
	write_file(
		included, "virtual_server 192.0.2.1 80 {\n ha_suspend\n lb_kind TUN\n" REAL "}\n");
	outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"}, main_file);
	assert_int_equal(outcome.status, WEIR_CLI_DONE);
	expect_contains(outcome.err, "b.inc:1: adjust: no protocol: ");
	expect_contains(outcome.err, "b.inc:2: left out: ha_suspend: ");
	expect_contains(outcome.err, "a.conf: adjust: ports: ");
	json = json_loads(outcome.out, 0, NULL);
	assert_non_null(json_object_get(json, "services"));
	json_decref(json);
	free_outcome(&outcome);
	outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"}, (char[]){"--json"},
		(char[]){"--report"}, report, main_file);
	assert_int_equal(outcome.status, WEIR_CLI_DONE);
	assert_string_equal(outcome.err, "");
	free_outcome(&outcome);
	file = fopen(report, "r");
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	json = json_loads(text, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(json, "notes")), 3);
	assert_true(json_is_true(json_object_get(json, "ok")));
	json_decref(json);
	outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"}, (char[]){"--report"},
		(char[]){"-"}, main_file);
	assert_int_equal(outcome.status, WEIR_CLI_DONE);
	expect_contains(outcome.err, "b.inc:2: left out: ha_suspend: ");
	assert_int_equal(access("-", F_OK), -1);
	free_outcome(&outcome);
	write_file(included, "virtual_server 192.0.2.1 80 {\n \x1b[2J\n");
	outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"}, main_file);
	assert_int_equal(outcome.status, WEIR_CLI_REFUSED);
	assert_string_equal(outcome.out, "");
	expect_contains(outcome.err, "b.inc:1: adjust: virtual_server 192.0.2.1 80: the block");
	assert_null(strchr(outcome.err, '\x1b'));
	free_outcome(&outcome);
	unlink(report);
	unlink(included);
	unlink(main_file);
	rmdir(dir);
}

// keepalived parses an include before it parses blocks.
TEST(braces_of_an_include_need_no_quotes) {
	static const char *const lines[] = {
		"include {b,c}.inc\n", "include ${NAME}.{inc,x}\n", "include ?.{x,inc} # all\n"};
	char dir[] = "/tmp/weir-test-XXXXXX", main_file[64], included[64];

	assert_non_null(mkdtemp(dir));
	snprintf(main_file, sizeof(main_file), "%s/a.conf", dir);
	snprintf(included, sizeof(included), "%s/b.inc", dir);
	write_file(included, " real_server 10.0.0.1 80 {\n }\n");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct outcome outcome;
		char text[256];

		snprintf(text, sizeof(text), "$NAME=b\nvirtual_server 192.0.2.1 80 {\n%s}\n",
			lines[i]);
		write_file(main_file, text);
		outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"},
			(char[]){"--all"}, main_file);
		assert_int_equal(outcome.status, WEIR_CLI_DONE);
		expect_contains(outcome.out, "10.0.0.1");
		assert_null(strstr(outcome.err, "not closed"));
		assert_null(strstr(outcome.err, "no block is open"));
		free_outcome(&outcome);
	}
	unlink(included);
	unlink(main_file);
	rmdir(dir);
}

// Every part of the pattern multiplies the number of paths that glob() has to examine. The import
// must still terminate.
TEST(command_ends_with_any_pattern_of_an_include) {
	char dir[] = "/tmp/weir-test-XXXXXX", main_file[64], pattern[512] = "";
	struct outcome outcome;

	assert_non_null(mkdtemp(dir));
	snprintf(main_file, sizeof(main_file), "%s/a.conf", dir);
	for (int k = 0; k < 2; k++) {
		char text[1024];

		pattern[0] = '\0';
		for (int i = 0; i < 40; i++) {
			strcat(pattern, k == 0 ? "{a,b}" : "/*/..");
		}
		snprintf(text, sizeof(text),
			"include \"%s\"\nvirtual_server 192.0.2.1 80 {\n lb_kind TUN\n" REAL "}\n",
			pattern);
		write_file(main_file, text);
		alarm(10); // ends the test if the import hangs
		outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"}, main_file);
		alarm(0);
		assert_int_equal(outcome.status, WEIR_CLI_DONE);
		expect_contains(outcome.err, "too many wildcards and braces");
		free_outcome(&outcome);
	}
	unlink(main_file);
	rmdir(dir);
}

static void count_report(const char *rules, bool all, char *ret, size_t bytes) {
	struct lab lab = import(rules, false, NULL);
	FILE *out = fmemopen(ret, bytes, "w");

	assert_non_null(out);
	weir_import_report_print(out, &lab.import, all);
	fclose(out);
	done(&lab);
}

// A configuration may contain pipes, for example for notify_fifo. keepalived and weirctl skip files
// that are not regular. The report has one line for all notes of a kind, and the most serious kind
// is first. --all prints each note, in the order of the file.
TEST(command_does_not_wait_for_pipes) {
	char dir[] = "/tmp/weir-test-XXXXXX", main_file[64], pipe[64];
	struct outcome outcome;

	assert_non_null(mkdtemp(dir));
	snprintf(main_file, sizeof(main_file), "%s/a.conf", dir);
	snprintf(pipe, sizeof(pipe), "%s/b.inc", dir);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	write_file(main_file,
		"include *.inc\nvirtual_server 192.0.2.1 80 {\n lb_kind TUN\n" REAL "}\n");
	alarm(10); // ends the test if the import hangs
	outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"}, main_file);
	alarm(0);
	assert_int_equal(outcome.status, WEIR_CLI_DONE);
	expect_contains(outcome.err, "b.inc: the included file is not read: not a regular file");
	free_outcome(&outcome);
	unlink(pipe);
	unlink(main_file);
	rmdir(dir);
}

TEST(report_groups_notes_by_kind) {
	char *rules, summary[8192], each[65536], *line = summary;
	size_t bytes;
	FILE *out = open_memstream(&rules, &bytes);

	for (int i = 1; i <= 20; i++) {
		fprintf(out,
			"-A -t 192.0.2.%d:80 -s rr -p %d\n"
			"-a -t 192.0.2.%d:80 -r 10.0.0.1:80 -g\n",
			i, 300 + i, i);
	}
	fprintf(out, "-A -f 7 -s rr\n");
	fclose(out);
	count_report(rules, false, summary, sizeof(summary));
	assert_ptr_equal(
		strstr(summary, "source:41: missing: fwmark-7: the service is not imported: "),
		summary);
	expect_contains(
		summary, "\nsource:1: differs: -p 301, and 19 more: an affinity entry expires");
	expect_contains(summary, "; lines 3, 5, 7, 9, 11, ...\n");
	expect_contains(summary, "\n43 notes of 5 kinds: --all prints each note\n");
	for (int i = 0; i < 6; i++) { // five kinds of notes, and their total
		line = strchr(line, '\n') + 1;
	}
	assert_string_equal(line, "");
	count_report(rules, true, each, sizeof(each));
	assert_ptr_equal(strstr(each, "source:1: differs: -p 301: "), each);
	expect_contains(each, "\nsource:39: differs: -p 320: ");
	assert_null(strstr(each, " more: "));
	free(rules);
}

TEST(command_without_a_file_or_with_an_invalid_one) {
	struct outcome outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"});

	assert_int_equal(outcome.status, WEIR_CLI_USAGE);
	free_outcome(&outcome);
	outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"ipvs"}, (char[]){"/nowhere/rules"});
	assert_int_equal(outcome.status, WEIR_CLI_REFUSED);
	expect_contains(outcome.err, "cannot read /nowhere/rules: No such file");
	free_outcome(&outcome);
	outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"ipvs"}, (char[]){"--id"},
		(char[]){"x"}, (char[]){"rules"});
	assert_int_equal(outcome.status, WEIR_CLI_USAGE);
	free_outcome(&outcome);
}

// keepalived never uses a failed server. Without checks no server fails, and the key is not needed.
TEST(checked_services_have_no_panic_mode) {
	struct lab lab = import("virtual_server 192.0.2.1 80 {\n protocol TCP\n"
				" real_server 10.0.0.1 80 {\n  TCP_CHECK {\n  }\n }\n}\n"
				"virtual_server 192.0.2.1 81 {\n protocol TCP\n"
				" real_server 10.0.0.1 81 {\n }\n}\n",
		true, "");
	const json_t *services = json_object_get(lab.config, "services");
	const json_t *percent =
		json_object_get(json_array_get(services, 0), "panic_threshold_percent");

	assert_true(json_is_integer(percent) && json_integer_value(percent) == 0);
	assert_null(json_object_get(json_array_get(services, 1), "panic_threshold_percent"));
	done(&lab);
}
