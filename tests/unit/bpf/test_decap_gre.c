// SPDX-License-Identifier: BSD-3-Clause
//
// Tests decap.bpf.c with packets of the forwarding mode gre.
#include "decap_lab.h"
#include "test.h"

// Bytes of the GRE header.
#define FLAGS_AT (-1) // checksum, routing, key, sequence number
#define VERSION_AT 1
#define TYPE_AT 2 // first byte of the EtherType

#define KEY 0x01020304
#define GRE .mode = WEIR_FORWARDING_GRE
#define KEYED GRE, .gre_key = KEY

static const struct decap_case cases[] = {
	{"ipv4 in ipv4", 4, 4, WEIR_DECAP_DECAPSULATED, GRE},
	{"ipv6 in ipv4", 4, 6, WEIR_DECAP_DECAPSULATED, GRE},
	{"ipv4 in ipv6", 6, 4, WEIR_DECAP_DECAPSULATED, GRE},
	{"ipv6 in ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, GRE},
	{"key, ipv4 in ipv4", 4, 4, WEIR_DECAP_DECAPSULATED, KEYED},
	{"key, ipv6 in ipv4", 4, 6, WEIR_DECAP_DECAPSULATED, KEYED},
	{"key, ipv4 in ipv6", 6, 4, WEIR_DECAP_DECAPSULATED, KEYED},
	{"key, ipv6 in ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, KEYED},
	{"one tag", 4, 4, WEIR_DECAP_DECAPSULATED, KEYED, .tags = 1},
	{"outer and inner options", 4, 4, WEIR_DECAP_DECAPSULATED, KEYED, .outer_options = 40,
		.inner_options = 40},
	{"padding", 6, 4, WEIR_DECAP_DECAPSULATED, GRE, .padding = 6},
	{"ect0, ce", 4, 4, WEIR_DECAP_DECAPSULATED, GRE, .outer_ecn = CE, .inner_ecn = ECT0,
		.expect_ecn = CE, .marked = true},
	{"ect1, ce, ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, KEYED, .outer_ecn = CE, .inner_ecn = ECT1,
		.expect_ecn = CE, .marked = true},
	{"not-ect, ce", 6, 4, WEIR_DECAP_ECN, GRE, .outer_ecn = CE},
	{"ignored flags", 4, 4, WEIR_DECAP_DECAPSULATED, GRE, .between_offset = VERSION_AT,
		.between_value = 0xf8},
	{"ignored flag", 6, 6, WEIR_DECAP_DECAPSULATED, KEYED, .between_offset = FLAGS_AT,
		.between_value = 0x23},

	// Packets that balancers do not send may belong to another tunnel.
	{"with checksum", 4, 4, PASSED, GRE, .between_offset = FLAGS_AT, .between_value = 0x80},
	{"with routing", 4, 4, PASSED, GRE, .between_offset = FLAGS_AT, .between_value = 0x40},
	{"with sequence number", 6, 4, PASSED, GRE, .between_offset = FLAGS_AT,
		.between_value = 0x10},
	{"strict source route", 4, 4, PASSED, GRE, .between_offset = FLAGS_AT,
		.between_value = 0x08},
	{"bit 5", 4, 4, PASSED, GRE, .between_offset = FLAGS_AT, .between_value = 0x04},
	{"version 1", 4, 4, PASSED, GRE, .between_offset = VERSION_AT, .between_value = 1},
	{"not ip", 4, 4, PASSED, GRE, .between_offset = TYPE_AT, .between_value = 0x80},
	{"not ip, ipv6", 6, 6, PASSED, GRE, .between_offset = TYPE_AT, .between_value = 0x65},
	{"to another host", 4, 4, PASSED, GRE, .destination = "10.0.0.12"},
	{"to another host, ipv6", 6, 4, PASSED, GRE, .destination = "2001:db8:a::12"},
	{"gre header cut off", 4, 4, PASSED, GRE, .cut = 23},
	{"later fragment", 4, 4, PASSED, GRE, .fragment = 0x0010},

	{"source not allowed", 4, 4, WEIR_DECAP_SOURCE, GRE, .source = STRANGER4},
	{"source not allowed, ipv6", 6, 6, WEIR_DECAP_SOURCE, KEYED, .source = STRANGER6},
	{"first fragment", 4, 4, WEIR_DECAP_FRAGMENT, GRE, .fragment = 0x2000},
	{"outer checksum", 4, 4, WEIR_DECAP_CHECKSUM, GRE, .offset = 8, .value = 63},
	{"outer of version 5", 4, 4, WEIR_DECAP_OUTER, GRE, .offset = -1, .value = 0x55},
	{"outer payload beyond frame", 6, 4, WEIR_DECAP_OUTER, GRE, .offset = 4, .value = 5},
	{"outer payload below gre header", 6, 4, WEIR_DECAP_OUTER, GRE, .offset = 5, .value = 3},
	{"outer payload below key", 6, 4, WEIR_DECAP_OUTER, KEYED, .offset = 5, .value = 7},
	{"key cut off", 4, 4, WEIR_DECAP_OUTER, KEYED, .cut = 27},
	{"ipv6 as ipv4", 4, 6, WEIR_DECAP_INNER, GRE, .inner_offset = -1, .inner_value = 0x45},
	{"inner payload into the padding", 4, 6, WEIR_DECAP_INNER, KEYED, .inner_offset = 5,
		.inner_value = 24, .padding = 16},
	{"inner total length beyond outer", 6, 4, WEIR_DECAP_INNER, GRE, .inner_offset = 3,
		.inner_value = 41, .padding = 16},
};

static const struct decap_case keys[] = {
	{"key", 4, 4, WEIR_DECAP_DECAPSULATED, KEYED},
	{"key, ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, KEYED},
	{"no key", 4, 4, WEIR_DECAP_GRE_KEY, GRE},
	{"no key, ipv6", 6, 6, WEIR_DECAP_GRE_KEY, GRE},
	{"another key", 4, 6, WEIR_DECAP_GRE_KEY, GRE, .gre_key = KEY + 1},
	{"key in other order", 6, 4, WEIR_DECAP_GRE_KEY, GRE, .gre_key = 0x04030201},
	{"another key, source not allowed", 4, 4, WEIR_DECAP_GRE_KEY, GRE, .gre_key = 7,
		.source = STRANGER4},
	{"another key, first fragment", 4, 4, WEIR_DECAP_GRE_KEY, GRE, .gre_key = 7,
		.fragment = 0x2000},
	{"key, source not allowed", 4, 4, WEIR_DECAP_SOURCE, KEYED, .source = STRANGER4},
	{"other tunnel", 4, 4, PASSED, KEYED, .between_offset = FLAGS_AT, .between_value = 0xa0},
	{"ipip", 4, 4, WEIR_DECAP_DECAPSULATED},
};

static int setup(void **state) {
	return decap_lab_load(
		&(struct decap_settings){.check_sources = true}, (struct decap_lab **)state);
}

static int setup_key(void **state) {
	const struct decap_settings settings = {.check_sources = true, .gre_key = KEY};

	return decap_lab_load(&settings, (struct decap_lab **)state);
}

static int teardown(void **state) {
	decap_lab_free(*state);
	return 0;
}

TEST(decap_gre_passes_the_inner_packet_or_counts_the_reason, setup, teardown) {
	DECAP_LAB_CHECK(*state, cases);
}

TEST(decap_gre_passes_packets_with_another_key_to_the_kernel, setup_key, teardown) {
	DECAP_LAB_CHECK(*state, keys);
}
