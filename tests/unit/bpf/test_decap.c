// SPDX-License-Identifier: BSD-3-Clause
//
// Tests decap.bpf.c: runs the program in the kernel on a table of frames, and checks each resulting
// frame byte by byte, and which counter of results the program increments. Needs CAP_BPF and
// CAP_NET_ADMIN.
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "decap.h"
#include "decap.skel.h"
#include "frame.h"
#include "test.h"

#define OWN4 "10.0.0.11"
#define OWN6 "2001:db8:a::11"
#define BALANCER4 "10.0.0.2"
#define BALANCER6 "2001:db8:a::2"
#define STRANGER4 "10.0.1.2"
#define STRANGER6 "2001:db8:b::2"
#define VIP4 "198.51.100.10"
#define VIP6 "2001:db8:f::10"
#define CLIENT4 "192.0.2.2"
#define CLIENT6 "2001:db8:c::2"

enum { NOT_ECT = 0, ECT1 = 1, ECT0 = 2, CE = 3 };
#define PASSED (-1) // the program must neither change nor count the frame

// A case sets only the fields that it needs.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct decap_case {
	const char *name;
	int outer, inner; // outer and inner address family, 4 or 6
	int result; // enum weir_decap_result or PASSED
	int tags;
	uint32_t outer_options, inner_options;
	uint8_t outer_ecn, inner_ecn, expect_ecn;
	bool marked; // whether the frame is also counted as congestion_marked
	const char *source, *destination; // outer addresses; NULL = the balancer, this host
	uint16_t fragment; // outer IPv4 frag_off
	int offset; // byte of the outer header to overwrite, after its checksum was computed
	uint8_t value; // new value of this byte
	int inner_offset; // byte of the inner header to overwrite; -1 means byte 0
	uint8_t inner_value;
	int protocol; // protocol of the outer header; 0 = the correct protocol
	uint32_t padding; // bytes after the packet
	uint32_t cut; // truncate the outer packet to this length; 0 = not truncated
};

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
		.expect_ecn = ECT1, .marked = true},
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
	{"gre", 4, 4, PASSED, .protocol = IPPROTO_GRE},
	{"not a tunnel, ipv6", 6, 6, PASSED, .protocol = IPPROTO_UDP},
	{"stranger", 4, 4, WEIR_DECAP_SOURCE, .source = STRANGER4},
	{"stranger, ipv6", 6, 6, WEIR_DECAP_SOURCE, .source = STRANGER6},
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

struct lab {
	struct decap_bpf *decap;
};

static int family_of(const char *address) {
	return strchr(address, ':') != NULL ? 6 : 4;
}

static void add_address(struct lab *lab, const char *text) {
	struct weir_decap_address key = {.family = (uint8_t)family_of(text)};
	uint32_t value = 1;

	inet_pton(key.family == 4 ? AF_INET : AF_INET6, text, key.address);
	assert_int_equal(bpf_map__update_elem(lab->decap->maps.weir_decap_addresses, &key,
				 sizeof(key), &value, sizeof(value), BPF_ANY),
		0);
}

static void add_source(struct lab *lab, const char *text, uint32_t bits) {
	struct weir_decap_prefix key = {.bits = 8 + bits, .family = (uint8_t)family_of(text)};
	uint32_t value = 1;

	inet_pton(key.family == 4 ? AF_INET : AF_INET6, text, key.address);
	assert_int_equal(bpf_map__update_elem(lab->decap->maps.weir_decap_sources, &key,
				 sizeof(key), &value, sizeof(value), BPF_ANY),
		0);
}

static int load(void **state, bool check_sources) {
	struct lab *lab = calloc(1, sizeof(*lab));

	lab->decap = decap_bpf__open();
	assert_non_null(lab->decap);
	lab->decap->rodata->check_sources = check_sources;
	if (decap_bpf__load(lab->decap)) {
		fprintf(stderr, "decap.bpf.c cannot be loaded (root?): %s\n", strerror(errno));
		decap_bpf__destroy(lab->decap);
		free(lab);
		return -1;
	}
	add_address(lab, OWN4);
	add_address(lab, OWN6);
	*state = lab;
	return 0;
}

static int setup_checking(void **state) {
	int r = load(state, true);

	if (!r) {
		add_source(*state, "10.0.0.0", 24);
		add_source(*state, BALANCER6, 128);
	}
	return r;
}

static int setup_trusting(void **state) {
	return load(state, false);
}

static int teardown(void **state) {
	struct lab *lab = *state;

	decap_bpf__destroy(lab->decap);
	free(lab);
	return 0;
}

static struct weir_decap_counter counter(const struct lab *lab, uint32_t result) {
	int cpus = libbpf_num_possible_cpus();
	struct weir_decap_counter *values = calloc((size_t)cpus, sizeof(*values));
	struct weir_decap_counter sum = {0};

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(lab->decap->maps.weir_decap_counters),
				 &result, values),
		0);
	for (int i = 0; i < cpus; i++) {
		sum.packets += values[i].packets;
		sum.bytes += values[i].bytes;
	}
	free(values);
	return sum;
}

// Append the packet of a client: an IP header and a payload that looks like TCP.
static void put_inner(struct frame *frame, const struct decap_case *test, uint8_t ecn) {
	if (test->inner == 4) {
		struct iphdr *ip = put_ipv4(frame, CLIENT4, VIP4, IPPROTO_TCP, test->inner_options);

		put_ports(frame, 4711, 80);
		ip->tos = 0xb8 | ecn; // DSCP EF
		ip->ttl = 17;
		finish_ipv4(frame, ip);
	} else {
		struct ipv6hdr *ip = put_ipv6(frame, CLIENT6, VIP6, IPPROTO_TCP);

		put_ports(frame, 4711, 80);
		ip->priority = 0xb;
		// The last bits of DSCP EF, and the first bits of the flow label
		ip->flow_lbl[0] = (uint8_t)(0x85 | ecn << 4);
		ip->hop_limit = 17;
		finish_ipv6(frame, ip);
	}
}

static void overwrite(uint8_t *header, int offset, uint8_t value) {
	if (offset != 0) {
		header[offset < 0 ? 0 : offset] = value;
	}
}

static void build(struct frame *frame, const struct decap_case *test) {
	int protocol = test->inner == 4 ? IPPROTO_IPIP : IPPROTO_IPV6;
	const char *source = test->source, *destination = test->destination;
	uint32_t start, inner;

	frame->length = 0;
	put_ethernet(frame, test->tags, test->outer == 4 ? ETH_P_IP : ETH_P_IPV6);
	start = frame->length;
	protocol = test->protocol ? test->protocol : protocol;
	if (test->outer == 4) {
		struct iphdr *ip = put_ipv4(frame, source != NULL ? source : BALANCER4,
			destination != NULL ? destination : OWN4, (uint8_t)protocol,
			test->outer_options);

		inner = frame->length;
		put_inner(frame, test, test->inner_ecn);
		ip->tos = test->outer_ecn;
		ip->frag_off = htons(test->fragment);
		finish_ipv4(frame, ip);
	} else {
		struct ipv6hdr *ip = put_ipv6(frame, source != NULL ? source : BALANCER6,
			destination != NULL ? destination : OWN6, (uint8_t)protocol);

		inner = frame->length;
		put_inner(frame, test, test->inner_ecn);
		ip->flow_lbl[0] = (uint8_t)(test->outer_ecn << 4);
		finish_ipv6(frame, ip);
	}
	overwrite(frame->byte + start, test->offset, test->value);
	overwrite(frame->byte + inner, test->inner_offset, test->inner_value);
	memset(put(frame, NULL, test->padding), 0xff, test->padding);
	if (test->cut) {
		frame->length = start + test->cut;
	}
}

// Builds the packet that the kernel must receive.
static void build_expected(struct frame *frame, const struct decap_case *test) {
	if (test->result == PASSED) {
		build(frame, test);
		return;
	}
	frame->length = 0;
	put_ethernet(frame, test->tags, test->inner == 4 ? ETH_P_IP : ETH_P_IPV6);
	put_inner(frame, test, test->expect_ecn);
	memset(put(frame, NULL, test->padding), 0xff, test->padding);
}

static int run(const struct lab *lab, const struct frame *in, struct frame *out) {
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in->byte, .data_size_in = in->length,
		.data_out = out->byte, .data_size_out = sizeof(out->byte), .repeat = 1);
	int r = bpf_prog_test_run_opts(bpf_program__fd(lab->decap->progs.weir_decap), &opts);

	out->length = opts.data_size_out;
	return r ? r : (int)opts.retval;
}

// Returns the results that were counted since the last call, as a bitmap. Checks that no result was
// counted twice.
static uint32_t counted(const struct lab *lab, uint64_t *before) {
	uint32_t bits = 0;

	for (uint32_t result = 0; result < WEIR_DECAP_RESULT_COUNT; result++) {
		uint64_t now = counter(lab, result).packets;

		assert_true(now - before[result] <= 1);
		bits |= (uint32_t)(now - before[result]) << result;
		before[result] = now;
	}
	return bits;
}

static bool check(const struct lab *lab, const struct decap_case *test, uint64_t *before) {
	bool drops = test->result != PASSED && test->result != WEIR_DECAP_DECAPSULATED;
	uint32_t bits = test->result == PASSED ? 0 : 1u << test->result, now;
	struct frame in, out, expected;
	int verdict;

	bits |= test->marked ? 1u << WEIR_DECAP_MARKED : 0;
	build(&in, test);
	verdict = run(lab, &in, &out);
	now = counted(lab, before);
	if (verdict != (drops ? XDP_DROP : XDP_PASS) || now != bits) {
		print_error("%s: verdict %d, counted %#x instead of %#x\n", test->name, verdict,
			now, bits);
		return false;
	}
	build_expected(&expected, test);
	if (!drops && (out.length != expected.length ||
			      memcmp(out.byte, expected.byte, out.length) != 0)) {
		print_error("%s: another packet came out\n", test->name);
		return false;
	}
	return true;
}

TEST(decap_passes_the_inner_packet_or_counts_the_reason, setup_checking, teardown) {
	uint64_t before[WEIR_DECAP_RESULT_COUNT] = {0};
	unsigned int failed = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		failed += !check(*state, &cases[i], before);
	}
	assert_int_equal(failed, 0);
}

TEST(decap_without_sources_accepts_any, setup_trusting, teardown) {
	const struct decap_case strangers[] = {
		{"stranger", 4, 4, WEIR_DECAP_DECAPSULATED, .source = STRANGER4},
		{"stranger, ipv6", 6, 6, WEIR_DECAP_DECAPSULATED, .source = STRANGER6},
	};
	uint64_t before[WEIR_DECAP_RESULT_COUNT] = {0};

	assert_true(check(*state, &strangers[0], before));
	assert_true(check(*state, &strangers[1], before));
}

TEST(decap_counts_bytes_of_outer_packets, setup_trusting, teardown) {
	struct lab *lab = *state;
	struct frame in, out;

	build(&in, &cases[0]);
	assert_int_equal(run(lab, &in, &out), XDP_PASS);
	assert_int_equal(counter(lab, WEIR_DECAP_DECAPSULATED).bytes, in.length - ETH_HLEN);
}
