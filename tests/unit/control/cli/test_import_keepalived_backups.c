// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import keepalived: a sorry server becomes a backup.
#include "keepalived_lab.h"

#define SORRY(keys, check) \
	"virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_algo rr\n lb_kind TUN\n" keys \
	"\n real_server 10.0.0.1 80 {\n weight 7\n" check " }\n}\n"

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
	assert_string_equal(
		text_in(json_object_get(backend(&lab, 1), "health_check"), "type"), "none");
	assert_null(json_object_get(backend(&lab, 0), "health_check"));
	assert_false(has_note(&lab, "sorry"));
	done(&lab);
}

// In keepalived, a sorry server never counts towards the quorum. One note per virtual server, at
// its quorum or at a script for it.
TEST(sorry_server_with_a_quorum_has_one_note) {
	static const struct {
		const char *keys;
		int line; // 0 = no note
	} cases[] = {
		{"sorry_server 192.0.2.90\n quorum 3", 6},
		{"sorry_server 192.0.2.90\n quorum 3\n quorum_down /bin/true", 6},
		{"sorry_server 192.0.2.90\n quorum 1\n quorum_down /bin/true", 7},
		{"sorry_server 192.0.2.90\n quorum_up /bin/true\n quorum_down /bin/true", 7},
		{"sorry_server 192.0.2.90\n quorum_up /bin/true", 6},
		{"sorry_server 192.0.2.90\n quorum 1", 0},
		{"quorum 3\n quorum_down /bin/true", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[512];
		struct lab lab;

		snprintf(text, sizeof(text), SORRY("%s", ""), cases[i].keys);
		lab = import(text, true, NULL);
		assert_int_equal(notes_of_kind(&lab, "differs"), cases[i].line > 0);
		if (cases[i].line > 0) {
			expect_note(&lab, cases[i].line, "counts towards the quorum while it gets");
		}
		done(&lab);
	}
}

TEST(quorum_of_equal_weights_becomes_a_number_of_backends) {
	static const struct {
		const char *keys;
		unsigned int weights[3];
		json_int_t quorum, hysteresis; // 0 = not set
	} cases[] = {
		{"quorum 100\n", {50, 50, 50}, 2, 0},
		{"quorum 60\n", {50, 50, 50}, 2, 0},
		{"quorum 100\n hysteresis 50\n", {50, 50, 50}, 2, 1},
		{"quorum 100\n hysteresis 20\n", {50, 50, 50}, 3, 0}, // up at 3, down below 2
		{"quorum 400\n hysteresis 600\n", {50, 50, 50}, 4, 2}, // 150 and 149: up at 6
		{"quorum 2\n", {1, 1, 0}, 2, 0},
		{"quorum 2\n", {1, 2, 1}, 0, 0},
		{"hysteresis 1\n", {1, 1, 1}, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[512];
		int used = snprintf(text, sizeof(text),
			"virtual_server 192.0.2.1 80 {\n protocol TCP\n lb_kind TUN\n %s",
			cases[i].keys);
		struct lab lab;

		for (size_t k = 0; k < 3; k++) {
			used += snprintf(text + used, sizeof(text) - (size_t)used,
				" real_server 10.0.0.%zu 80 {\n weight %u\n }\n", k + 1,
				cases[i].weights[k]);
		}
		snprintf(text + used, sizeof(text) - (size_t)used, "}\n");
		lab = import(text, true, NULL);
		assert_int_equal(number_in(service(&lab, 0), "quorum"), cases[i].quorum);
		assert_int_equal(number_in(service(&lab, 0), "hysteresis"), cases[i].hysteresis);
		if (strstr(cases[i].keys, "hysteresis 20") != NULL) {
			expect_note(&lab, 4, "is down below 3 servers, in keepalived below 2");
		}
		done(&lab);
	}
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
