// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import keepalived: the checkers of real servers become the health check of a
// service.
#include "keepalived_lab.h"

static struct lab with_checker(const char *checker) {
	char text[1024];

	snprintf(text, sizeof(text),
		"virtual_server 192.0.2.1 80 {\n delay_loop 2.5\n virtualhost vh\n retry 3\n"
		" real_server 10.0.0.1 80 {\n %s\n }\n}\n",
		checker);
	return import(text, true, NULL);
}

// Returns the health check of the first service, or NULL.
static const json_t *health_check(const struct lab *lab) {
	return json_object_get(service(lab, 0), "health_check");
}

TEST(digest_or_regex_of_a_body) {
	struct lab lab = with_checker("HTTP_GET { url { path /x\n digest "
				      "900150983cd24fb0d6963f7d28e17f72\n regex abc } }");

	assert_string_equal(
		text_in(health_check(&lab), "body_md5"), "900150983cd24fb0d6963f7d28e17f72");
	assert_null(json_object_get(health_check(&lab), "body_regex"));
	expect_note(&lab, 8, "using the digest");
	done(&lab);
	lab = with_checker(
		"HTTP_GET { url { path /x\n regex \"state: *up$\"\n regex_options caseless "
		"multiline utf\n regex_max_offset 9 } }");
	assert_string_equal(text_in(health_check(&lab), "body_regex"), "(?im)state: *up$");
	expect_note(&lab, 8, "body_regex has no such option");
	expect_note(&lab, 9, "searches the first 64 KiB");
	done(&lab);
	lab = with_checker("HTTP_GET { url { path /x\n regex down\n regex_no_match } }");
	assert_null(json_object_get(health_check(&lab), "body_regex"));
	expect_note(&lab, 7, "write a pattern for good bodies");
	done(&lab);
	// the check remains without what Weir refuses
	lab = with_checker("HTTP_GET { url { path /x\n digest 9001 } }");
	assert_string_equal(text_in(health_check(&lab), "path"), "/x");
	assert_null(json_object_get(health_check(&lab), "body_md5"));
	expect_note(&lab, 1, "has 2 bytes");
	done(&lab);
}

TEST(checkers_become_a_health_check) {
	struct lab lab = with_checker("HTTP_GET { url { path /x\n status_code 200-204\n"
				      "virtualhost own }\n connect_port 81\n connect_timeout 9 }");
	const json_t *check = health_check(&lab);

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
	check = health_check(&lab);
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
	check = health_check(&lab);
	assert_string_equal(text_in(check, "type"), "ping");
	assert_null(json_object_get(check, "port"));
	expect_note(&lab, 6, "does not test the service");
	done(&lab);
	lab = with_checker("PING_CHECK {\n }\n TCP_CHECK {\n }");
	check = health_check(&lab);
	assert_string_equal(text_in(check, "type"), "tcp");
	done(&lab);
	lab = with_checker("SMTP_CHECK { host { connect_port 25 } }");
	check = health_check(&lab);
	assert_int_equal(number_in(check, "port"), 25);
	assert_string_equal(text_in(check, "type"), "tcp");
	assert_string_equal(text_in(check, "expect"), "220");
	expect_note(&lab, 6, "expects the greeting 220");
	done(&lab);
	lab = with_checker("TCP_CHECK {\n }\n SMTP_CHECK {\n }");
	check = health_check(&lab);
	assert_string_equal(text_in(check, "expect"), "220");
	expect_note(&lab, 6, "using another checker of this server");
	done(&lab);
}

TEST(dns_check_becomes_a_dns_check) {
	struct lab lab = with_checker("DNS_CHECK {\n type aaaa\n name www.example.com\n }");
	const json_t *check = health_check(&lab);

	assert_string_equal(text_in(check, "type"), "dns");
	assert_string_equal(text_in(check, "name"), "www.example.com");
	assert_string_equal(text_in(check, "record"), "AAAA");
	assert_null(json_object_get(check, "retry_interval_ms")); // the interval
	done(&lab);
	lab = with_checker("DNS_CHECK {\n type ANY\n name a..b\n }");
	check = health_check(&lab);
	assert_string_equal(text_in(check, "name"), ".");
	assert_string_equal(text_in(check, "record"), "SOA");
	expect_note(&lab, 7, "unknown type");
	expect_note(&lab, 8, "give a domain name");
	done(&lab);
}

// keepalived reads two digits for each byte; a word may end with one digit.
TEST(udp_check_becomes_a_udp_check) {
	struct lab lab = with_checker("UDP_CHECK {\n payload Ab12f 3\n require_reply 00 81 XX 7\n "
				      "min_reply_length 4\n }");
	const json_t *check = health_check(&lab);
	char text[600];

	assert_string_equal(text_in(check, "type"), "udp");
	assert_string_equal(text_in(check, "send_hex"), "ab120f03");
	assert_string_equal(text_in(check, "expect_hex"), "0081");
	expect_note(&lab, 8, "before the first X");
	expect_note(&lab, 9, "length of a reply is not checked");
	done(&lab);
	lab = with_checker("UDP_CHECK {\n payload 0g\n require_reply\n }");
	check = health_check(&lab);
	assert_null(json_object_get(check, "send_hex"));
	assert_null(json_object_get(check, "expect_hex"));
	expect_note(&lab, 7, "give hexadecimal digits");
	expect_note(&lab, 8, "also passes without a reply");
	done(&lab);
	snprintf(text, sizeof(text), "UDP_CHECK {\n require_reply %0512d\n }", 0);
	lab = with_checker(text);
	check = health_check(&lab);
	assert_int_equal(strlen(text_in(check, "expect_hex")), 2 * 255);
	expect_note(&lab, 7, "only the first 255 bytes");
	done(&lab);
	lab = with_checker("UDP_CHECK {\n require_reply xx01\n }");
	check = health_check(&lab);
	assert_null(json_object_get(check, "expect_hex"));
	expect_note(&lab, 7, "also passes without a reply");
	done(&lab);
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
		const json_t *check;

		snprintf(text, sizeof(text),
			"virtual_server 192.0.2.1 53 {\n protocol %s\n lb_kind NAT\n"
			" real_server %s {\n %s {\n }\n }\n}\n",
			rows[i].protocol, rows[i].servers, rows[i].checker);
		lab = import(text, true, NULL);
		check = health_check(&lab);
		if (check == NULL ||
			json_integer_value(json_object_get(check, "port")) != rows[i].port) {
			fail_msg("%s: %s", text, check != NULL ? json_dumps(check, 0) : "none");
		}
		assert_int_equal(
			has_note(&lab, "health check"), rows[i].port != 0 && rows[i].port != 53);
		done(&lab);
	}
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

// --- MISC_CHECK ---------------------------------------------------------------------------

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
	const json_t *check = health_check(&lab);

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
	check = health_check(&lab);
	expect_words(check, words);
	assert_int_equal(number_in(check, "timeout_ms"), 2000);
	assert_int_equal(number_in(check, "fall"), 2);
	assert_true(json_is_true(json_object_get(check, "weight_from_exit")));
	expect_note(&lab, 10, "all programs run as the user of");
	done(&lab);
	lab = with_checker("MISC_CHECK {\n misc_path /x y\n misc_timeout 9\n }");
	check = health_check(&lab);
	expect_words(check, plain);
	assert_int_equal(number_in(check, "timeout_ms"), 2500);
	expect_note(
		&lab, 7, "ignore the words after the script: quote the script with its arguments");
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

// A command has at most 1,024 bytes, with a NUL after each word.
TEST(misc_check_with_a_long_command) {
	static const struct {
		int lengths[16]; // of the words after "/", -1 = the end
		bool fits;
	} cases[] = {
		{{254, 255, 255, 255, -1}, true},
		{{254, 255, 256, -1}, false},
		{{254, 255, 255, 254, 0, -1}, true},
		{{254, 255, 255, 254, 1, -1}, false},
		{{245, 246, 246, 246, 26, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 246}, false},
	};
	char many[257] = "";

	memset(many, 'x', sizeof(many) - 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[2048] = "virtual_server 192.0.2.1 80 {\n protocol TCP\n real_server "
				  "10.0.0.1 80 {\n MISC_CHECK {\n misc_path \"/";
		const int *length = cases[i].lengths;
		size_t words = 0, at = strlen(text);
		struct lab lab;

		for (; words < 16 && length[words] >= 0; words++) {
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s'%.*s'",
				words == 0 ? "" : " ", length[words], many);
		}
		snprintf(text + at, sizeof(text) - at, "\"\n }\n }\n}\n");
		lab = import(text, true, NULL);
		if (!cases[i].fits) {
			expect_note(&lab, 4, "at most 32 words of 255 bytes, 1024 bytes in all");
			words = 0;
		}
		assert_int_equal(
			json_array_size(json_object_get(health_check(&lab), "command")), words);
		done(&lab);
	}
}

TEST(url_blocks_become_urls) {
	static const char text[] =
		"virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_kind TUN\n"
		" real_server 10.0.0.1 80 {\n HTTP_GET {\n"
		" url {\n path /a\n status_code 204\n }\n"
		" url {\n path /b\n digest 444bcb3a3fcf8389296c49467f27e1d6\n }\n"
		" url {\n path /c\n status_code 301\n virtualhost x\n }\n"
		" url {\n path /b\n }\n"
		" url {\n status_code 200\n }\n"
		" }\n }\n"
		" real_server 10.0.0.2 80 {\n HTTP_GET {\n url {\n path /a\n }\n }\n }\n}\n";
	struct lab lab = import(text, true, NULL);
	const json_t *check = health_check(&lab);
	const json_t *urls = json_object_get(check, "urls");

	assert_string_equal(text_in(check, "path"), "/a");
	assert_int_equal(number_in(check, "status_last"), 204);
	assert_int_equal(json_array_size(urls), 2);
	assert_string_equal(text_in(json_array_get(urls, 0), "path"), "/b");
	assert_int_equal(number_in(json_array_get(urls, 0), "status_last"), 299);
	assert_string_equal(
		text_in(json_array_get(urls, 0), "body_md5"), "444bcb3a3fcf8389296c49467f27e1d6");
	assert_int_equal(number_in(json_array_get(urls, 1), "status_first"), 301);
	expect_note(&lab, 14, "have the same host");
	expect_note(&lab, 19, "requests each path once");
	expect_note(&lab, 22, "a url block needs a path");
	urls = json_object_get(json_object_get(backend(&lab, 1), "health_check"), "urls");
	assert_true(json_is_array(urls) && json_array_size(urls) == 0); // not those of the service
	done(&lab);
}

// A host is left out only if it differs from that of the first URL.
TEST(url_blocks_with_the_same_host) {
	static const char text[] =
		"virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_kind TUN\n virtualhost vs\n"
		" real_server 10.0.0.1 80 {\n HTTP_GET {\n"
		" url {\n path /a\n virtualhost x\n }\n"
		" url {\n path /b\n virtualhost x\n }\n"
		" url {\n path /c\n }\n virtualhost checker\n }\n }\n"
		" real_server 10.0.0.2 80 {\n HTTP_GET {\n"
		" url {\n path /a\n }\n url {\n path /b\n virtualhost vs\n }\n }\n }\n}\n";
	struct lab lab = import(text, true, NULL);

	assert_string_equal(text_in(health_check(&lab), "host"), "x");
	assert_int_equal(notes_of_kind(&lab, "left out"), 1);
	expect_note(&lab, 15, "have the same host");
	done(&lab);
}

// The other URLs and the check stay, whatever the number of invalid URLs. An own check does not
// take from the check of the service what was left out of it.
TEST(invalid_urls_are_left_out) {
	static const char text[] =
		"virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_kind TUN\n"
		" real_server 10.0.0.1 80 {\n HTTP_GET {\n"
		" url {\n path /a\n digest 444bcb3a3fcf8389296c49467f27e1d6\n }\n"
		" url {\n path /b\n }\n }\n }\n"
		" real_server 10.0.0.2 80 {\n HTTP_GET {\n"
		" url {\n path /a\n digest 9001\n }\n"
		" url {\n path /b\n digest 9001\n }\n url {\n path /c\n digest 9001\n }\n"
		" }\n }\n}\n";
	struct lab lab = import(text, true, NULL);
	const json_t *own = json_object_get(backend(&lab, 1), "health_check");

	assert_int_equal(json_array_size(json_object_get(health_check(&lab), "urls")), 1);
	assert_string_equal(text_in(own, "path"), "/a");
	assert_true(json_is_null(json_object_get(own, "body_md5")));
	assert_true(json_is_array(json_object_get(own, "urls")));
	assert_int_equal(json_array_size(json_object_get(own, "urls")), 0);
	assert_int_equal(notes_of_kind(&lab, "left out"), 2);
	done(&lab);
}

// The first check is that of the service. What only this check has gets its default in the others,
// which would take it from the service otherwise.
TEST(checks_of_other_servers_are_their_own) {
	static const char text[] =
		"virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_kind TUN\n"
		" real_server 10.0.0.1 80 {\n TCP_CHECK {\n connect_port 81\n }\n }\n"
		" real_server 10.0.0.2 80 {\n TCP_CHECK {\n }\n }\n"
		" real_server 10.0.0.3 80 {\n MISC_CHECK {\n misc_path \"/x\"\n }\n }\n"
		" real_server 10.0.0.4 80 {\n }\n"
		" real_server 10.0.0.5 80 {\n TCP_CHECK {\n connect_port 81\n }\n }\n"
		"}\n";
	struct lab lab = import(text, true, NULL);
	const json_t *second = json_object_get(backend(&lab, 1), "health_check");

	assert_int_equal(number_in(json_object_get(service(&lab, 0), "health_check"), "port"), 81);
	assert_null(json_object_get(backend(&lab, 0), "health_check"));
	assert_string_equal(text_in(second, "type"), "tcp");
	assert_int_equal(number_in(second, "port"), 0);
	assert_string_equal(
		text_in(json_object_get(backend(&lab, 2), "health_check"), "type"), "exec");
	assert_null(json_object_get(json_object_get(backend(&lab, 2), "health_check"), "port"));
	assert_string_equal(
		text_in(json_object_get(backend(&lab, 3), "health_check"), "type"), "none");
	assert_null(json_object_get(backend(&lab, 4), "health_check"));
	done(&lab);
}

TEST(own_check_without_the_urls_of_the_first) {
	static const char text[] =
		"virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_kind TUN\n"
		" real_server 10.0.0.1 80 {\n HTTP_GET {\n url {\n path /a\n }\n"
		" url {\n path /b\n }\n }\n }\n"
		" real_server 10.0.0.2 80 {\n HTTP_GET {\n url {\n path /a\n }\n }\n }\n"
		"}\n";
	struct lab lab = import(text, true, NULL);
	const json_t *own = json_object_get(backend(&lab, 1), "health_check");

	assert_true(json_is_array(json_object_get(own, "urls")));
	assert_int_equal(json_array_size(json_object_get(own, "urls")), 0);
	done(&lab);
}

// The server stays, and only the invalid key of its check is left out.
TEST(invalid_key_of_an_own_check_is_left_out) {
	static const char text[] = "virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_kind TUN\n"
				   " real_server 10.0.0.1 80 {\n TCP_CHECK {\n }\n }\n"
				   " real_server 10.0.0.2 80 {\n HTTP_GET {\n url {\n path /\n "
				   "virtualhost \"www a\"\n }\n }\n }\n"
				   "}\n";
	struct lab lab = import(text, true, NULL);

	assert_int_equal(json_array_size(json_object_get(service(&lab, 0), "backends")), 2);
	expect_note(&lab, 8, "contains a space");
	assert_null(json_object_get(json_object_get(backend(&lab, 1), "health_check"), "host"));
	done(&lab);
}

// A label of a domain has at most 63 characters. The server is still checked, so no note says that
// it is not.
TEST(server_whose_own_check_is_left_out_has_the_check_of_the_service) {
	char text[512];
	struct lab lab;

	snprintf(text, sizeof(text),
		"virtual_server 192.0.2.1 53 {\n protocol TCP\n lb_kind TUN\n"
		" real_server 10.0.0.1 53 {\n TCP_CHECK {\n }\n }\n"
		" real_server 10.0.0.2 53 {\n DNS_CHECK {\n name %064d\n }\n }\n}\n",
		0);
	lab = import(text, true, NULL);
	assert_string_equal(text_in(health_check(&lab), "type"), "tcp");
	assert_null(json_object_get(backend(&lab, 1), "health_check"));
	expect_note(&lab, 8, "is not a domain name");
	expect_note(&lab, 8, "the check of the service also applies to this server");
	assert_false(has_note(&lab, "no health check imported"));
	done(&lab);
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
