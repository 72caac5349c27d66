// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import keepalived: what a missing statement means.
#include "keepalived_lab.h"

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

// If the protocol is missing, keepalived uses UDP. Operators often forget the line, so the import
// adds a note.
TEST(missing_protocol_is_noted) {
	struct lab lab = import("virtual_server 192.0.2.1 80 {\n" REAL "}\n", true, NULL);

	expect_note(&lab, 1, "the default of keepalived is UDP");
	done(&lab);
}
