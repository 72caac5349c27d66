// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import keepalived: addresses of groups become binds, and what becomes of protocols
// and ports.
#include "keepalived_lab.h"

#include "import_report.h"

// --- groups -------------------------------------------------------------------------------

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

// --- protocols and ports ------------------------------------------------------------------

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
