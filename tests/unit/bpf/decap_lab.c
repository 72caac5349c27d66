// SPDX-License-Identifier: BSD-3-Clause
#include "decap_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "decap.skel.h"
#include "test.h"

#define VIP4 "198.51.100.10"
#define VIP6 "2001:db8:f::10"
#define CLIENT4 "192.0.2.2"
#define CLIENT6 "2001:db8:c::2"

struct decap_lab {
	struct decap_bpf *decap;
};

static int family_of(const char *address) {
	return strchr(address, ':') != NULL ? 6 : 4;
}

static void add_address(struct decap_lab *lab, const char *text) {
	struct weir_decap_address key = {.family = (uint8_t)family_of(text)};
	uint32_t value = 1;

	inet_pton(key.family == 4 ? AF_INET : AF_INET6, text, key.address);
	assert_int_equal(bpf_map__update_elem(lab->decap->maps.weir_decap_addresses, &key,
				 sizeof(key), &value, sizeof(value), BPF_ANY),
		0);
}

static void add_source(struct decap_lab *lab, const char *text, uint32_t bits) {
	struct weir_decap_prefix key = {.bits = 8 + bits, .family = (uint8_t)family_of(text)};
	uint32_t value = 1;

	inet_pton(key.family == 4 ? AF_INET : AF_INET6, text, key.address);
	assert_int_equal(bpf_map__update_elem(lab->decap->maps.weir_decap_sources, &key,
				 sizeof(key), &value, sizeof(value), BPF_ANY),
		0);
}

int decap_lab_load(const struct decap_settings *settings, struct decap_lab **ret) {
	struct decap_lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	lab->decap = decap_bpf__open();
	assert_non_null(lab->decap);
	lab->decap->rodata->check_sources = settings->check_sources;
	lab->decap->rodata->accept_ipip = !settings->no_ipip;
	lab->decap->rodata->accept_gre = !settings->no_gre;
	lab->decap->rodata->gue_port = settings->gue_port;
	lab->decap->rodata->gre_key = settings->gre_key;
	if (decap_bpf__load(lab->decap)) {
		fprintf(stderr, "decap.bpf.c cannot be loaded (root?): %s\n", strerror(errno));
		decap_lab_free(lab);
		return -1;
	}
	add_address(lab, OWN4);
	add_address(lab, OWN6);
	add_source(lab, "10.0.0.0", 24);
	add_source(lab, BALANCER6, 128);
	*ret = lab;
	return 0;
}

void decap_lab_free(struct decap_lab *lab) {
	decap_bpf__destroy(lab->decap);
	free(lab);
}

struct weir_decap_counter decap_lab_counter(const struct decap_lab *lab, uint32_t result) {
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

static uint8_t protocol_of(const struct decap_case *test) {
	if (test->protocol != 0) {
		return (uint8_t)test->protocol;
	}
	switch (test->mode) {
	case WEIR_FORWARDING_GUE:
		return IPPROTO_UDP;
	case WEIR_FORWARDING_GRE:
		return IPPROTO_GRE;
	default:
		return test->inner == 4 ? IPPROTO_IPIP : IPPROTO_IPV6;
	}
}

// Append the headers between the IP headers, as segment/forward_gue.c and forward_gre.c build them.
static void put_between(struct frame *frame, const struct decap_case *test) {
	if (test->mode == WEIR_FORWARDING_GUE) {
		put_u16(frame, 40000);
		put_u16(frame, WEIR_GUE_PORT);
		put(frame, NULL, 4); // length, which finish_between sets, and checksum
		put_u16(frame, test->inner == 4 ? IPPROTO_IPIP : IPPROTO_IPV6);
		put_u16(frame, 0);
	} else if (test->mode == WEIR_FORWARDING_GRE) {
		put_u16(frame, test->gre_key != 0 ? 0x2000 : 0);
		put_u16(frame, test->inner == 4 ? ETH_P_IP : ETH_P_IPV6);
		if (test->gre_key != 0) {
			put_u16(frame, (uint16_t)(test->gre_key >> 16));
			put_u16(frame, (uint16_t)test->gre_key);
		}
	}
}

static void finish_between(struct frame *frame, const struct decap_case *test, uint32_t between) {
	const uint16_t length = htons((uint16_t)(frame->length - between));

	if (test->mode == WEIR_FORWARDING_GUE) {
		memcpy(frame->byte + between + 4, &length, sizeof(length));
	}
}

static void put_payload(
	struct frame *frame, const struct decap_case *test, uint32_t *between, uint32_t *inner) {
	*between = frame->length;
	put_between(frame, test);
	*inner = frame->length;
	put_inner(frame, test, test->inner_ecn);
	finish_between(frame, test, *between);
}

void decap_lab_build(struct frame *frame, const struct decap_case *test) {
	const char *source = test->source, *destination = test->destination;
	const uint8_t protocol = protocol_of(test);
	uint32_t start, between, inner;

	frame->length = 0;
	put_ethernet(frame, test->tags, test->outer == 4 ? ETH_P_IP : ETH_P_IPV6);
	start = frame->length;
	if (test->outer == 4) {
		struct iphdr *ip = put_ipv4(frame, source != NULL ? source : BALANCER4,
			destination != NULL ? destination : OWN4, protocol, test->outer_options);

		put_payload(frame, test, &between, &inner);
		ip->tos = test->outer_ecn;
		ip->frag_off = htons(test->fragment);
		finish_ipv4(frame, ip);
	} else {
		struct ipv6hdr *ip = put_ipv6(frame, source != NULL ? source : BALANCER6,
			destination != NULL ? destination : OWN6, protocol);

		put_payload(frame, test, &between, &inner);
		ip->flow_lbl[0] = (uint8_t)(test->outer_ecn << 4);
		finish_ipv6(frame, ip);
	}
	overwrite(frame->byte + start, test->offset, test->value);
	overwrite(frame->byte + between, test->between_offset, test->between_value);
	overwrite(frame->byte + inner, test->inner_offset, test->inner_value);
	memset(put(frame, NULL, test->padding), 0xff, test->padding);
	if (test->cut) {
		frame->length = start + test->cut;
	}
}

static bool is_unchanged(const struct decap_case *test) {
	return test->result == PASSED || test->result == WEIR_DECAP_GRE_KEY;
}

// Builds the packet that the kernel must receive.
static void build_expected(struct frame *frame, const struct decap_case *test) {
	if (is_unchanged(test)) {
		decap_lab_build(frame, test);
		return;
	}
	frame->length = 0;
	put_ethernet(frame, test->tags, test->inner == 4 ? ETH_P_IP : ETH_P_IPV6);
	put_inner(frame, test, test->expect_ecn);
	memset(put(frame, NULL, test->padding), 0xff, test->padding);
}

int decap_lab_run(const struct decap_lab *lab, const struct frame *in, struct frame *out) {
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in->byte, .data_size_in = in->length,
		.data_out = out->byte, .data_size_out = sizeof(out->byte), .repeat = 1);
	int r = bpf_prog_test_run_opts(bpf_program__fd(lab->decap->progs.weir_decap), &opts);

	out->length = opts.data_size_out;
	return r ? r : (int)opts.retval;
}

// Returns the results that were counted since the last call, as a bitmap. Checks that no result was
// counted twice.
static uint32_t counted(const struct decap_lab *lab, uint64_t *before) {
	uint32_t bits = 0;

	for (uint32_t result = 0; result < WEIR_DECAP_RESULT_COUNT; result++) {
		uint64_t now = decap_lab_counter(lab, result).packets;

		assert_true(now - before[result] <= 1);
		bits |= (uint32_t)(now - before[result]) << result;
		before[result] = now;
	}
	return bits;
}

// Returns the results that a case must count, as a bitmap.
static uint32_t results_of(const struct decap_case *test) {
	uint32_t bits = test->result == PASSED ? 0 : 1u << test->result;

	if (test->result == WEIR_DECAP_DECAPSULATED) {
		bits |= test->mode == WEIR_FORWARDING_GUE   ? 1u << WEIR_DECAP_GUE
			: test->mode == WEIR_FORWARDING_GRE ? 1u << WEIR_DECAP_GRE
							    : 0;
		bits |= test->marked ? 1u << WEIR_DECAP_MARKED : 0;
	}
	return bits;
}

static void counted_so_far(const struct decap_lab *lab, uint64_t *ret) {
	for (uint32_t result = 0; result < WEIR_DECAP_RESULT_COUNT; result++) {
		ret[result] = decap_lab_counter(lab, result).packets;
	}
}

static bool check(const struct decap_lab *lab, const struct decap_case *test, uint64_t *before) {
	bool drops = !is_unchanged(test) && test->result != WEIR_DECAP_DECAPSULATED;
	uint32_t bits = results_of(test), now;
	struct frame in, out, expected;
	int verdict;

	decap_lab_build(&in, test);
	verdict = decap_lab_run(lab, &in, &out);
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

void decap_lab_check(struct decap_lab *lab, const struct decap_case *cases, size_t count) {
	uint64_t before[WEIR_DECAP_RESULT_COUNT] = {0};
	unsigned int failed = 0;

	counted_so_far(lab, before);
	for (size_t i = 0; i < count; i++) {
		failed += !check(lab, &cases[i], before);
	}
	assert_int_equal(failed, 0);
}
