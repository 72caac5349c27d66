// SPDX-License-Identifier: BSD-3-Clause
//
// Tests decap.bpf.c with packets of the forwarding mode gue.
#include "decap_lab.h"
#include "test.h"

// Bytes of the headers between the IP headers: UDP header, GUE header.
#define PORT_AT 3 // second byte of the destination port
#define LENGTH_AT 5 // second byte of the UDP length
#define CHECKSUM_AT 7
#define FIRST_AT 8 // version, control flag, length of the optional fields
#define PROTOCOL_AT 9
#define FLAGS_AT 10

#define GUE .mode = WEIR_FORWARDING_GUE

static const struct decap_case cases[] = {
	{"ipv4 in ipv4", 4, 4, WEIR_DECAP_DECAPSULATED, GUE},
	{"ipv6 in ipv4", 4, 6, WEIR_DECAP_DECAPSULATED, GUE},
	{"ipv4 in ipv6", 6, 4, WEIR_DECAP_DECAPSULATED, GUE},
	{"ipv6 in ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, GUE},
	{"two tags", 6, 4, WEIR_DECAP_DECAPSULATED, GUE, .tags = 2},
	{"outer and inner options", 4, 4, WEIR_DECAP_DECAPSULATED, GUE, .outer_options = 40,
		.inner_options = 40},
	{"padding", 4, 6, WEIR_DECAP_DECAPSULATED, GUE, .padding = 6},
	{"ect0, ce", 4, 4, WEIR_DECAP_DECAPSULATED, GUE, .outer_ecn = CE, .inner_ecn = ECT0,
		.expect_ecn = CE, .marked = true},
	{"ect1, ce, ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, GUE, .outer_ecn = CE, .inner_ecn = ECT1,
		.expect_ecn = CE, .marked = true},
	{"not-ect, ce", 6, 4, WEIR_DECAP_ECN, GUE, .outer_ecn = CE},

	{"another port", 4, 4, PASSED, GUE, .between_offset = PORT_AT, .between_value = 0xc1},
	{"another port, ipv6", 6, 6, PASSED, GUE, .between_offset = PORT_AT, .between_value = 0xc1},
	{"to another host", 4, 4, PASSED, GUE, .destination = "10.0.0.12"},
	{"to another host, ipv6", 6, 4, PASSED, GUE, .destination = "2001:db8:a::12"},
	{"tcp", 4, 4, PASSED, GUE, .protocol = IPPROTO_TCP},
	{"udp header cut off", 4, 4, PASSED, GUE, .cut = 27},
	{"udp header cut off, ipv6", 6, 4, PASSED, GUE, .cut = 47},
	{"source not allowed", 4, 4, WEIR_DECAP_SOURCE, GUE, .source = STRANGER4},
	{"source not allowed, ipv6", 6, 6, WEIR_DECAP_SOURCE, GUE, .source = STRANGER6},
	{"first fragment", 4, 4, WEIR_DECAP_FRAGMENT, GUE, .fragment = 0x2000},
	{"later fragment", 4, 4, PASSED, GUE, .fragment = 0x0010},
	{"later fragment, more follow", 4, 4, PASSED, GUE, .fragment = 0x2010},
	{"don't fragment", 4, 4, WEIR_DECAP_DECAPSULATED, GUE, .fragment = 0x4000},

	{"outer checksum", 4, 4, WEIR_DECAP_CHECKSUM, GUE, .offset = 8, .value = 63},
	{"outer of version 5", 4, 4, WEIR_DECAP_OUTER, GUE, .offset = -1, .value = 0x55},
	{"outer payload beyond frame", 6, 4, WEIR_DECAP_OUTER, GUE, .offset = 4, .value = 5},
	{"outer payload below gue header", 6, 4, WEIR_DECAP_OUTER, GUE, .offset = 5, .value = 11},
	{"gue header cut off", 4, 4, WEIR_DECAP_OUTER, GUE, .cut = 31},
	{"udp length below headers", 4, 4, WEIR_DECAP_OUTER, GUE, .between_offset = LENGTH_AT,
		.between_value = 11},
	{"udp length beyond ip length", 4, 4, WEIR_DECAP_OUTER, GUE, .between_offset = LENGTH_AT,
		.between_value = 53},
	{"udp length 0, ipv6", 6, 4, WEIR_DECAP_OUTER, GUE, .between_offset = LENGTH_AT},
	{"udp length below inner packet", 4, 4, WEIR_DECAP_INNER, GUE, .between_offset = LENGTH_AT,
		.between_value = 51},
	{"udp checksum", 4, 4, WEIR_DECAP_UDP_CHECKSUM, GUE, .between_offset = CHECKSUM_AT,
		.between_value = 1},
	{"udp checksum, ipv6", 6, 6, WEIR_DECAP_UDP_CHECKSUM, GUE, .between_offset = CHECKSUM_AT,
		.between_value = 1},

	{"version 1, ipv4", 4, 4, WEIR_DECAP_GUE_HEADER, GUE, .between_offset = FIRST_AT,
		.between_value = 0x45},
	{"version 1, ipv6", 6, 6, WEIR_DECAP_GUE_HEADER, GUE, .between_offset = FIRST_AT,
		.between_value = 0x60},
	{"version 2", 4, 6, WEIR_DECAP_GUE_HEADER, GUE, .between_offset = FIRST_AT,
		.between_value = 0x80},
	{"control message", 4, 4, WEIR_DECAP_GUE_HEADER, GUE, .between_offset = FIRST_AT,
		.between_value = 0x20},
	{"private data", 4, 4, WEIR_DECAP_GUE_HEADER, GUE, .between_offset = FIRST_AT,
		.between_value = 1},
	{"flag", 4, 4, WEIR_DECAP_GUE_HEADER, GUE, .between_offset = FLAGS_AT,
		.between_value = 0x80},
	{"private flags", 6, 4, WEIR_DECAP_GUE_HEADER, GUE, .between_offset = FLAGS_AT + 1,
		.between_value = 1},
	{"udp inside", 4, 4, WEIR_DECAP_GUE_HEADER, GUE, .between_offset = PROTOCOL_AT,
		.between_value = IPPROTO_UDP},
	{"no next header", 6, 6, WEIR_DECAP_GUE_HEADER, GUE, .between_offset = PROTOCOL_AT,
		.between_value = IPPROTO_NONE},
	{"ipv6 as ipv4", 4, 6, WEIR_DECAP_INNER, GUE, .between_offset = PROTOCOL_AT,
		.between_value = IPPROTO_IPIP},
	{"ipv4 as ipv6", 6, 4, WEIR_DECAP_INNER, GUE, .between_offset = PROTOCOL_AT,
		.between_value = IPPROTO_IPV6},
	{"inner total length beyond udp", 4, 4, WEIR_DECAP_INNER, GUE, .inner_offset = 3,
		.inner_value = 41, .padding = 16},
};

static int setup(void **state) {
	const struct decap_settings settings = {.check_sources = true, .gue_port = WEIR_GUE_PORT};

	return decap_lab_load(&settings, (struct decap_lab **)state);
}

static int setup_other_port(void **state) {
	const struct decap_settings settings = {.gue_port = WEIR_GUE_PORT + 1};

	return decap_lab_load(&settings, (struct decap_lab **)state);
}

static int teardown(void **state) {
	decap_lab_free(*state);
	return 0;
}

TEST(decap_gue_passes_the_inner_packet_or_counts_the_reason, setup, teardown) {
	DECAP_LAB_CHECK(*state, cases);
}

TEST(decap_gue_port_is_a_setting, setup_other_port, teardown) {
	const struct decap_case ports[] = {
		{"6080", 4, 4, PASSED, GUE},
		{"6081", 4, 4, WEIR_DECAP_DECAPSULATED, GUE, .between_offset = PORT_AT,
			.between_value = 0xc1},
		{"6081, ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, GUE, .between_offset = PORT_AT,
			.between_value = 0xc1},
	};

	DECAP_LAB_CHECK(*state, ports);
}
