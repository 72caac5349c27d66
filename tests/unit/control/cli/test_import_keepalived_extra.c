// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import keepalived: several statements on a line. keepalived reads the words of the
// first one only; the import does the same, and adds a note about the others.
#include <unistd.h>

#include "keepalived_lab.h"

#define IGNORED "keepalived and the import ignore these words, which follow \""

// The note about a line: its words that keepalived ignores; NULL = no note.
struct line {
	const char *text, *ignored;
};

// Returns the words in the note of a line about ignored words, or NULL.
static const char *ignored_in(const struct lab *lab, int line) {
	const json_t *row;
	size_t i;

	json_array_foreach (lab->import.notes, i, row) {
		if (number_in(row, "line") == line &&
			strstr(text_in(row, "why"), IGNORED) != NULL) {
			assert_string_equal(text_in(row, "kind"), "adjust");
			return text_in(row, "what");
		}
	}
	return NULL;
}

// Imports text with each of the lines between head and tail, and checks the notes of the line.
static void check_lines(
	const struct line *lines, size_t count, const char *head, int number, const char *tail) {
	for (size_t i = 0; i < count; i++) {
		char text[1024];
		const char *found;
		struct lab lab;

		snprintf(text, sizeof(text), "%s%s\n%s" GOOD, head, lines[i].text, tail);
		lab = import(text, true, NULL);
		found = ignored_in(&lab, number);
		if ((found == NULL) != (lines[i].ignored == NULL) ||
			(found != NULL && strcmp(found, lines[i].ignored) != 0)) {
			fail_msg("%s: %s", lines[i].text, found != NULL ? found : "no note");
		}
		done(&lab);
	}
}

static const struct line of_global[] = {
	{"router_id lb-a lvs_timeouts tcp 900", "lvs_timeouts tcp 900"},
	{"enable_script_security router_id lb-a", "router_id lb-a"},
	{"smtp_server 127.0.0.1 25", NULL},
	{"lvs_timeouts tcp 900 tcpfin 30 udp 30", NULL},
};

static const struct line of_head[] = {
	{"virtual_server 192.0.2.1 80 protocol TCP {", "protocol TCP"},
	{"virtual_server group g lb_algo rr {", "lb_algo rr"},
	{"virtual_server 192.0.2.1 {", NULL},
};

static const struct line of_virtual[] = {
	{"delay_loop 10 lb_algo rr", "lb_algo rr"}, {"lb_algo rr lb_kind DR", "lb_kind DR"},
	{"lvs_sched rr sh-port", "sh-port"},
	{"lb_kind DR persistence_timeout 50", "persistence_timeout 50"},
	{"lvs_method NAT protocol TCP", "protocol TCP"},
	{"lb_kind TUN type gue port 5555 nocsum", NULL}, {"protocol UDP ops", "ops"},
	{"ops protocol UDP", "protocol UDP"},
	{"persistence_timeout 50 persistence_granularity 255.255.255.0",
		"persistence_granularity 255.255.255.0"},
	{"persistence_granularity 255.255.255.0 lb_algo rr", "lb_algo rr"},
	{"persistence_timeout", NULL}, {"weight 3 delay_loop 2", "delay_loop 2"},
	{"quorum 2 hysteresis 1", "hysteresis 1"}, {"ha_suspend omega", "omega"},
	{"alpha omega", "omega"}, {"alpha on omega", "omega"}, {"smtp_alert off", NULL},
	{"sorry_server 10.0.0.9 80 sorry_server_inhibit", "sorry_server_inhibit"},
	{"sorry_server 10.0.0.9 80", NULL},
	{"sorry_server 10.0.0.9 80\n sorry_server_lvs_method DR weight 3", NULL}, // next line
	{"virtualhost www.example.org retry 2", "retry 2"},
	{"quorum_up \"/usr/bin/up a\" nobody nogroup", NULL},
	{"real_server 10.0.0.2 80 weight 3 { }", "weight 3"},
	{"real_server 10.0.0.2 80 { weight 3 }", NULL},
	{"real_server 10.0.0.2 { weight 3 lvs_method DR }", "lvs_method DR"},
	{"retired 1 2 3", NULL}, // another note
};

static const struct line of_real[] = {
	{"weight 3 inhibit_on_failure", "inhibit_on_failure"},
	{"inhibit_on_failure weight 3", "weight 3"},
	{"inhibit_on_failure yes weight 3", "weight 3"},
	{"uthreshold 100 lthreshold 50", "lthreshold 50"},
	{"lvs_method TUN type gre csum", NULL},
	{"notify_down \"/usr/bin/down\" nobody", NULL},
	{"TCP_CHECK connect_timeout 3 { }", "connect_timeout 3"},
	{"TCP_CHECK { connect_timeout 3 retry 2 }", "retry 2"},
	{"TCP_CHECK { connect_ip 10.0.0.2 connect_port 81 }", "connect_port 81"},
	{"TCP_CHECK { bindto 10.0.0.3 bind_port 81 }", "bind_port 81"},
	{"DNS_CHECK { type A name example.org retry 2 }", "name example.org retry 2"},
	{"HTTP_GET { url { path /healthz status_code 200 } }", "status_code 200"},
	{"HTTP_GET { url { path / \n status_code 200 301 302\n } }", NULL},
	{"SSL_GET { enable_sni true fast_recovery\n url { path / } }", "fast_recovery"},
	{"UDP_CHECK { payload 01 02 03 }", NULL},
	{"MISC_CHECK { misc_path \"/usr/bin/check a\" misc_timeout 3 }", NULL}, // another note
	{"MISC_CHECK { misc_path /usr/bin/check\n user nobody nogroup\n }", NULL},
	{"MISC_CHECK { misc_path /usr/bin/check\n }\n FILE_CHECK { weight 3 reverse }", NULL},
	{"SMTP_CHECK { helo_name a connect_timeout 3\n host { connect_port 25 } }",
		"connect_timeout 3"},
};

static const struct line of_group[] = {
	{"192.0.2.5 80 192.0.2.6 80", "192.0.2.6 80"},
	{"192.0.2.5-9 80 lb_algo", "lb_algo"},
	{"192.0.2.5", NULL},
	{"fwmark 9 inet 192.0.2.6", "192.0.2.6"},
	{"fwmark 9 inet6", NULL},
};

TEST(words_behind_a_statement_are_ignored_with_a_note) {
	static const char virtual[] = "virtual_server 192.0.2.1 80 {\n protocol TCP\n";
	static const char real[] =
		"virtual_server 192.0.2.1 80 {\n protocol TCP\n real_server 10.0.0.1 80 {\n";

	check_lines(
		of_global, sizeof(of_global) / sizeof(of_global[0]), "global_defs {\n", 2, "}\n");
	check_lines(of_head, sizeof(of_head) / sizeof(of_head[0]),
		"virtual_server_group g {\n 192.0.2.5 80\n}\n", 4, REAL "}\n");
	check_lines(of_virtual, sizeof(of_virtual) / sizeof(of_virtual[0]), virtual, 3, REAL "}\n");
	check_lines(of_real, sizeof(of_real) / sizeof(of_real[0]), real, 4, "}\n}\n");
	check_lines(of_group, sizeof(of_group) / sizeof(of_group[0]),
		"virtual_server group g {\n protocol TCP\n" REAL "}\nvirtual_server_group g {\n", 7,
		" 192.0.2.7\n}\n");
}

// The settings that follow another one on a line have no effect.
TEST(only_the_first_statement_of_a_line_has_an_effect) {
	struct lab lab = import("virtual_server 192.0.2.1 80 {\n delay_loop 10 lb_algo rr\n"
				" protocol UDP ops\n lb_kind DR persistence_timeout 50\n"
				" real_server 10.0.0.1 80 {\n  weight 3 uthreshold 100\n"
				"  HTTP_GET { url { path /x status_code 404 } }\n }\n}\n",
		true, NULL);
	const json_t *check = json_object_get(service(&lab, 0), "health_check");

	assert_string_equal(policy(&lab, 0), "least-loaded"); // wlc, the default
	assert_null(json_object_get(service(&lab, 0), "udp"));
	assert_null(json_object_get(service(&lab, 0), "affinity"));
	assert_null(json_object_get(service(&lab, 0), "flow_control"));
	assert_string_equal(text_in(service(&lab, 0), "forwarding"), "l2");
	assert_int_equal(number_in(backend(&lab, 0), "weight"), 3);
	assert_int_equal(number_in(check, "interval_ms"), 10000);
	assert_string_equal(text_in(check, "path"), "/x");
	assert_int_equal(number_in(check, "status_first"), 200);
	assert_int_equal(number_in(check, "status_last"), 299);
	done(&lab);
}

// keepalived reads each name of lvs_timeouts with the word that follows it.
TEST(unknown_names_of_timeouts_are_skipped_alone) {
	struct lab lab =
		import("global_defs {\n lvs_timeouts sctp tcp 900 udp\n}\n" GOOD, true, NULL);
	const json_t *timeouts =
		json_object_get(json_object_get(lab.config, "flow_table"), "timeout_ms");

	assert_int_equal(number_in(timeouts, "established"), 900000);
	expect_note(&lab, 2, "ignore \"sctp\": use tcp, tcpfin or udp");
	expect_note(&lab, 2, "ignore \"udp\": use tcp, tcpfin or udp");
	done(&lab);
}

// keepalived ignores a regex of several words.
TEST(regex_is_one_word) {
	static const struct {
		const char *line, *regex, *note;
	} cases[] = {
		{"regex \"a b\"", "a b", NULL},
		{"regex a b", NULL, "write the pattern as one word, or in double quotes"},
		{"regex", NULL, "write the pattern as one word, or in double quotes"},
		{"regex 'a b'", NULL, "write the pattern in double quotes"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[512];
		const json_t *check;
		struct lab lab;

		snprintf(text, sizeof(text),
			"virtual_server 192.0.2.1 80 {\n protocol TCP\n real_server 10.0.0.1 80 {\n"
			" HTTP_GET { url { path /\n %s\n} } }\n}\n",
			cases[i].line);
		lab = import(text, true, NULL);
		check = json_object_get(service(&lab, 0), "health_check");
		if (cases[i].regex != NULL) {
			assert_string_equal(text_in(check, "body_regex"), cases[i].regex);
		} else {
			assert_null(json_object_get(check, "body_regex"));
			expect_note(&lab, 5, cases[i].note);
		}
		done(&lab);
	}
}

// keepalived reads no check and no server that follows another word on the same line.
TEST(blocks_behind_other_words_are_noted) {
	struct lab lab =
		import("virtual_server 192.0.2.1 80 {\n"
		       " real_server 10.0.0.1 80 { weight 1 MISC_CHECK { misc_path \"/x\" } }\n"
		       " real_server 10.0.0.2 80 {\n"
		       "  TCP_CHECK { connect_timeout 3\n connect_port 80 } HTTP_GET { url {\n"
		       "   path /\n status_code 200 } }\n"
		       "  inhibit_on_failure TCP_CHECK { }\n"
		       " }\n delay_loop 6 real_server 10.0.0.3 80 { weight 2 }\n"
		       " real_server 10.0.0.4 80 {\n HTTP_GET { retry 2 url { path / } }\n }\n}\n",
			true, NULL);

	expect_note(&lab, 2, "MISC_CHECK");
	expect_note(&lab, 2, "keepalived skips a \"{\" that follows \"weight\"");
	expect_note(&lab, 8, "keepalived skips a \"{\" that follows \"inhibit_on_failure\"");
	expect_note(&lab, 10, "real_server 10.0.0.3 80");
	expect_note(&lab, 10, "keepalived skips a \"{\" that follows \"delay_loop\"");
	expect_note(&lab, 12, "keepalived skips a \"{\" that follows \"retry\"");
	assert_int_equal(notes_of_kind(&lab, "missing"), 4);
	assert_null(ignored_in(&lab, 2));
	done(&lab);
}

TEST(command_groups_the_notes_about_ignored_words) {
	char file[] = "/tmp/weir-test-XXXXXX";
	struct outcome outcome;
	int fd = mkstemp(file);
	FILE *out = fdopen(fd, "w");

	assert_non_null(out);
	for (int i = 1; i <= 3; i++) {
		fprintf(out,
			"virtual_server 192.0.2.%d 80 {\n delay_loop %d lb_algo rr\n"
			" protocol TCP\n" REAL "}\n",
			i, i);
	}
	fclose(out);
	outcome = RUN("/nowhere", (char[]){"import"}, (char[]){"keepalived"}, file);
	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.err,
		":2: adjust: lb_algo rr, and 2 more: " IGNORED
		"delay_loop\" on the same line: write a "
		"statement on a separate line if it should have an effect, and import again; lines "
		"8, 14\n");
	free_outcome(&outcome);
	unlink(file);
}
