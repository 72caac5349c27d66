// SPDX-License-Identifier: BSD-3-Clause
//
// Tests decap.bpf.c with packets of the forwarding mode ipip: families, ECN, and what is dropped or
// passed on. Also tests which modes it accepts.
#include <linux/bpf.h>

#include "decap_lab.h"
#include "test.h"

static const struct decap_case cases[] = {
	{"ipv4 in ipv4", 4, 4, WEIR_DECAP_DECAPSULATED},
	{"ipv6 in ipv4", 4, 6, WEIR_DECAP_DECAPSULATED},
	{"ipv4 in ipv6", 6, 4, WEIR_DECAP_DECAPSULATED},
	{"ipv6 in ipv6", 6, 6, WEIR_DECAP_DECAPSULATED},
	{"one tag", 4, 6, WEIR_DECAP_DECAPSULATED, .tags = 1},
	{"two tags", 6, 4, WEIR_DECAP_DECAPSULATED, .tags = 2},
	{"three tags", 4, 4, PASSED, .tags = 3},
	{"outer options", 4, 4, WEIR_DECAP_DECAPSULATED, .outer_options = 40},
	{"inner options", 6, 4, WEIR_DECAP_DECAPSULATED, .inner_options = 20},
	{"padding", 4, 4, WEIR_DECAP_DECAPSULATED, .padding = 6},

	// The rows of figure 4 in RFC 6040.
	{"not-ect, not-ect", 4, 4, WEIR_DECAP_DECAPSULATED},
	{"not-ect, ect0", 4, 4, WEIR_DECAP_DECAPSULATED, .outer_ecn = ECT0},
	{"not-ect, ect1", 6, 4, WEIR_DECAP_DECAPSULATED, .outer_ecn = ECT1},
	{"not-ect, ce", 4, 4, WEIR_DECAP_ECN, .outer_ecn = CE},
	{"not-ect, ce, ipv6", 6, 6, WEIR_DECAP_ECN, .outer_ecn = CE},
	{"ect0, not-ect", 4, 4, WEIR_DECAP_DECAPSULATED, .inner_ecn = ECT0, .expect_ecn = ECT0},
	{"ect0, ect0", 4, 6, WEIR_DECAP_DECAPSULATED, .outer_ecn = ECT0, .inner_ecn = ECT0,
		.expect_ecn = ECT0},
	{"ect0, ect1", 4, 4, WEIR_DECAP_DECAPSULATED, .outer_ecn = ECT1, .inner_ecn = ECT0,
		.expect_ecn = ECT1},
	{"ect0, ect1, ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, .outer_ecn = ECT1, .inner_ecn = ECT0,
		.expect_ecn = ECT1},
	{"ect0, ce", 4, 4, WEIR_DECAP_DECAPSULATED, .outer_ecn = CE, .inner_ecn = ECT0,
		.expect_ecn = CE, .marked = true},
	{"ect0, ce, ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, .outer_ecn = CE, .inner_ecn = ECT0,
		.expect_ecn = CE, .marked = true},
	{"ect1, not-ect", 4, 4, WEIR_DECAP_DECAPSULATED, .inner_ecn = ECT1, .expect_ecn = ECT1},
	{"ect1, ect0", 4, 4, WEIR_DECAP_DECAPSULATED, .outer_ecn = ECT0, .inner_ecn = ECT1,
		.expect_ecn = ECT1},
	{"ect1, ect1", 4, 4, WEIR_DECAP_DECAPSULATED, .outer_ecn = ECT1, .inner_ecn = ECT1,
		.expect_ecn = ECT1},
	{"ect1, ce", 6, 4, WEIR_DECAP_DECAPSULATED, .outer_ecn = CE, .inner_ecn = ECT1,
		.expect_ecn = CE, .marked = true},
	{"ce, not-ect", 4, 4, WEIR_DECAP_DECAPSULATED, .inner_ecn = CE, .expect_ecn = CE},
	{"ce, ect0", 4, 6, WEIR_DECAP_DECAPSULATED, .outer_ecn = ECT0, .inner_ecn = CE,
		.expect_ecn = CE},
	{"ce, ect1", 4, 4, WEIR_DECAP_DECAPSULATED, .outer_ecn = ECT1, .inner_ecn = CE,
		.expect_ecn = CE},
	{"ce, ce", 4, 4, WEIR_DECAP_DECAPSULATED, .outer_ecn = CE, .inner_ecn = CE,
		.expect_ecn = CE},

	{"to another host", 4, 4, PASSED, .destination = "10.0.0.12"},
	{"to another host, ipv6", 6, 4, PASSED, .destination = "2001:db8:a::12"},
	{"not a tunnel", 4, 4, PASSED, .protocol = IPPROTO_TCP},
	{"not a tunnel, ipv6", 6, 6, PASSED, .protocol = IPPROTO_TCP},
	{"source not allowed", 4, 4, WEIR_DECAP_SOURCE, .source = STRANGER4},
	{"source not allowed, ipv6", 6, 6, WEIR_DECAP_SOURCE, .source = STRANGER6},
	{"first fragment", 4, 4, WEIR_DECAP_FRAGMENT, .fragment = 0x2000},
	{"later fragment", 4, 4, WEIR_DECAP_FRAGMENT, .fragment = 0x0010},
	{"don't fragment", 4, 4, WEIR_DECAP_DECAPSULATED, .fragment = 0x4000},
	{"checksum", 4, 4, WEIR_DECAP_CHECKSUM, .offset = 8, .value = 63},
	{"checksum with options", 4, 4, WEIR_DECAP_CHECKSUM, .outer_options = 40, .offset = 59,
		.value = 0},
	{"outer of version 5", 4, 4, WEIR_DECAP_OUTER, .offset = -1, .value = 0x55},
	{"outer of version 5, ipv6", 6, 4, WEIR_DECAP_OUTER, .offset = -1, .value = 0x50},
	{"outer header length 16", 4, 4, WEIR_DECAP_OUTER, .offset = -1, .value = 0x44},
	{"outer total length below header", 4, 4, WEIR_DECAP_OUTER, .offset = 3, .value = 19},
	{"outer total length beyond frame", 4, 4, WEIR_DECAP_OUTER, .offset = 2, .value = 5},
	{"outer payload beyond frame", 6, 4, WEIR_DECAP_OUTER, .offset = 4, .value = 5},
	{"outer cut off", 4, 4, PASSED, .cut = 19},
	{"outer cut off, ipv6", 6, 4, PASSED, .cut = 39},
	{"nothing inside", 4, 4, WEIR_DECAP_OUTER, .cut = 20},
	{"inner of version 6 in protocol 4", 4, 4, WEIR_DECAP_INNER, .inner_offset = -1,
		.inner_value = 0x65},
	{"inner of version 4 in next header 41", 6, 6, WEIR_DECAP_INNER, .inner_offset = -1,
		.inner_value = 0x40},
	{"inner header length 16", 4, 4, WEIR_DECAP_INNER, .inner_offset = -1, .inner_value = 0x44},
	{"inner total length beyond outer", 6, 4, WEIR_DECAP_INNER, .inner_offset = 2,
		.inner_value = 4},
	{"inner total length below header", 4, 4, WEIR_DECAP_INNER, .inner_offset = 3,
		.inner_value = 19},
	{"inner payload beyond outer", 4, 6, WEIR_DECAP_INNER, .inner_offset = 4, .inner_value = 4},
	{"inner payload into the padding", 4, 6, WEIR_DECAP_INNER, .inner_offset = 5,
		.inner_value = 24, .padding = 16},
};

static int setup_checking(void **state) {
	return decap_lab_load(
		&(struct decap_settings){.check_sources = true}, (struct decap_lab **)state);
}

static int setup_trusting(void **state) {
	return decap_lab_load(
		&(struct decap_settings){.gue_port = WEIR_GUE_PORT}, (struct decap_lab **)state);
}

static int setup_others(void **state) {
	const struct decap_settings settings = {.no_ipip = true, .no_gre = true};

	return decap_lab_load(&settings, (struct decap_lab **)state);
}

static int teardown(void **state) {
	decap_lab_free(*state);
	return 0;
}

TEST(decap_passes_the_inner_packet_or_counts_the_reason, setup_checking, teardown) {
	DECAP_LAB_CHECK(*state, cases);
}

TEST(decap_without_sources_accepts_any, setup_trusting, teardown) {
	const struct decap_case strangers[] = {
		{"any source", 4, 4, WEIR_DECAP_DECAPSULATED, .source = STRANGER4},
		{"any source, ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, .source = STRANGER6},
		{"any source, gue", 4, 6, WEIR_DECAP_DECAPSULATED, WEIR_FORWARDING_GUE,
			.source = STRANGER4},
		{"any source, gre, ipv6", 6, 4, WEIR_DECAP_DECAPSULATED, WEIR_FORWARDING_GRE,
			.source = STRANGER6},
	};

	DECAP_LAB_CHECK(*state, strangers);
}

TEST(decap_passes_packets_of_modes_that_it_does_not_accept, setup_others, teardown) {
	const struct decap_case others[] = {
		{"ipip", 4, 4, PASSED},
		{"ipip, ipv6", 6, 6, PASSED},
		{"gue", 4, 4, PASSED, WEIR_FORWARDING_GUE},
		{"gue, ipv6", 6, 6, PASSED, WEIR_FORWARDING_GUE},
		{"gre", 4, 4, PASSED, WEIR_FORWARDING_GRE},
		{"gre, ipv6", 6, 6, PASSED, WEIR_FORWARDING_GRE},
	};

	DECAP_LAB_CHECK(*state, others);
}

TEST(decap_counts_bytes_of_outer_packets, setup_trusting, teardown) {
	const struct decap_case modes[] = {
		{"ipip", 4, 4, WEIR_DECAP_DECAPSULATED},
		{"gue", 6, 4, WEIR_DECAP_DECAPSULATED, WEIR_FORWARDING_GUE},
		{"gre", 4, 6, WEIR_DECAP_DECAPSULATED, WEIR_FORWARDING_GRE, .gre_key = 7},
	};
	struct decap_lab *lab = *state;
	struct frame in, out;
	uint64_t bytes = 0;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		decap_lab_build(&in, &modes[i]);
		assert_int_equal(decap_lab_run(lab, &in, &out), XDP_PASS);
		bytes += in.length - ETH_HLEN;
		assert_int_equal(decap_lab_counter(lab, WEIR_DECAP_DECAPSULATED).bytes, bytes);
	}
}
