// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl import: forwarding methods of keepalived and ipvsadm become forwarding modes.
#include "import_lab.h"

static const char *mode_of(const struct lab *lab) {
	return text_in(service(lab, 0), "forwarding");
}

// Returns the forwarding of a backend; NULL = that of the service.
static const char *mode_of_backend(const struct lab *lab, size_t n) {
	return text_in(backend(lab, n), "forwarding");
}

// Counts the notes about forwarding: all but those of every import, and the one about the protocol.
static size_t other_notes(const struct lab *lab) {
	const json_t *note;
	size_t i, count = 0;

	json_array_foreach (lab->import.notes, i, note) {
		const char *what = text_in(note, "what");

		count += strcmp(what, "ports") != 0 && strcmp(what, "health checks") != 0 &&
			 strcmp(what, "no protocol") != 0;
	}
	return count;
}

struct method {
	const char *text; // methods of keepalived, or options of ipvsadm
	const char *mode;
	json_int_t gue_port; // 0 = none
	const char *kind, *note; // NULL = no note
};

#define DIRECT \
	"with forwarding l2, the interface of a port must be on the link of the servers; the " \
	"servers keep arp_ignore, arp_announce and the VIP on a loopback interface"
#define IGNORED(why, mode) \
	"keepalived and the import ignore the options of TUN: " why "; using " mode
#define UDP_SUM \
	"Weir sends GUE with UDP checksum 0, which the kernel accepts: the servers need no change"
#define GRE_SUM \
	"Weir sends GRE without checksums, and tunnel devices with a checksum drop such packets: " \
	"remove csum or icsum from the devices of the servers"
#define OFFLOAD "Weir does not use remote checksum offload: the servers need no change"

static const struct method of_keepalived[] = {
	{"lb_kind DR", "l2", 0, "adjust", DIRECT},
	{"lvs_method DR", "l2", 0, "adjust", DIRECT},
	{"lb_kind NAT", "ipip", 0, "adjust", "Weir does not translate addresses (DSR)"},
	{"lb_kind TUN", "ipip", 0, NULL, NULL},
	{"lvs_method TUN type ipip", "ipip", 0, NULL, NULL},
	{"lvs_method TUN type ipip nocsum", "ipip", 0, NULL, NULL},
	{"lvs_method TUN type gue port 6080", "gue", 6080, NULL, NULL},
	{"lvs_method TUN port 5555 nocsum type gue", "gue", 5555, NULL, NULL},
	{"lvs_method TUN type gue port 5555 csum", "gue", 5555, "differs", UDP_SUM},
	{"lvs_method TUN type gue port 5555 remcsum", "gue", 5555, "differs", OFFLOAD},
	{"lvs_method TUN type gre", "gre", 0, NULL, NULL},
	{"lvs_method TUN type gre nocsum", "gre", 0, NULL, NULL},
	{"lvs_method TUN type gre csum", "gre", 0, "adjust", GRE_SUM},
	// keepalived uses TUN, but the tunnel that it had before; first ipip.
	{"lvs_method TUN type gue", "ipip", 0, "adjust",
		IGNORED("type gue needs a port, other types have no port", "ipip")},
	{"lvs_method TUN type ipip port 6080", "ipip", 0, "adjust",
		IGNORED("type gue needs a port, other types have no port", "ipip")},
	{"lvs_method TUN type gue port 0", "ipip", 0, "adjust",
		IGNORED("use a port from 1 to 65535", "ipip")},
	{"lvs_method TUN type gue port 65536", "ipip", 0, "adjust",
		IGNORED("use a port from 1 to 65535", "ipip")},
	{"lvs_method TUN type gue port", "ipip", 0, "adjust",
		IGNORED("use a port from 1 to 65535", "ipip")},
	{"lvs_method TUN type vxlan", "ipip", 0, "adjust",
		IGNORED("use type ipip, gue or gre", "ipip")},
	{"lvs_method TUN type", "ipip", 0, "adjust", IGNORED("use type ipip, gue or gre", "ipip")},
	{"lvs_method TUN gre", "ipip", 0, "adjust",
		IGNORED("use type, port, nocsum, csum or remcsum", "ipip")},
	{"lvs_method TUN csum", "ipip", 0, "adjust", IGNORED("type ipip has no checksum", "ipip")},
	{"lvs_method TUN type gre remcsum", "ipip", 0, "adjust",
		IGNORED("use nocsum or csum with type gre", "ipip")},
	{"lvs_method DR\n lvs_method TUN type vxlan", "ipip", 0, "adjust",
		IGNORED("use type ipip, gue or gre", "ipip")},
	{"lvs_method TUN type gue port 7\n lvs_method TUN type vxlan", "gue", 7, "adjust",
		IGNORED("use type ipip, gue or gre", "gue")},
	{"lvs_method DR\n lvs_method GRE", "l2", 0, "adjust", "use NAT, DR or TUN"},
};

static void expect_method(const struct lab *lab, const struct method *method) {
	const json_t *note;
	bool found = method->note == NULL;
	size_t i;

	assert_int_equal(json_array_size(lab->import.errors), 0);
	assert_string_equal(mode_of(lab), method->mode);
	assert_int_equal(number_in(service(lab, 0), "gue_port"), method->gue_port);
	assert_null(mode_of_backend(lab, 0));
	assert_null(json_object_get(backend(lab, 0), "gue_port"));
	json_array_foreach (lab->import.notes, i, note) {
		found |= method->note != NULL && strstr(text_in(note, "why"), method->note) &&
			 strcmp(text_in(note, "kind"), method->kind) == 0;
	}
	if (!found || (method->note == NULL && other_notes(lab) > 0)) {
		fail_msg("%s: %s", method->text, json_dumps(lab->import.notes, JSON_INDENT(1)));
	}
}

TEST(methods_of_keepalived_become_forwarding_modes) {
	for (size_t i = 0; i < sizeof(of_keepalived) / sizeof(of_keepalived[0]); i++) {
		char of_virtual[512], of_real[512];
		struct lab lab;

		snprintf(of_virtual, sizeof(of_virtual),
			"virtual_server 192.0.2.1 80 {\n lb_algo rr\n %s\n real_server 10.0.0.1 80 "
			"{\n }\n}\n",
			of_keepalived[i].text);
		lab = import(of_virtual, true, NULL);
		expect_method(&lab, &of_keepalived[i]);
		done(&lab);
		if (strncmp(of_keepalived[i].text, "lb_kind", 7) == 0) {
			continue; // not a keyword of real servers
		}
		snprintf(of_real, sizeof(of_real),
			"virtual_server 192.0.2.1 80 {\n lb_algo rr\n real_server 10.0.0.1 80 {\n "
			"%s\n }\n}\n",
			of_keepalived[i].text);
		lab = import(of_real, true, NULL);
		expect_method(&lab, &of_keepalived[i]);
		done(&lab);
	}
}

static const struct method of_ipvsadm[] = {
	{"-g", "l2", 0, "adjust", DIRECT},
	{"--gatewaying", "l2", 0, "adjust", DIRECT},
	{"", "l2", 0, "adjust", DIRECT}, // the default
	{"-m", "ipip", 0, "adjust", "Weir does not translate addresses (DSR)"},
	{"-i", "ipip", 0, NULL, NULL},
	{"-i --tun-type ipip", "ipip", 0, NULL, NULL},
	{"-i --tun-type gue --tun-port 6080", "gue", 6080, NULL, NULL},
	{"--ipip --tun-port=5555 --tun-type=gue --tun-nocsum", "gue", 5555, NULL, NULL},
	{"-i --tun-type gue --tun-port 5555 --tun-csum", "gue", 5555, "differs", UDP_SUM},
	{"-i --tun-type gue --tun-port 5555 --tun-remcsum", "gue", 5555, "differs", OFFLOAD},
	{"-i --tun-type gre", "gre", 0, NULL, NULL},
	{"-i --tun-type gre --tun-nocsum", "gre", 0, NULL, NULL},
	{"-i --tun-type gre --tun-csum", "gre", 0, "adjust", GRE_SUM},
};

#define RULES(server) "-A -t 192.0.2.1:80 -s rr\n-a -t 192.0.2.1:80 -r 10.0.0.1:80 " server "\n"

TEST(options_of_ipvsadm_become_forwarding_modes) {
	for (size_t i = 0; i < sizeof(of_ipvsadm) / sizeof(of_ipvsadm[0]); i++) {
		char text[256];
		struct lab lab;

		snprintf(text, sizeof(text), RULES("%s"), of_ipvsadm[i].text);
		lab = import(text, false, NULL);
		expect_method(&lab, &of_ipvsadm[i]);
		done(&lab);
	}
}

// Options that ipvsadm does not accept.
static const struct refusal refused[] = {
	{RULES("-i --tun-type vxlan"), 2, "--tun-type \"vxlan\": use ipip, gue or gre"},
	{RULES("-i --tun-type gue"), 2, "--tun-type gue needs a port: add --tun-port"},
	{RULES("-i --tun-type gue --tun-port 0"), 2,
		"--tun-port \"0\": use a number from 1 to 65535"},
	{RULES("-i --tun-type gue --tun-port 65536"), 2, "use a number from 1 to 65535"},
	{RULES("-i --tun-type gre --tun-port 1"), 2, "--tun-port needs --tun-type gue"},
	{RULES("-i --tun-port 1"), 2, "--tun-port needs --tun-type gue"},
	{RULES("-i --tun-csum"), 2, "does not accept --tun-csum with --tun-type ipip: remove it"},
	{RULES("-i --tun-type gre --tun-remcsum"), 2,
		"does not accept --tun-remcsum with --tun-type gre"},
	{RULES("-g --tun-type gre"), 2, "but no -i: add -i, or remove the option"},
	{RULES("-m --tun-port 1"), 2, "but no -i"},
	{RULES("--tun-nocsum"), 2, "but no -i"},
};

TEST(tunnel_options_that_ipvsadm_refuses_are_errors) {
	expect_refusals(refused, sizeof(refused) / sizeof(refused[0]), false);
}

// --- several servers ----------------------------------------------------------------------

TEST(service_has_the_mode_of_most_servers) {
	struct lab lab = import("virtual_server 192.0.2.1 80 {\n lb_kind DR\n"
				" real_server 10.0.0.1 80 {\n lvs_method TUN\n }\n"
				" real_server 10.0.0.2 80 {\n }\n real_server 10.0.0.3 80 {\n }\n"
				" real_server 10.0.0.4 80 {\n lvs_method TUN type gue port 7\n }\n"
				" real_server 10.0.0.5 80 {\n lvs_method NAT\n }\n"
				" real_server 10.0.0.6 80 {\n lvs_method DR\n }\n}\n",
		true, NULL);

	assert_string_equal(mode_of(&lab), "l2");
	assert_int_equal(number_in(service(&lab, 0), "gue_port"), 7);
	assert_string_equal(mode_of_backend(&lab, 0), "ipip");
	assert_null(mode_of_backend(&lab, 1));
	assert_null(mode_of_backend(&lab, 2));
	assert_string_equal(mode_of_backend(&lab, 3), "gue");
	assert_string_equal(mode_of_backend(&lab, 4), "ipip"); // NAT
	expect_note(&lab, 6, "direct routing"); // once, at the first server
	assert_false(has_row(lab.import.notes, "what", 8, "direct routing"));
	expect_note(&lab, 13, "NAT");
	done(&lab);
}

// A service has only one GUE port.
TEST(servers_with_another_gue_port_are_noted) {
	struct lab lab =
		import("-A -t 192.0.2.1:80 -s rr\n"
		       "-a -t 192.0.2.1:80 -r 10.0.0.1:80 -i --tun-type gue --tun-port 5555\n"
		       "-a -t 192.0.2.1:80 -r 10.0.0.2:80 -i --tun-type gue --tun-port 6080\n"
		       "-a -t 192.0.2.1:80 -r 10.0.0.3:80 -i --tun-type gue --tun-port 6080\n"
		       "-a -t 192.0.2.1:80 -r [2001:db8::4]:80 -i --tun-type gue --tun-port 5555\n"
		       "-a -t 192.0.2.1:80 -r 10.0.0.5:80 -i --tun-type gue --tun-port 6080\n",
			false, NULL);

	assert_string_equal(mode_of(&lab), "gue");
	assert_int_equal(number_in(service(&lab, 0), "gue_port"), 6080);
	expect_note(&lab, 2,
		"the server receives GUE on port 5555, but a service has one gue_port for all "
		"servers, 6080: make the server also receive on port 6080 (ip fou add port 6080 "
		"gue)");
	expect_note(&lab, 5, "also receive on port 6080 (ip -6 fou add port 6080 gue)");
	assert_int_equal(other_notes(&lab), 2);
	for (size_t i = 0; i < 5; i++) {
		assert_null(mode_of_backend(&lab, i));
		assert_null(json_object_get(backend(&lab, i), "gue_port"));
	}
	done(&lab);
}

TEST(server_with_two_entries_has_the_method_of_the_first) {
	static const char *const entries[][2] = {
		{"", "imported once, with the sum of the weights and the forwarding method of its "
		     "first entry"},
		{"-i --tun-type gue --tun-port 7", "imported once, with the sum of the weights"}};

	for (size_t i = 0; i < 2; i++) {
		char text[512];
		struct lab lab;

		snprintf(text, sizeof(text),
			RULES("-i --tun-type gue --tun-port 7") "-a -t 192.0.2.1:80 -r 10.0.0.1:81 "
								"%s\n",
			entries[i][0]);
		lab = import(text, false, NULL);
		assert_string_equal(mode_of(&lab), "gue");
		expect_note(&lab, 3, entries[i][1]);
		assert_int_equal(has_row(lab.import.notes, "why", 3, "first entry"), i == 0);
		assert_false(has_row(lab.import.notes, "what", 3, "direct routing"));
		done(&lab);
	}
}

// The configuration refuses the address of the only server with GUE, and then the unused port.
TEST(gue_port_is_left_out_with_its_last_server) {
	struct lab lab = import(
		RULES("-i") "-a -t 192.0.2.1:80 -r 127.0.0.1:80 -i --tun-type gue --tun-port 7\n",
		false, NULL);

	assert_string_equal(mode_of(&lab), "ipip");
	assert_null(json_object_get(service(&lab, 0), "gue_port"));
	assert_int_equal(json_array_size(json_object_get(service(&lab, 0), "backends")), 1);
	expect_note(&lab, 3, "127.0.0.1");
	done(&lab);
}
