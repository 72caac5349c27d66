// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl import: what becomes of single lines, which errors have which line, and what is printed
// where.
#include "cli_lab.h"

#include <errno.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "config.h"
#include "import.h"
#include "ipvs.h"
#include "keepalived.h"

#define FILE_NAME "source"

struct lab {
	struct weir_import import;
	char *text; // of the result, or NULL
	json_t *config;
};

static int no_file(void *context, const char *from, const char *pattern, unsigned int n,
	char **ret_name, char **ret_text, size_t *ret_bytes) {
	(void)context;
	(void)from;
	if (strcmp(pattern, "self") == 0 && n == 0) {
		*ret_name = strdup("self");
		*ret_text = strdup("include self\n");
		*ret_bytes = strlen(*ret_text);
		return 0;
	}
	return -ENOENT;
}

static struct lab import(const char *text, bool keepalived, const char *id) {
	const struct weir_keepalived_files files = {.open = no_file, .id = id};
	const struct weir_import_place source = {.file = FILE_NAME};
	struct lab lab = {0};

	assert_int_equal(weir_import_init(&lab.import), 0);
	if (keepalived) {
		weir_import_keepalived(&lab.import, &files, FILE_NAME, text, strlen(text));
	} else {
		weir_import_ipvs(&lab.import, FILE_NAME, text, strlen(text));
	}
	lab.text = weir_import_finish(&lab.import, &source);
	assert_false(lab.import.failed);
	if (lab.text != NULL) {
		struct weir_config_errors errors;
		struct weir_config *config;

		assert_int_equal(
			weir_config_parse(lab.text, strlen(lab.text), &config, &errors), 0);
		weir_config_errors_fini(&errors);
		weir_config_free(config);
		lab.config = json_loads(lab.text, 0, NULL);
	}
	return lab;
}

static void done(struct lab *lab) {
	json_decref(lab->config);
	free(lab->text);
	weir_import_fini(&lab->import);
}

static const json_t *service(const struct lab *lab, size_t n) {
	return json_array_get(json_object_get(lab->config, "services"), n);
}

static const char *policy(const struct lab *lab, size_t n) {
	return json_string_value(
		json_object_get(json_object_get(service(lab, n), "policy"), "name"));
}

static bool has_row(const json_t *rows, const char *key, int line, const char *part) {
	const json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		if (json_integer_value(json_object_get(row, "line")) == line &&
			strstr(json_string_value(json_object_get(row, key)), part) != NULL) {
			return true;
		}
	}
	return false;
}

static void expect_note(const struct lab *lab, int line, const char *part) {
	if (!has_row(lab->import.notes, "why", line, part) &&
		!has_row(lab->import.notes, "what", line, part)) {
		fail_msg("no note of line %d has \"%s\": %s", line, part,
			json_dumps(lab->import.notes, JSON_INDENT(1)));
	}
}

// --- schedulers ---------------------------------------------------------------------------

static const struct scheduler {
	const char *name, *equal, *different; // policies with equal and with different weights
	bool noted; // with equal weights
} schedulers[] = {
	{"rr", "round-robin", "round-robin", false},
	{"wrr", "weighted-round-robin", "weighted-round-robin", false},
	{"lc", "least-loaded", "least-loaded", false},
	{"wlc", "least-loaded", "weighted-round-robin", false},
	{"sed", "least-loaded", "weighted-round-robin", true},
	{"nq", "least-loaded", "weighted-round-robin", true},
	{"sh", "maglev", "maglev", true},
	{"mh", "maglev", "maglev", true},
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
			if (!different) { // one note is that of the ports
				assert_int_equal(json_array_size(lab.import.notes) > 1, row->noted);
			}
			done(&lab);
		}
	}
}

TEST(drained_server_makes_no_weights_differ) {
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
		assert_int_equal(json_array_size(lab.import.notes), 1);
		done(&lab);
	}
}

TEST(hash_of_ports_is_what_maglev_does) {
	struct lab lab = import("-A -t 192.0.2.1:80 -s mh -b mh-fallback,mh-port\n"
				"-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i\n",
		false, NULL);

	assert_string_equal(policy(&lab, 0), "maglev");
	assert_int_equal(json_array_size(lab.import.notes), 1);
	done(&lab);
}

// --- rules of ipvsadm ---------------------------------------------------------------------

TEST(options_of_ipvsadm_come_in_all_their_forms) {
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
		assert_int_equal(json_array_size(lab.import.notes), 1);
		assert_string_equal(
			json_string_value(json_object_get(backend, "address")), "10.0.0.1");
		assert_int_equal(json_integer_value(json_object_get(backend, "weight")), 5);
		done(&lab);
	}
}

// A server without one would get that of the others, and refuse what it took.
TEST(limit_that_some_servers_lack_is_left_out) {
	static const char rules[] = "-A -t 192.0.2.1:80 -s rr\n"
				    "-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i -x 9\n"
				    "-a -t 192.0.2.1:80 -r 10.0.0.2:80 -i\n";
	struct lab lab = import(rules, false, NULL);

	assert_null(json_object_get(service(&lab, 0), "flow_control"));
	expect_note(&lab, 1, "some of these have none");
	done(&lab);
}

TEST(rules_without_a_counterpart_are_noted_with_their_lines) {
	struct lab lab =
		import("-A -t 192.0.2.1:80 -s rr -p\n" // 1
		       "-a -t 192.0.2.1:80 -r 10.0.0.1:80 -g -w 70000 -x 9 -y 8\n"
		       "-a -t 192.0.2.1:80 -r 10.0.0.1:81 -m -w 1\n" // 3
		       "-A -u [2001:db8::1]:53 -s rr -o\n"
		       "-a -u [2001:db8::1]:53 -r [2001:db8::2]:53 -i --tun-type gre\n" // 5
		       "-A -f 3 -s rr -6\n"
		       "-a -f 3 -r [2001:db8::2]:0 -g\n" // 7
		       "-A --sctp-service 192.0.2.1:9 -s rr\n"
		       "-A -t 192.0.2.1:81 -s rr\n" // 9
		       "-A -t 192.0.2.1:82 -s rr -M 255.255.255.0\n"
		       "-a -t 192.0.2.1:82 -r 10.0.0.1:82 -i -w 0\n",
			false, NULL);
	const json_t *backends;

	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 3);
	expect_note(&lab, 1, "-p");
	expect_note(&lab, 2, "direct routing");
	expect_note(&lab, 2, "above the maximum");
	expect_note(&lab, 2, "-y");
	expect_note(&lab, 1, "max_active_flows");
	expect_note(&lab, 3, "listens on port 81");
	expect_note(&lab, 3, "sum of the weights");
	expect_note(&lab, 4, "-o");
	expect_note(&lab, 5, "not gre");
	expect_note(&lab, 6, "mark 3");
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

// --- errors -------------------------------------------------------------------------------

struct refusal {
	const char *text;
	int line;
	const char *reason;
};

static const struct refusal of_ipvs[] = {
	{"-A -t www.example.net:http -s rr\n", 1, "ipvsadm -S with -n"},
	{"-A -t 192.0.2.1:80 -s\n", 1, "-s needs a value"},
	{"-A -t 192.0.2.1:80\n-A -t 192.0.2.1:80\n", 2, "adds a service twice"},
	{"\n-a -t 192.0.2.1:80 -r 10.0.0.1:80\n", 2, "no earlier line adds"},
	{"-A -t 192.0.2.1:80\n-a -t 192.0.2.1:80\n", 2, "names no server"},
	{"-A -t 192.0.2.1:80\n-a -t 192.0.2.1:80 -r 10.0.0.1 -w -1\n", 2, "-w \"-1\""},
	{"-A -t 192.0.2.1:80 -u 192.0.2.1:80\n", 1, "names two services"},
	{"-A -s rr\n", 1, "names no service"},
	{"-D -t 192.0.2.1:80\n", 1, "\"-D\" is not an option"},
	{"-t 192.0.2.1:80\n", 1, "neither -A"},
	{"TCP  192.0.2.1:80 wlc\n", 1, "\"TCP\" is not an option"},
	{"", 0, "no virtual service"},
	// Weir's own configuration rules are applied, too.
	{"-A -t 192.0.2.1:80\n-a -t 192.0.2.1:80 -r 10.0.0.1\n-A -t 224.0.0.1:80\n"
	 "-a -t 224.0.0.1:80 -r 10.0.0.1\n",
		3, "services[1].binds[0].address"},
};

static const struct refusal of_keepalived[] = {
	{"virtual_server 192.0.2.1 80 {\n", 1, "\"virtual_server\" is not closed"},
	{"global_defs {\n}\n}\n", 3, "without a block"},
	{"{\n}\n", 1, "without a name"},
	{"global_defs {\n router_id \"x\n}\n", 2, "quote is not closed"},
	{"virtual_sever 192.0.2.1 80 {\n}\n", 1, "do you mean virtual_server?"},
	{"virtual_server www 80 {\n}\n", 1, "\"www\" is not an IP address"},
	{"virtual_server 192.0.2.9-5 80 {\n}\n", 1, "is not an IP address"},
	{"virtual_server 192.0.2.1 http {\n}\n", 1, "port \"http\""},
	{"virtual_server group X {\n}\n", 1, "no virtual_server_group \"X\""},
	{"virtual_server 192.0.2.1 80 {\n delay_loop x\n}\n", 2, "use seconds"},
	{"virtual_server 192.0.2.1 80 {\n protocol QUIC\n}\n", 2, "use TCP, UDP or SCTP"},
	{"virtual_server 192.0.2.1 80 {\n lb_kind BRIDGE\n}\n", 2, "use NAT, DR or TUN"},
	{"virtual_server 192.0.2.1 80 {\n real_server x 80 {\n }\n}\n", 2, "\"x\" is not an IP"},
	{"virtual_server 192.0.2.1 80 {\n real_server 10.0.0.1 80 {\n  weight x\n }\n}\n", 3,
		"use a number"},
	{"virtual_server 192.0.2.1 80 {\n real_server 10.0.0.1 80 {\n  HTTP_GET {\n   url {\n"
	 "    status_code 2xx\n }\n }\n }\n}\n",
		5, "use codes"},
	{"global_defs {\n lvs_timeouts tcp x\n}\n", 2, "use tcp, tcpfin or udp"},
	{"\ninclude nowhere.conf\n", 2, "include \"nowhere.conf\": No such file"},
	{"include self\n", 1, "nested more than 8"},
	{"x ${NAME}\n", 1, "$NAME is not defined"},
	{"$A=b \\\n", 1, "several lines"},
	{"vrrp_instance X {\n}\n", 0, "no virtual service"},
};

static void expect_refusals(const struct refusal *refusals, size_t count, bool keepalived) {
	for (size_t i = 0; i < count; i++) {
		struct lab lab = import(refusals[i].text, keepalived, NULL);

		assert_null(lab.text);
		if (!has_row(lab.import.errors, "reason", refusals[i].line, refusals[i].reason)) {
			fail_msg("%s: %s", refusals[i].text, json_dumps(lab.import.errors, 0));
		}
		done(&lab);
	}
}

TEST(errors_have_their_line_and_what_to_do) {
	expect_refusals(of_ipvs, sizeof(of_ipvs) / sizeof(of_ipvs[0]), false);
	expect_refusals(of_keepalived, sizeof(of_keepalived) / sizeof(of_keepalived[0]), true);
}

// --- keepalived ---------------------------------------------------------------------------

#define REAL "real_server 10.0.0.1 80 {\n }\n"

TEST(conditions_go_by_the_id) {
	static const char text[] = "virtual_server 192.0.2.1 80 {\n@a lb_algo rr\n@b lb_algo wrr\n"
				   "@^a protocol UDP\n" REAL "}\n";
	struct lab lab = import(text, true, "a");
	const json_t *bind;

	bind = json_array_get(json_object_get(service(&lab, 0), "binds"), 0);
	assert_string_equal(policy(&lab, 0), "round-robin");
	assert_string_equal(json_string_value(json_object_get(bind, "protocol")), "tcp");
	expect_note(&lab, 3, "@b");
	done(&lab);
	lab = import(text, true, NULL);
	bind = json_array_get(json_object_get(service(&lab, 0), "binds"), 0);
	assert_string_equal(policy(&lab, 0), "least-loaded");
	assert_string_equal(json_string_value(json_object_get(bind, "protocol")), "udp");
	done(&lab);
}

TEST(text_of_keepalived_is_read_as_it_does) {
	struct lab lab = import("$VIP=192.0.2.1\n! a comment { that opens nothing\n"
				"virtual_server ${VIP} 80 # and a trailing one\n{\n"
				" lb_algo \"r\"\"r\" lb_kind ! cut off\n"
				" real_server 10.0.0.1 80 { weight 3 }\n"
				" real_server 10.0.0.2 80 {\n  weight 4 }}\n",
		true, NULL);

	assert_int_equal(json_array_size(lab.import.errors), 0);
	assert_string_equal(policy(&lab, 0), "round-robin");
	assert_int_equal(json_array_size(json_object_get(service(&lab, 0), "backends")), 2);
	done(&lab);
}

static const char *text_in(const json_t *object, const char *name) {
	return json_string_value(json_object_get(object, name));
}

static json_int_t number_in(const json_t *object, const char *name) {
	return json_integer_value(json_object_get(object, name));
}

static struct lab with_checker(const char *checker) {
	char text[1024];

	snprintf(text, sizeof(text),
		"virtual_server 192.0.2.1 80 {\n delay_loop 2.5\n virtualhost vh\n retry 3\n"
		" real_server 10.0.0.1 80 {\n %s\n }\n}\n",
		checker);
	return import(text, true, NULL);
}

TEST(checkers_become_a_health_check) {
	struct lab lab = with_checker("HTTP_GET { url { path /x\n status_code 200-204\n"
				      "virtualhost own }\n connect_port 81\n connect_timeout 9 }");
	const json_t *check = json_object_get(service(&lab, 0), "health_check");

	assert_string_equal(text_in(check, "type"), "http");
	assert_string_equal(text_in(check, "path"), "/x");
	assert_string_equal(text_in(check, "host"), "own");
	assert_int_equal(number_in(check, "status_first"), 200);
	assert_int_equal(number_in(check, "status_last"), 204);
	assert_int_equal(number_in(check, "port"), 81);
	assert_int_equal(number_in(check, "interval_ms"), 2500);
	assert_int_equal(number_in(check, "timeout_ms"), 2500);
	assert_int_equal(number_in(check, "rise"), 1);
	assert_int_equal(number_in(check, "fall"), 4);
	expect_note(&lab, 6, "its timeout is 2500 ms");
	done(&lab);
	lab = with_checker("TCP_CHECK {\n connect_timeout 1\n retry 0\n bindto 10.9.9.9 }\n"
			   "SSL_GET { }");
	check = json_object_get(service(&lab, 0), "health_check");
	assert_string_equal(text_in(check, "type"), "https");
	assert_true(json_is_false(json_object_get(check, "verify")));
	assert_string_equal(text_in(check, "host"), "vh");
	expect_note(&lab, 6, "another checker of this server is used");
	done(&lab);
	lab = with_checker("MISC_CHECK {\n misc_path /x\n }\n DNS_CHECK {\n }");
	assert_null(json_object_get(service(&lab, 0), "health_check"));
	expect_note(&lab, 6, "Weir runs no scripts");
	expect_note(&lab, 9, "Weir has no DNS check");
	done(&lab);
	lab = with_checker("SMTP_CHECK { }");
	check = json_object_get(service(&lab, 0), "health_check");
	assert_int_equal(number_in(check, "port"), 25);
	expect_note(&lab, 6, "sends nothing");
	done(&lab);
}

// keepalived's method is NAT where none is named.
TEST(method_that_is_not_named_is_nat) {
	static const struct {
		const char *text;
		bool nat;
	} cases[] = {
		{"virtual_server 192.0.2.1 80 {\n real_server 10.0.0.1 80 {\n }\n}\n", true},
		{"virtual_server 192.0.2.1 80 {\n real_server 10.0.0.1 80 {\n lvs_method TUN\n }\n"
		 " real_server 10.0.0.2 80 {\n }\n}\n",
			true},
		{"virtual_server 192.0.2.1 80 {\n real_server 10.0.0.1 80 {\n lvs_method TUN\n }\n}"
		 "\n",
			false},
		{"virtual_server 192.0.2.1 80 {\n lb_kind TUN\n real_server 10.0.0.1 80 {\n }\n}\n",
			false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lab lab = import(cases[i].text, true, NULL);
		bool told = false;
		json_t *note;
		size_t n;

		json_array_foreach (lab.import.notes, n, note) {
			told |= strcmp(text_in(note, "what"), "NAT") == 0;
		}
		assert_int_equal(told, cases[i].nat);
		done(&lab);
	}
}

TEST(check_at_the_port_of_the_server_is_noted) {
	struct lab lab =
		import("bfd_instance is_no_vrrp_instance {\n}\nvirtual_server 192.0.2.1 80 {\n"
		       " real_server 10.0.0.1 8080 {\n  TCP_CHECK {\n  }\n }\n}\n",
			true, NULL);

	assert_int_equal(json_array_size(lab.import.errors), 0);
	expect_note(&lab, 1, "BFD belongs to the routing daemon");
	expect_note(&lab, 4, "it checks port 8080");
	done(&lab);
}

TEST(groups_have_ranges_and_no_address_twice) {
	struct lab lab =
		import("virtual_server_group G {\n 192.0.2.250-255 80\n 2001:db8::fffe-ffff"
		       " 80\n 192.0.2.250 80\n fwmark 1\n}\nvirtual_server group G {\n" REAL
		       "}\nvirtual_server_group UNUSED {\n}\n",
			true, NULL);
	const json_t *binds = json_object_get(service(&lab, 0), "binds");

	assert_int_equal(json_array_size(binds), 8);
	assert_string_equal(text_in(json_array_get(binds, 7), "address"), "2001:db8::ffff");
	expect_note(&lab, 4, "address of line 2 already");
	expect_note(&lab, 5, "fwmark 1");
	expect_note(&lab, 11, "no virtual_server uses this group");
	done(&lab);
}

TEST(group_of_more_addresses_than_fit_is_cut_with_a_note) {
	struct lab lab = import("virtual_server_group G {\n 2001:db8::1-ffff 80\n}\n"
				"virtual_server group G {\n" REAL "}\n",
		true, NULL);

	assert_int_equal(
		json_array_size(json_object_get(service(&lab, 0), "binds")), WEIR_IMPORT_BINDS_MAX);
	expect_note(&lab, 2, "at most 256");
	done(&lab);
}

// --- the command --------------------------------------------------------------------------

static void write_file(const char *path, const char *text) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

// Of a folder of the test's own: a file, one that it includes, and a report.
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
	write_file(included, "virtual_server 192.0.2.1 80 {\n ops\n lb_kind TUN\n" REAL "}\n");
	outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"}, main_file);
	assert_int_equal(outcome.status, WEIR_CLI_DONE);
	expect_contains(outcome.err, "b.inc:2: differs: ops: ");
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
	assert_int_equal(json_array_size(json_object_get(json, "notes")), 2);
	assert_true(json_is_true(json_object_get(json, "ok")));
	json_decref(json);
	write_file(included, "virtual_server 192.0.2.1 80 {\n \x1b[2J\n");
	outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"}, main_file);
	assert_int_equal(outcome.status, WEIR_CLI_REFUSED);
	assert_string_equal(outcome.out, "");
	expect_contains(outcome.err, "b.inc:1: error: the block");
	assert_null(strchr(outcome.err, '\x1b'));
	free_outcome(&outcome);
	unlink(report);
	unlink(included);
	unlink(main_file);
	rmdir(dir);
}

TEST(command_without_a_file_or_with_a_wrong_one) {
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
