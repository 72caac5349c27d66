// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import keepalived: errors that end it, and statements that are left out with a
// note.
#include "keepalived_lab.h"

// Errors that end the import: a limit is exceeded, a required file is missing, or no service is
// left.
static const struct refusal of_keepalived[] = {
	{"\nincluder nowhere.conf\n", 2, "include \"nowhere.conf\": No such file"},
	{"include self\n", 1, "nested more than 8"},
	{"include many\n", 1, "the limit of 5000 included files is exceeded"},
	{"~SEQ(A, 1, 400) ~SEQ(B, 1, 400) x\n", 1, "100001 lines use definitions"},
	{"vrrp_instance X {\n}\n", 0, "no virtual service"},
};

TEST(errors_of_keepalived_have_their_line_and_a_remedy) {
	expect_refusals(of_keepalived, sizeof(of_keepalived) / sizeof(of_keepalived[0]), true);
}

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
	{BAD_CHECK("url { path /\n virtualhost \"\"\n }"), "left out", "the text is empty", 6, 2,
		2},
	{BAD_CHECK("url { path /\n status_code 2xx\n }"), "adjust", "use codes", 6, 2, 2},
	{BAD("lvs_timeouts\n}\nglobal_defs {\n lvs_timeouts tcp x\n}\nvirtual_server 192.0.2.2 80 "
	     "{"),
		"adjust", "ignore \"tcp x\": use tcp, tcpfin or udp", 6, 2, 1},
	{"global_defs {\n lvs_timeouts tcp\n}\n", "adjust", "ignore \"tcp\": use tcp", 2, 1, 1},
	{"global_defs {\n lvs_timeouts tcp 200000\n}\n", "differs",
		"above the maximum of Weir; using "
		"86400 s",
		2, 1, 1},
	{"global_defs {\n router_id \"x\n}\n", "missing", "a quote is not closed", 2, 1, 1},
	{"include nowhere.conf\n", "missing", "No such file", 1, 1, 1},
	{"include long\n", "missing", "File name too long", 1, 1, 1},
	{"~SEQ(A, -9223372036854775808) x\n", "missing", "does not support this repetition", 1, 1,
		1},
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
