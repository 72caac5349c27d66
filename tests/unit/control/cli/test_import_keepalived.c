// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import keepalived: the results for single statements, and for text that keepalived
// ignores.
#include "import_lab.h"

#include "import_report.h"

// Errors that end the import: a limit is exceeded, a required file is missing, or no service is
// left.
static const struct refusal of_keepalived[] = {
	{"\nincluder nowhere.conf\n", 2, "include \"nowhere.conf\": No such file"},
	{"include self\n", 1, "nested more than 8"},
	{"~SEQ(A, 1, 400) ~SEQ(B, 1, 400) x\n", 1, "100001 lines use definitions"},
	{"vrrp_instance X {\n}\n", 0, "no virtual service"},
};

TEST(errors_of_keepalived_have_their_line_and_a_remedy) {
	expect_refusals(of_keepalived, sizeof(of_keepalived) / sizeof(of_keepalived[0]), true);
}

// --- keepalived ---------------------------------------------------------------------------

#define REAL "real_server 10.0.0.1 80 {\n }\n"

TEST(conditions_depend_on_the_id) {
	static const char text[] = "virtual_server 192.0.2.1 80 {\n@a lb_algo rr\n@b lb_algo wrr\n"
				   "@a protocol TCP\n@^a protocol UDP\n" REAL "}\n";
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

TEST(text_of_keepalived_is_read_like_keepalived) {
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

TEST(a_comment_is_not_of_the_definition_before_it) {
	struct lab lab = import("$VIP=192.0.2.1 # the address\n$NAME=\"a # b\" ! a router\n"
				"$SERVER= \\\n real_server 10.0.0.1 $PORT { # first \\\n"
				"  # weight 5 \\\n  weight 7 \\\n }\n$PORT=80 ! plain\n"
				"virtual_server $VIP $PORT {\n $SERVER\n}\n",
		true, NULL);
	const json_t *bind = json_array_get(json_object_get(service(&lab, 0), "binds"), 0);
	const json_t *server = json_array_get(json_object_get(service(&lab, 0), "backends"), 0);

	assert_string_equal(json_string_value(json_object_get(bind, "address")), "192.0.2.1");
	assert_int_equal(json_integer_value(json_object_get(bind, "port")), 80);
	assert_int_equal(json_integer_value(json_object_get(server, "weight")), 7);
	done(&lab);
}

// A sequence gives the same number of servers, with the same addresses, as in keepalived.
TEST(sequences_have_the_numbers_of_keepalived) {
	static const struct {
		const char *text, *first, *last;
		size_t servers;
	} rows[] = {
		{"~SEQ(A, 3) real_server 10.0.0.$A 80 ", "10.0.0.1", "10.0.0.3", 3},
		{"~SEQ(A, 5, 3) real_server 10.0.0.$A 80", "10.0.0.5", "10.0.0.3", 3},
		{"~SEQ(A, 0x9, 0xb) real_server 10.0.0.$A 80", "10.0.0.9", "10.0.0.11", 3},
		{"~SEQ(A, 010, 2, 12) real_server 10.0.0.$A 80", "10.0.0.8", "10.0.0.12", 3},
		{"~SEQx(A, 9, 0xb) real_server fd00::$A 80", "fd00::9", "fd00::b", 3},
		{"~SEQx (A, 144,16,160) real_server fd00::$A 80", "fd00::90", "fd00::a0", 2},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[256];
		struct lab lab;
		const json_t *servers;

		snprintf(text, sizeof(text), "virtual_server 192.0.2.1 80 {\n %s\n}\n",
			rows[i].text);
		lab = import(text, true, NULL);
		servers = json_object_get(service(&lab, 0), "backends");
		assert_int_equal(json_array_size(servers), rows[i].servers);
		assert_string_equal(
			json_string_value(json_object_get(json_array_get(servers, 0), "address")),
			rows[i].first);
		assert_string_equal(
			json_string_value(json_object_get(
				json_array_get(servers, rows[i].servers - 1), "address")),
			rows[i].last);
		done(&lab);
	}
}

TEST(random_numbers_are_the_least_ones) {
	struct lab lab = import("virtual_server 192.0.2.1 80 {\n delay_loop ${_RANDOM 7 9}\n"
				" real_server 10.0.0.1 80 {\n  weight ${_RANDOM 1 10}\n"
				"  TCP_CHECK {\n  }\n }\n}\n",
		true, NULL);
	const json_t *server = json_array_get(json_object_get(service(&lab, 0), "backends"), 0);

	assert_int_equal(json_integer_value(json_object_get(server, "weight")), 1);
	assert_int_equal(json_integer_value(json_object_get(
				 json_object_get(service(&lab, 0), "health_check"), "interval_ms")),
		7000);
	done(&lab);
}

// If the "}" of a service is missing, the services after it are still imported as separate
// services.
TEST(services_behind_a_block_that_is_not_closed_are_imported) {
	struct lab lab = import("virtual_server 192.0.2.1 80 {\n real_server 10.0.0.1 80 {\n"
				"  weight 2\nvirtual_server 192.0.2.2 80 {\n"
				" real_server 10.0.0.2 80 {\n  weight 3\n }\n}\n"
				"virtual_server 192.0.2.3 80\n{\n real_server 10.0.0.3 80 {\n",
		true, NULL);

	assert_int_equal(json_array_size(lab.import.errors), 0);
	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 3);
	expect_note(&lab, 1, "the block has no \"}\"");
	expect_note(&lab, 2, "before the next virtual_server");
	expect_note(&lab, 11, "at the end of the file");
	for (unsigned int i = 0; i < 3; i++) {
		const json_t *servers = json_object_get(service(&lab, i), "backends");

		assert_int_equal(json_array_size(servers), 1);
		assert_int_equal(
			json_integer_value(json_object_get(json_array_get(servers, 0), "weight")),
			i == 2 ? 1 : i + 2);
	}
	done(&lab);
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
	expect_note(&lab, 6, "using 2500 ms instead");
	done(&lab);
	lab = with_checker("TCP_CHECK {\n connect_timeout 1\n retry 0\n bindto 10.9.9.9 }\n"
			   "SSL_GET { url { path / } }");
	check = json_object_get(service(&lab, 0), "health_check");
	assert_string_equal(text_in(check, "type"), "https");
	assert_true(json_is_false(json_object_get(check, "verify")));
	assert_string_equal(text_in(check, "host"), "vh");
	expect_note(&lab, 6, "using another checker of this server");
	done(&lab);
	lab = with_checker("BFD_CHECK {\n name x\n }\n FILE_CHECK {\n }");
	assert_null(json_object_get(service(&lab, 0), "health_check"));
	expect_note(&lab, 6, "configure BFD");
	expect_note(&lab, 9, "does not read weights from files");
	done(&lab);
	lab = with_checker("PING_CHECK {\n }");
	check = json_object_get(service(&lab, 0), "health_check");
	assert_string_equal(text_in(check, "type"), "ping");
	assert_null(json_object_get(check, "port"));
	expect_note(&lab, 6, "does not test the service");
	done(&lab);
	lab = with_checker("PING_CHECK {\n }\n TCP_CHECK {\n }");
	check = json_object_get(service(&lab, 0), "health_check");
	assert_string_equal(text_in(check, "type"), "tcp");
	done(&lab);
	lab = with_checker("SMTP_CHECK { host { connect_port 25 } }");
	check = json_object_get(service(&lab, 0), "health_check");
	assert_int_equal(number_in(check, "port"), 25);
	assert_string_equal(text_in(check, "type"), "tcp");
	assert_string_equal(text_in(check, "expect"), "220");
	expect_note(&lab, 6, "expects the greeting 220");
	done(&lab);
	lab = with_checker("TCP_CHECK {\n }\n SMTP_CHECK {\n }");
	check = json_object_get(service(&lab, 0), "health_check");
	assert_string_equal(text_in(check, "expect"), "220");
	expect_note(&lab, 6, "using another checker of this server");
	done(&lab);
}

TEST(dns_check_becomes_a_dns_check) {
	struct lab lab = with_checker("DNS_CHECK {\n type aaaa\n name www.example.com\n }");
	json_t *check = json_object_get(service(&lab, 0), "health_check");

	assert_string_equal(text_in(check, "type"), "dns");
	assert_string_equal(text_in(check, "name"), "www.example.com");
	assert_string_equal(text_in(check, "record"), "AAAA");
	assert_null(json_object_get(check, "retry_interval_ms")); // the interval
	done(&lab);
	lab = with_checker("DNS_CHECK {\n type ANY\n name a..b\n }");
	check = json_object_get(service(&lab, 0), "health_check");
	assert_string_equal(text_in(check, "name"), ".");
	assert_string_equal(text_in(check, "record"), "SOA");
	expect_note(&lab, 7, "unknown type");
	expect_note(&lab, 8, "give a domain name");
	done(&lab);
}

static void expect_words(const json_t *check, const char *const *words) {
	const json_t *command = json_object_get(check, "command");
	size_t count = 0;

	for (; words[count] != NULL; count++) {
		assert_string_equal(
			json_string_value(json_array_get(command, count)), words[count]);
	}
	assert_int_equal(json_array_size(command), count);
}

TEST(misc_check_becomes_a_program) {
	static const char *const plain[] = {"/x", NULL};
	static const char *const words[] = {"/usr/bin/check it", "-H", "{address}",
		"http://{address}:80/", "10.0.0.10", "a\"b", NULL};
	struct lab lab = with_checker("MISC_CHECK {\n misc_path /x\n }\n TCP_CHECK {\n }");
	const json_t *check = json_object_get(service(&lab, 0), "health_check");

	assert_string_equal(text_in(check, "type"), "exec");
	expect_words(check, plain);
	assert_int_equal(number_in(check, "interval_ms"), 2500);
	assert_int_equal(number_in(check, "timeout_ms"), 2500); // the interval
	assert_int_equal(number_in(check, "fall"), 4);
	assert_null(json_object_get(check, "weight_from_exit"));
	assert_null(json_object_get(check, "port"));
	expect_note(&lab, 6, "as the user of weir-control --script-user");
	expect_note(&lab, 9, "using another checker of this server");
	done(&lab);
	lab = with_checker("MISC_CHECK {\n misc_path \"'/usr/bin/check it' -H 10.0.0.1 "
			   "http://10.0.0.1:80/ 10.0.0.10 a\\\\\\\"b\"\n misc_timeout 2\n "
			   "misc_dynamic\n user nagios\n retry 1\n }");
	check = json_object_get(service(&lab, 0), "health_check");
	expect_words(check, words);
	assert_int_equal(number_in(check, "timeout_ms"), 2000);
	assert_int_equal(number_in(check, "fall"), 2);
	assert_true(json_is_true(json_object_get(check, "weight_from_exit")));
	expect_note(&lab, 10, "all programs run as the user of");
	done(&lab);
	lab = with_checker("MISC_CHECK {\n misc_path /x y\n misc_timeout 9\n }");
	check = json_object_get(service(&lab, 0), "health_check");
	expect_words(check, plain);
	assert_int_equal(number_in(check, "timeout_ms"), 2500);
	expect_note(&lab, 7, "quote it with its arguments");
	expect_note(&lab, 6, "using 2500 ms instead");
	done(&lab);
}

// The other checker of the server is used if Weir cannot run the script.
TEST(misc_check_without_a_usable_script_is_left_out) {
	static const struct {
		const char *keys, *why;
	} cases[] = {
		{"", "the check has no script"},
		{"misc_path \"\"", "the check has no script"},
		{"misc_path check", "absolute path"},
		{"misc_path \"'/x\"", "a quote is not closed"},
		{"misc_path \"/x a\\tb\"", "escaped characters"},
		{"misc_path \"/x 'a\tb'\"", "a control character"},
		{"misc_path \"/x 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2\"",
			"at most 32 words"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];
		struct lab lab;

		snprintf(text, sizeof(text), "MISC_CHECK {\n %s\n }\n TCP_CHECK {\n }",
			cases[i].keys);
		lab = with_checker(text);
		assert_string_equal(
			text_in(json_object_get(service(&lab, 0), "health_check"), "type"), "tcp");
		expect_note(&lab, 6, cases[i].why);
		done(&lab);
	}
}

// One check of the service serves all servers, because each address becomes the placeholder.
TEST(misc_checks_of_all_servers_are_one_check) {
	static const char text[] = "virtual_server 2001:db8::1 80 {\n protocol TCP\n lb_kind TUN\n"
				   " real_server 2001:db8::11 80 { MISC_CHECK { \n misc_path \"/x "
				   "2001:db8:0::11\"\n } }\n"
				   " real_server 2001:db8::12 80 {\n MISC_CHECK {\n misc_path \"/x "
				   "2001:db8::12\"\n }\n }\n"
				   "}\n";
	static const char *const words[] = {"/x", "{address}", NULL};
	struct lab lab = import(text, true, NULL);

	expect_words(json_object_get(service(&lab, 0), "health_check"), words);
	assert_int_equal(notes_of_kind(&lab, "differs"), 2); // each runs without privileges
	done(&lab);
}

// keepalived reads two digits for each byte; a word may end with one digit.
TEST(udp_check_becomes_a_udp_check) {
	struct lab lab = with_checker("UDP_CHECK {\n payload Ab12f 3\n require_reply 00 81 XX 7\n "
				      "min_reply_length 4\n }");
	json_t *check = json_object_get(service(&lab, 0), "health_check");
	char text[600];

	assert_string_equal(text_in(check, "type"), "udp");
	assert_string_equal(text_in(check, "send_hex"), "ab120f03");
	assert_string_equal(text_in(check, "expect_hex"), "0081");
	expect_note(&lab, 8, "before the first X");
	expect_note(&lab, 9, "length of a reply is not checked");
	done(&lab);
	lab = with_checker("UDP_CHECK {\n payload 0g\n require_reply\n }");
	check = json_object_get(service(&lab, 0), "health_check");
	assert_null(json_object_get(check, "send_hex"));
	assert_null(json_object_get(check, "expect_hex"));
	expect_note(&lab, 7, "give hexadecimal digits");
	expect_note(&lab, 8, "also passes without a reply");
	done(&lab);
	snprintf(text, sizeof(text), "UDP_CHECK {\n require_reply %0512d\n }", 0);
	lab = with_checker(text);
	check = json_object_get(service(&lab, 0), "health_check");
	assert_int_equal(strlen(text_in(check, "expect_hex")), 2 * 255);
	expect_note(&lab, 7, "only the first 255 bytes");
	done(&lab);
	lab = with_checker("UDP_CHECK {\n require_reply xx01\n }");
	check = json_object_get(service(&lab, 0), "health_check");
	assert_null(json_object_get(check, "expect_hex"));
	expect_note(&lab, 7, "also passes without a reply");
	done(&lab);
}

// keepalived uses NAT if no method is configured.
TEST(missing_method_is_nat) {
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
		bool noted = false;
		json_t *note;
		size_t n;

		json_array_foreach (lab.import.notes, n, note) {
			noted |= strcmp(text_in(note, "what"), "NAT") == 0;
		}
		assert_int_equal(noted, cases[i].nat);
		done(&lab);
	}
}

TEST(check_at_the_port_of_the_server_is_noted) {
	struct lab lab =
		import("bfd_instance is_no_vrrp_instance {\n}\nvirtual_server 192.0.2.1 80 {\n"
		       " real_server 10.0.0.1 8080 {\n  TCP_CHECK {\n  }\n }\n}\n",
			true, NULL);

	assert_int_equal(json_array_size(lab.import.errors), 0);
	expect_note(&lab, 1, "configure BFD in the routing daemon");
	expect_note(&lab, 4, "the health check connects to port 8080");
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
	expect_note(&lab, 4, "duplicate of the address in line 2");
	expect_note(&lab, 5, "fwmark 1");
	expect_note(&lab, 11, "no virtual_server uses this virtual_server_group");
	done(&lab);
}

TEST(group_with_too_many_addresses_is_truncated_with_a_note) {
	struct lab lab = import("virtual_server_group G {\n 2001:db8::1-ffff 80\n}\n"
				"virtual_server group G {\n" REAL "}\n",
		true, NULL);

	assert_int_equal(
		json_array_size(json_object_get(service(&lab, 0), "binds")), WEIR_IMPORT_BINDS_MAX);
	expect_note(&lab, 2, "at most 256");
	done(&lab);
}

// --- defaults -----------------------------------------------------------------------------

#define SERVER "virtual_server 192.0.2.1 80 {\n%s\n real_server 10.0.0.1 80 {\n%s\n }\n}\n"
#define GET "HTTP_GET { url { path / } "

// Defaults of keepalived 2.2.7, from alloc_vs() and validate_check_config() in check_data.c,
// queue_checker() in check_api.c, and the handlers of the checkers.
static const struct {
	const char *key, *fallback; // keyword and default of keepalived
	const char *of_virtual, *of_real;
	const char *path; // path of a key in the service, such as "health_check/fall"
	const char *text; // imported value at this path; NULL: the value is `number`
	json_int_t number;
} defaults[] = {
	{"protocol", "UDP", "", "", "binds/protocol", "udp", 0},
	{"lb_algo", "wlc", "", "", "policy/name", "least-loaded", 0},
	{"lb_kind", "NAT", "", "", "note", "NAT", 0},
	{"weight", "1", "", "", "backends/weight", NULL, 1},
	{"weight of the virtual_server", "1", "weight 7", "", "backends/weight", NULL, 7},
	{"delay_loop", "60 s", "", "TCP_CHECK {}", "health_check/interval_ms", NULL, 60000},
	{"connect_timeout", "5 s", "", "TCP_CHECK {}", "health_check/timeout_ms", NULL, 5000},
	{"retry of TCP_CHECK", "1", "", "TCP_CHECK {}", "health_check/fall", NULL, 2},
	{"retry of DNS_CHECK", "3", "", "DNS_CHECK {}", "health_check/fall", NULL, 4},
	{"type of DNS_CHECK", "SOA", "", "DNS_CHECK {}", "health_check/record", "SOA", 0},
	{"name of DNS_CHECK", "the root", "", "DNS_CHECK {}", "health_check/name", ".", 0},
	{"delay_before_retry of DNS_CHECK", "delay_loop", "", "DNS_CHECK {}",
		"health_check/retry_interval_ms", "", 0},
	{"retry of HTTP_GET", "1", "", GET "}", "health_check/fall", NULL, 2},
	{"retry of SMTP_CHECK", "1", "", "SMTP_CHECK {}", "health_check/fall", NULL, 2},
	{"retry of the virtual_server", "that of the checker", "retry 4", "TCP_CHECK {}",
		"health_check/fall", NULL, 5},
	{"retry of the virtual_server", "from 1 on", "retry 0", "TCP_CHECK {}", "health_check/fall",
		NULL, 2},
	{"nb_get_retry in TCP_CHECK", "not a keyword of it", "", "TCP_CHECK { nb_get_retry 9\n }",
		"health_check/fall", NULL, 2},
	{"nb_get_retry in HTTP_GET", "as retry", "", GET "nb_get_retry 9\n }", "health_check/fall",
		NULL, 10},
	{"delay_before_retry of TCP_CHECK", "1 s", "", "TCP_CHECK {}",
		"health_check/retry_interval_ms", NULL, 1000},
	{"delay_before_retry of HTTP_GET", "3 s", "", GET "}", "health_check/retry_interval_ms",
		NULL, 3000},
	{"delay_before_retry of SMTP_CHECK", "1 s", "", "SMTP_CHECK {}",
		"health_check/retry_interval_ms", NULL, 1000},
	{"delay_before_retry of the virtual_server", "that of the checker",
		"delay_before_retry 2.5", GET "}", "health_check/retry_interval_ms", NULL, 2500},
	{"delay_before_retry of a checker", "that of its server", "delay_before_retry 9",
		"TCP_CHECK { delay_before_retry 4\n }", "health_check/retry_interval_ms", NULL,
		4000},
	{"delay_before_retry without retries", "without effect", "",
		"TCP_CHECK { retry 0\n delay_before_retry 4\n }", "health_check/retry_interval_ms",
		"", 0},
	{"connect_port", "that of the server", "", "SMTP_CHECK {}", "health_check/port", NULL, 0},
	{"one success", "the server is up", "", "TCP_CHECK {}", "health_check/rise", NULL, 1},
	{"status_code", "200-299", "", GET "}", "health_check/status_last", NULL, 299},
	{"url", "required", "", "SSL_GET {}", "health_check/type", "", 0},
	{"path", "required", "", "HTTP_GET { url { status_code 200\n } }", "health_check/type", "",
		0},
	{"persistence_timeout", "none", "", "", "no note", "persistence", 0},
	{"persistence_timeout", "none", "persistence_timeout 0", "", "no note", "persistence", 0},
	{"persistence_timeout without a value", "360 s", "persistence_timeout", "", "note",
		"persistence_timeout 360", 0},
	{"persistence_timeout without a value", "360 s", "persistence_timeout", "",
		"affinity/timeout_ms", NULL, 360000},
	{"persistence_granularity", "persistence_timeout 360",
		"persistence_granularity 255.255.255.0", "", "note", "persistence_timeout 360", 0},
	{"persistence_granularity", "persistence_timeout 360",
		"persistence_granularity 255.255.255.0", "", "affinity/timeout_ms", NULL, 360000},
	{"affinity", "none", "", "", "affinity/timeout_ms", NULL, 0},
	{"affinity", "none", "persistence_timeout 0", "", "affinity/timeout_ms", NULL, 0},
	{"hash_fields", "as the scheduler", "lb_algo sh\n sh-port", "", "no note", "sh", 0},
	{"flag-2", "sh-port", "lb_algo sh\n flag-2", "", "no note", "flag", 0},
	{"quorum", "1", "", "", "no note", "quorum", 0},
	{"quorum", "1", "quorum 1", "", "no note", "quorum", 0},
	{"hysteresis", "0", "hysteresis 0", "", "no note", "hysteresis", 0},
	{"sh-port", "a flag of sh", "lb_algo wlc\n sh-port", "", "note", "sh-port", 0},
	{"nat_mask", "without effect", "nat_mask 255.255.255.0", "", "no note", "nat_mask", 0},
	{"connect_ip", "the server", "", "TCP_CHECK { connect_ip 10.0.0.1\n }", "no note",
		"connect_ip", 0},
	{"connect_ip", "the server", "", "TCP_CHECK { connect_ip 10.0.0.2\n }", "note",
		"connect_ip", 0},
};

static bool has_note(const struct lab *lab, const char *part) {
	const json_t *row;
	size_t i;

	json_array_foreach (lab->import.notes, i, row) {
		if (strstr(text_in(row, "what"), part) != NULL) {
			return true;
		}
	}
	return false;
}

// A check over UDP has the port of a UDP bind only. DNS servers often have a virtual server for
// each protocol, with the same check.
TEST(checks_over_udp_of_a_tcp_service_have_a_port) {
	static const struct {
		const char *protocol, *servers, *checker;
		int port; // 0 = none
	} rows[] = {
		{"TCP", "10.0.0.1 53", "DNS_CHECK", 53},
		{"TCP", "10.0.0.1", "DNS_CHECK", 53},
		{"TCP", "10.0.0.1 5353", "DNS_CHECK", 5353},
		{"TCP", "10.0.0.1 53", "UDP_CHECK", 53},
		{"UDP", "10.0.0.1 53", "DNS_CHECK", 0},
		{"UDP", "10.0.0.1", "UDP_CHECK", 0},
		{"UDP", "10.0.0.1 53", "TCP_CHECK", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[256];
		struct lab lab;
		json_t *check;

		snprintf(text, sizeof(text),
			"virtual_server 192.0.2.1 53 {\n protocol %s\n lb_kind NAT\n"
			" real_server %s {\n %s {\n }\n }\n}\n",
			rows[i].protocol, rows[i].servers, rows[i].checker);
		lab = import(text, true, NULL);
		check = json_object_get(service(&lab, 0), "health_check");
		if (check == NULL ||
			json_integer_value(json_object_get(check, "port")) != rows[i].port) {
			fail_msg("%s: %s", text, check != NULL ? json_dumps(check, 0) : "none");
		}
		assert_int_equal(
			has_note(&lab, "health check"), rows[i].port != 0 && rows[i].port != 53);
		done(&lab);
	}
}

static const json_t *member(const json_t *object, const char *path) {
	const char *slash = strchr(path, '/');
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)(slash - path), path);
	object = json_object_get(object, name);
	if (json_is_array(object)) {
		object = json_array_get(object, 0);
	}
	return json_object_get(object, slash + 1);
}

TEST(defaults_are_those_of_keepalived) {
	char text[1024];

	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
		struct lab lab;
		const json_t *value;
		bool right;

		snprintf(text, sizeof(text), SERVER, defaults[i].of_virtual, defaults[i].of_real);
		lab = import(text, true, NULL);
		if (strstr(defaults[i].path, "note") != NULL) {
			right = has_note(&lab, defaults[i].text) ==
				(strcmp(defaults[i].path, "note") == 0);
		} else {
			value = member(service(&lab, 0), defaults[i].path);
			right = defaults[i].text == NULL
					? json_integer_value(value) == defaults[i].number
				: defaults[i].text[0] == '\0'
					? value == NULL
					: value != NULL && strcmp(json_string_value(value),
								   defaults[i].text) == 0;
		}
		if (!right) {
			fail_msg("%s, by default %s: %s\n%s", defaults[i].key, defaults[i].fallback,
				lab.text, json_dumps(lab.import.notes, JSON_INDENT(1)));
		}
		done(&lab);
	}
}

// keepalived ignores "ops" of TCP services. The statement can precede the protocol.
TEST(ops_becomes_udp_datagram) {
	static const char *const settings[][2] = {{"protocol UDP\n ops", "datagram"},
		{"ops\n protocol UDP", "datagram"}, {"protocol UDP", NULL},
		{"protocol TCP\n ops", NULL}, {"ops\n protocol TCP", NULL}};
	char text[256];

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		struct lab lab;
		const json_t *udp;

		snprintf(text, sizeof(text),
			"virtual_server 192.0.2.1 53 {\n %s\n lb_kind TUN\n" REAL "}\n",
			settings[i][0]);
		lab = import(text, true, NULL);
		udp = json_object_get(service(&lab, 0), "udp");
		if (settings[i][1] == NULL) {
			assert_null(udp);
		} else {
			assert_string_equal(json_string_value(udp), settings[i][1]);
		}
		assert_false(has_note(&lab, "ops"));
		done(&lab);
	}
}

// If the protocol is missing, keepalived uses UDP. Operators often forget the line, so the import
// adds a note.
TEST(missing_protocol_is_noted) {
	struct lab lab = import("virtual_server 192.0.2.1 80 {\n" REAL "}\n", true, NULL);

	expect_note(&lab, 1, "the default of keepalived is UDP");
	done(&lab);
}

// Only NAT changes the destination port to the port of the server. With other methods, servers
// receive packets at the port of the VIP, and IPVS ignores the port of the server.
TEST(port_of_a_server_counts_with_nat_only) {
	static const char format[] = "virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_kind %s\n"
				     " real_server 10.0.0.1 8080 {\n TCP_CHECK {\n }\n }\n}\n";
	char text[256];

	static const char *const notes[][3] = {{"NAT", "adjust", "the server listens on port 8080"},
		{"DR", "left out", "port 8080 has no effect, as in IPVS"},
		{"TUN", "left out", "port 8080 has no effect, as in IPVS"}};

	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		struct lab lab;

		snprintf(text, sizeof(text), format, notes[i][0]);
		lab = import(text, true, NULL);
		assert_true(has_note(&lab, "10.0.0.1"));
		expect_note(&lab, 4, notes[i][2]);
		assert_true(notes_of_kind(&lab, notes[i][1]) > 0);
		assert_int_equal(
			number_in(json_object_get(service(&lab, 0), "health_check"), "port"), 8080);
		done(&lab);
	}
}

// The report has a single line for the ignored ports of all servers.
TEST(ignored_ports_are_one_note_of_the_report) {
	struct lab lab =
		import("virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_kind DR\n"
		       " real_server 10.0.0.1 8080 {\n }\n real_server 10.0.0.2 8081 {\n }\n"
		       " real_server 10.0.0.3 80 {\n }\n}\n",
			true, NULL);
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	weir_import_report_print(out, &lab.import, false);
	fclose(out);
	expect_contains(text,
		"source:4: left out: 10.0.0.1, and 1 more: port 8080 has no effect, as in IPVS "
		"with direct routing and tunnels: packets arrive at the port of the VIP; "
		"line 6\n");
	free(text);
	done(&lab);
}

// --- what cannot be imported --------------------------------------------------------------

#define GOOD "virtual_server 192.0.2.9 80 {\n protocol TCP\n" REAL "}\n"
#define BAD(keys) "virtual_server 192.0.2.1 80 {\n protocol TCP\n " keys "\n" REAL "}\n"
#define BAD_SERVER(server) BAD(server " {\n }")
#define BAD_CHECK(keys) BAD("real_server 10.0.0.2 80 {\n HTTP_GET {\n " keys "\n }\n }")

// A statement that Weir or keepalived does not support is omitted with a note. All other statements
// are imported.
static const struct {
	const char *text;
	const char *kind, *part; // kind of a note, and a part of its text
	int line;
	size_t services; // number of services in the result
	size_t backends; // number of backends of the first service
} without[] = {
	{BAD_SERVER("real_server 127.0.0.1 80"), "missing", "is a loopback address", 3, 2, 1},
	{BAD_SERVER("real_server 192.0.2.1 80"), "missing", "is a VIP", 3, 2, 1},
	{BAD_SERVER("real_server web-1 80"), "missing", "not an IP address", 3, 2, 1},
	{BAD_SERVER("real_server 10.0.0.2 http"), "missing", "the port is not a number", 3, 2, 1},
	{BAD_SERVER("real_server 10.0.0.2/32 80"), "adjust", "only in a virtual_server_group", 3, 2,
		2},
	{"virtual_server 224.0.0.1 80 {\n" REAL "}\n", "missing", "is a multicast address", 1, 1,
		1},
	{"virtual_server 192.0.2.1 80 {\n real_server ::1 80 {\n }\n}\n", "missing",
		"is a loopback address", 2, 1, 1},
	{"virtual_server www 80 {\n" REAL "}\n", "missing", "\"www\" is not an IP address", 1, 1,
		1},
	{"virtual_server 192.0.2.1 http {\n" REAL "}\n", "missing", "the port is not a number", 1,
		1, 1},
	{"virtual_server group X {\n" REAL "}\n", "missing", "no virtual_server_group \"X\"", 1, 1,
		1},
	{"virtual_sever 192.0.2.1 80 {\n}\n", "missing", "did you mean virtual_server?", 1, 1, 1},
	{"virtual_server 192.0.2.1 80 {\n}\n", "missing", "no real servers", 1, 1, 1},
	{"virtual_server fwmark 7 {\n" REAL "}\n", "missing", "fwmark-7", 1, 1, 1},
	{BAD("delay_loop x"), "adjust", "use a number of seconds", 3, 2, 1},
	{BAD("delay_loop 7200"), "differs", "above the maximum of Weir; using 3600 s", 3, 2, 1},
	{BAD("connect_timeout 9999"), "differs", "above the maximum of Weir; using 3600 s", 3, 2,
		1},
	{BAD("retry 300"), "differs", "above the maximum of Weir; using 254", 3, 2, 1},
	{BAD("weight x"), "adjust", "use a number from 1 to 65535", 3, 2, 1},
	{BAD("protocol QUIC"), "adjust", "use TCP, UDP or SCTP", 3, 2, 1},
	{BAD("lb_kind dr"), "adjust", "use NAT, DR or TUN", 3, 2, 1},
	{BAD("lb_algo loadbalance"), "adjust", "unknown scheduler; using wlc", 3, 2, 1},
	{BAD("virtualhost \"www a\""), "left out", "x", 0, 2, 1},
	{BAD_CHECK("url { path /\n virtualhost \"www a\"\n }"), "left out", "contains a space", 1,
		2, 2},
	{BAD_CHECK("url { path /\n status_code 2xx\n }"), "adjust", "use codes", 6, 2, 2},
	{BAD("lvs_timeouts\n}\nglobal_defs {\n lvs_timeouts tcp x\n}\nvirtual_server 192.0.2.2 80 "
	     "{"),
		"adjust", "use tcp, tcpfin or udp", 6, 2, 1},
	{"global_defs {\n lvs_timeouts tcp 200000\n}\n", "differs",
		"above the maximum of Weir; using "
		"86400 s",
		2, 1, 1},
	{"global_defs {\n router_id \"x\n}\n", "missing", "a quote is not closed", 2, 1, 1},
	{"include nowhere.conf\n", "missing", "No such file", 1, 1, 1},
	{"include long\n", "missing", "File name too long", 1, 1, 1},
	{"~LST(A, 1, 2) x\n", "missing", "does not support this repetition", 1, 1, 1},
	{"{\n}\n", "adjust", "write the name of the block", 1, 1, 1},
	{"global_defs {\n}\n}\n", "adjust", "no block is open", 3, 1, 1},
	{"global_defs {\n", "adjust", "before the next virtual_server", 1, 1, 1},
	{"virtual_server 192.0.2.2 80 {\n real_server 10.0.0.2 80 {\n  TCP_CHECK {\n  }\n",
		"adjust", "before the next virtual_server", 2, 2, 1},
};

TEST(unsupported_statements_are_left_out_and_the_rest_imported) {
	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
		char text[1024];
		struct lab lab;

		snprintf(text, sizeof(text), "%s" GOOD, without[i].text);
		lab = import(text, true, NULL);
		if (json_array_size(json_object_get(lab.config, "services")) !=
			without[i].services) {
			fail_msg("%s: %s", text, json_dumps(lab.import.errors, 0));
		}
		assert_int_equal(json_array_size(json_object_get(service(&lab, 0), "backends")),
			without[i].backends);
		if (without[i].line > 0) {
			expect_note(&lab, without[i].line, without[i].part);
			assert_true(notes_of_kind(&lab, without[i].kind) > 0);
		}
		done(&lab);
	}
}

// One line has hundreds of words, such as a payload of UDP_CHECK. Another line exceeds the maximum
// length.
TEST(long_lines_are_left_out) {
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);
	struct lab lab;

	fprintf(out, "virtual_server 192.0.2.1 53 {\n protocol UDP\n real_server 10.0.0.1 53 {\n"
		     " UDP_CHECK {\n payload");
	for (int i = 0; i < 600; i++) {
		fprintf(out, " %02x", i % 256);
	}
	fprintf(out, "\n }\n }\n}\n# ");
	for (int i = 0; i < 9000; i++) {
		fputc('x', out);
	}
	fprintf(out, "\n" GOOD);
	fclose(out);
	lab = import(text, true, NULL);
	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 2);
	expect_note(&lab, 5, "only the first 256 words");
	expect_note(&lab, 9, "longer than");
	done(&lab);
	free(text);
}

// An omitted service gives only one note, and its address can be used by another service.
TEST(service_that_is_left_out_has_no_other_notes) {
	struct lab lab = import("virtual_server 192.0.2.9 80 {\n protocol TCP\n lb_kind NAT\n"
				" persistence_timeout 60\n quorum 3\n}\n" GOOD,
		true, NULL);

	expect_note(&lab, 1, "no real servers");
	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 1);
	for (int line = 2; line < 6; line++) {
		assert_false(has_row(lab.import.notes, "what", line, ""));
	}
	done(&lab);
}

TEST(service_without_its_checks_is_noted_once) {
	static const char text[] =
		"virtual_server 192.0.2.1 53 {\n protocol UDP\n lb_kind TUN\n"
		" real_server 10.0.0.1 53 {\n FILE_CHECK {\n }\n }\n"
		" real_server 10.0.0.2 53 {\n BFD_CHECK {\n name x\n }\n }\n}\n"
		"virtual_server 192.0.2.9 80 {\n protocol TCP\n lb_kind TUN\n" REAL "}\n";
	struct lab lab = import(text, true, NULL);

	expect_note(&lab, 1, "no health check imported");
	assert_int_equal(notes_of_kind(&lab, "adjust"), 2); // one more note about ports
	done(&lab);
}

// --- groups -------------------------------------------------------------------------------

static const struct {
	const char *entry;
	size_t binds; // number of binds; 0 = skipped
	const char *first, *last;
} entries[] = {
	{"198.51.100.8/29", 8, "198.51.100.8", "198.51.100.15"},
	{"198.51.100.8-15", 8, "198.51.100.8", "198.51.100.15"},
	{"198.51.100.254-198.51.101.1", 4, "198.51.100.254", "198.51.101.1"},
	{"198.51.100.8-198.51.100.8", 1, "198.51.100.8", "198.51.100.8"},
	{"198.51.100.8/32", 1, "198.51.100.8", "198.51.100.8"},
	{"2001:db8::fff0/124", 16, "2001:db8::fff0", "2001:db8::ffff"},
	{"2001:db8::e-1f", 18, "2001:db8::e", "2001:db8::1f"},
	{"2001:db8::ffff-2001:db8::1:1", 3, "2001:db8::ffff", "2001:db8::1:1"},
	{"198.51.100.9/29", 0, NULL, NULL}, // an address with bits beyond the mask
	{"198.51.100.8/33", 0, NULL, NULL},
	{"198.51.100.8/0", 0, NULL, NULL},
	{"198.51.100.8-8", 0, NULL, NULL},
	{"198.51.100.8-256", 0, NULL, NULL},
	{"198.51.100.8-198.51.100.7", 0, NULL, NULL},
	{"198.51.100.8-2001:db8::1", 0, NULL, NULL},
	{"198.51.100.8-", 0, NULL, NULL},
};

TEST(ranges_of_groups_become_binds) {
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		char text[256];
		struct lab lab;
		const json_t *binds;

		snprintf(text, sizeof(text),
			"virtual_server_group G {\n 192.0.2.1 80\n %s 80\n}\n"
			"virtual_server group G {\n protocol TCP\n" REAL "}\n",
			entries[i].entry);
		lab = import(text, true, NULL);
		binds = json_object_get(service(&lab, 0), "binds");
		if (json_array_size(binds) != entries[i].binds + 1) {
			fail_msg("%s: %zu binds", entries[i].entry, json_array_size(binds));
		}
		if (entries[i].binds > 0) {
			assert_string_equal(
				text_in(json_array_get(binds, 1), "address"), entries[i].first);
			assert_string_equal(
				text_in(json_array_get(binds, entries[i].binds), "address"),
				entries[i].last);
		} else {
			expect_note(&lab, 3, "keepalived also skips this statement");
		}
		done(&lab);
	}
}

// --- definitions --------------------------------------------------------------------------

TEST(definitions_have_several_lines) {
	static const char text[] =
		"$CHECK=TCP_CHECK { \\\n"
		"   connect_timeout $TIMEOUT \\\n"
		"   # a comment \\\n"
		" }\n"
		"$TIMEOUT=2\n"
		"$SERVICE= \\\n"
		"virtual_server ${NET}.$N 80 { \\\n"
		" protocol TCP \\\n"
		" ~SEQ(R, 1, 3) $SERVER \\\n"
		"}\n"
		"$SERVER=real_server 10.0.0.$R 80 { \\\n"
		" $CHECK \\\n"
		" }\n"
		"$NET=192.0.2\n"
		"$LAST=20\n"
		"~SEQ(N, 10, 5, ${LAST}) $SERVICE\n"
		"vrrp_script X {\n script \"${_PWD}/x ${OTHER} ${_RANDOM 1 9}\"\n}\n";
	struct lab lab = import(text, true, NULL);
	const json_t *last = service(&lab, 2);

	assert_int_equal(json_array_size(lab.import.errors), 0);
	assert_int_equal(json_array_size(json_object_get(lab.config, "services")), 3);
	assert_int_equal(json_array_size(json_object_get(last, "backends")), 3);
	assert_int_equal(number_in(json_object_get(last, "health_check"), "timeout_ms"), 2000);
	assert_string_equal(text_in(json_array_get(json_object_get(last, "binds"), 0), "address"),
		"192.0.2.20");
	done(&lab);
}

TEST(definition_that_contains_itself_ends) {
	struct lab lab = import("$A= \\\n x $A \\\n y $A \\\n z $A\n$A\n" GOOD, true, NULL);

	done(&lab); // the import must end, with or without an error
}

// A definition has 3,000 lines, and each line uses another definition of 3,000 lines. Together
// these are 9,000,000 lines.
TEST(definitions_that_multiply_end) {
	char *text = malloc(100000);
	size_t used = 0;
	struct lab lab;

	for (unsigned int n = 0; n < 2; n++) {
		used += (size_t)sprintf(text + used, n == 0 ? "$A=x" : "$B=x");
		for (unsigned int i = 0; i < 3000; i++) {
			used += (size_t)sprintf(text + used, n == 0 ? " \\\nx" : " \\\n$A");
		}
		used += (size_t)sprintf(text + used, "\n");
	}
	sprintf(text + used, "$B\n");
	lab = import(text, true, NULL);
	assert_null(lab.text);
	assert_true(has_row(lab.import.errors, "reason", 6003, "100001 lines use definitions"));
	assert_true(json_array_size(lab.import.notes) < 110000);
	done(&lab);
	free(text);
}

// Several services have the same 16 million addresses. The import limits its search for an unused
// address.
TEST(services_that_share_a_wide_range_have_few_notes) {
	char text[4096];
	size_t used = (size_t)sprintf(text, "virtual_server_group g {\n 10.0.0.0/8 80\n}\n");
	struct lab lab;

	for (unsigned int i = 0; i < 20; i++) {
		used += (size_t)sprintf(text + used,
			"virtual_server group g {\n protocol TCP\n real_server 192.0.2.1 80 {\n"
			" }\n}\n");
	}
	lab = import(text, true, NULL);
	assert_int_equal(json_array_size(json_object_get(service(&lab, 0), "binds")), 256);
	assert_null(service(&lab, 1));
	expect_note(&lab, 9, "another service already has its addresses (line 2)");
	assert_true(json_array_size(lab.import.notes) < 100);
	done(&lab);
}

TEST(built_in_definitions_are_replaced) {
	struct lab lab =
		import("virtual_server 192.0.2.1 8${_RANDOM 1 9} {\n protocol TCP\n"
		       " virtualhost ${_PWD}.example\n"
		       " real_server 10.0.0.1 80 {\n HTTP_GET { url {\n path /\n } }\n }\n}\n",
			true, NULL);

	assert_string_equal(
		text_in(json_object_get(service(&lab, 0), "health_check"), "host"), "..example");
	done(&lab);
}

// keepalived ignores checks and servers that follow another word on the same line.
TEST(checks_and_servers_behind_other_words_are_noted) {
	struct lab lab =
		import("virtual_server 192.0.2.1 80 {\n"
		       " real_server 10.0.0.1 80 { weight 1 MISC_CHECK { misc_path \"/x\" } }\n"
		       " real_server 10.0.0.2 80 {\n"
		       "  TCP_CHECK { connect_timeout 3 connect_port 80 } HTTP_GET { url {\n"
		       "   path / status_code 200 } }\n"
		       "  inhibit_on_failure TCP_CHECK { }\n"
		       " }\n delay_loop 6 real_server 10.0.0.3 80 { weight 2 }\n}\n",
			true, NULL);

	expect_note(&lab, 2, "not read, because it follows \"weight\"");
	expect_note(&lab, 6, "not read, because it follows \"inhibit_on_failure\"");
	expect_note(&lab, 8, "not read, because it follows \"delay_loop\"");
	done(&lab);
}

// --- sorry servers --------------------------------------------------------------------------

#define SORRY(keys, check) \
	"virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_algo rr\n lb_kind TUN\n" keys \
	"\n real_server 10.0.0.1 80 {\n weight 7\n" check " }\n}\n"

static const json_t *backend(const struct lab *lab, size_t n) {
	return json_array_get(json_object_get(service(lab, 0), "backends"), n);
}

TEST(sorry_server_becomes_a_backup) {
	struct lab lab =
		import(SORRY("sorry_server 192.0.2.90 80\n sorry_server_inhibit", ""), true, NULL);
	const json_t *backup = backend(&lab, 1);

	assert_int_equal(json_array_size(json_object_get(service(&lab, 0), "backends")), 2);
	assert_null(json_object_get(backend(&lab, 0), "backup"));
	assert_string_equal(text_in(backup, "address"), "192.0.2.90");
	assert_true(json_is_true(json_object_get(backup, "backup")));
	assert_int_equal(number_in(backup, "weight"), 7);
	assert_false(has_note(&lab, "sorry"));
	done(&lab);
	// keepalived does not check a sorry server
	lab = import(SORRY("sorry_server 192.0.2.90", "TCP_CHECK {\n }\n"), true, NULL);
	expect_note(&lab, 5, "is used only if it passes the health check");
	done(&lab);
	lab = import(SORRY("sorry_server 192.0.2.90\n quorum 3", ""), true, NULL);
	expect_note(&lab, 6, "set backup_below_percent");
	done(&lab);
}

TEST(sorry_server_has_its_method_and_no_port) {
	struct lab lab = import(
		SORRY("sorry_server 192.0.2.90 8080\n sorry_server_lvs_method DR", ""), true, NULL);

	assert_string_equal(text_in(backend(&lab, 1), "forwarding"), "l2");
	expect_note(&lab, 5, "port 8080 has no effect");
	done(&lab);
	lab = import(SORRY("sorry_server 192.0.2.90 8080\n sorry_server_lvs_method NAT", ""), true,
		NULL);
	expect_note(&lab, 5, "the server listens on port 8080");
	done(&lab);
}

// A server on the balancer itself cannot be a backend; neither can a real server be a backup.
TEST(sorry_servers_that_cannot_be_backups) {
	static const char *const local[] = {"127.0.0.1 80", "127.0.0.53", "::1 80"};
	struct lab lab;
	char text[256];

	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
		snprintf(text, sizeof(text), SORRY("sorry_server %s", ""), local[i]);
		lab = import(text, true, NULL);
		assert_int_equal(json_array_size(json_object_get(service(&lab, 0), "backends")), 1);
		expect_note(&lab, 5, "run it on another host, as a backend with \"backup\": true");
		assert_int_equal(notes_of_kind(&lab, "missing"), 1);
		done(&lab);
	}
	lab = import(SORRY("sorry_server 10.0.0.1 80", ""), true, NULL);
	assert_int_equal(json_array_size(json_object_get(service(&lab, 0), "backends")), 1);
	expect_note(&lab, 5, "is also a real server");
	done(&lab);
}

// The weight of a sorry server makes no weights different, and it needs no connection limit.
TEST(sorry_server_changes_nothing_else) {
	struct lab lab = import("virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_algo wlc\n"
				" lb_kind TUN\n sorry_server 192.0.2.90\n"
				" real_server 10.0.0.1 80 {\n weight 7\n uthreshold 50\n }\n"
				" real_server 10.0.0.2 80 {\n weight 7\n uthreshold 50\n }\n}\n",
		true, NULL);

	assert_string_equal(policy(&lab, 0), "least-loaded");
	assert_int_equal(
		number_in(json_object_get(service(&lab, 0), "flow_control"), "max_active_flows"),
		50);
	assert_false(has_note(&lab, "upper threshold"));
	done(&lab);
}
