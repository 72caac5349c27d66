// SPDX-License-Identifier: BSD-3-Clause
//
// Packet match: keys of complete, unusual and truncated packets, and each filter of a capture.
#include "packet_match.h"

#include <stdlib.h>
#include <string.h>

#include <rte_byteorder.h>

#include "edges.h"
#include "frames.h"
#include "test.h"

static struct weir_flow_key key_of(const struct frame_spec *spec) {
	struct weir_flow_key key;
	struct frame f;

	frame_build(spec, &f);
	weir_packet_key_read(f.bytes, f.n, &key);
	return key;
}

TEST(keys_are_those_of_the_packet) {
	static const uint8_t hop_by_hop[8] = {17};
	const struct frame_spec specs[] = {{.family = 4, .protocol = 6},
		{.family = 4, .protocol = 17, .destination_port = 53}, {.family = 6, .protocol = 6},
		{.family = 6, .protocol = 17, .tags = 2},
		{.family = 4, .protocol = 6, .tags = 1, .tag_type = {0x88a8}},
		{.family = 6,
			.protocol = 17,
			.options = hop_by_hop,
			.option_bytes = 8,
			.first_header = 0}};

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct weir_flow_key key = key_of(&specs[i]);
		bool ipv4 = specs[i].family == 4;

		assert_int_equal(key.family, specs[i].family);
		assert_int_equal(key.protocol, specs[i].protocol);
		assert_memory_equal(key.source, ipv4 ? frame_client4 : frame_client6, 16);
		assert_memory_equal(key.destination, ipv4 ? frame_vip4 : frame_vip6, 16);
		assert_int_equal(key.source_port, rte_cpu_to_be_16(40000));
		assert_int_equal(key.destination_port,
			rte_cpu_to_be_16(specs[i].destination_port != 0 ? 53 : 80));
	}
}

// The buffer has the size of the truncated frame, so that ASan detects reads beyond the frame.
TEST(truncated_fields_are_unknown) {
	for (unsigned int i = 0; i < edge_count; i++) {
		struct frame f;

		edge_build(&edges[i], &f);
		for (uint32_t n = 0; n <= f.n; n++) {
			uint8_t *copy = malloc(n + (n == 0));
			struct weir_flow_key key;

			assert_non_null(copy);
			memcpy(copy, f.bytes, n);
			weir_packet_key_read(copy, n, &key);
			assert_true(key.family == 0 || key.family == 4 || key.family == 6);
			assert_true(key.family != 0 || (key.protocol == 0 && key.source_port == 0));
			assert_true(n >= 34 || key.family == 0);
			free(copy);
		}
	}
}

static struct weir_capture_terms any(void) {
	return (struct weir_capture_terms){
		.service = WEIR_SERVICE_NONE, .backend = WEIR_BACKEND_NONE};
}

TEST(each_filter_is_applied) {
	const struct frame_spec tcp = {.family = 4, .protocol = 6};
	const struct frame_spec ping4 = {.family = 4, .protocol = 1, .icmp_type = 8};
	const struct frame_spec ping6 = {.family = 6, .protocol = 58, .icmp_type = 128};
	const struct weir_flow_key key = key_of(&tcp), icmp4 = key_of(&ping4),
				   icmp6 = key_of(&ping6);
	struct weir_capture_terms terms = any();

	assert_true(weir_packet_matches(&terms, &key));
	terms.protocol = 17;
	assert_false(weir_packet_matches(&terms, &key));
	terms.protocol = 6;
	assert_true(weir_packet_matches(&terms, &key));
	assert_false(weir_packet_matches(&terms, &icmp4));
	terms.protocol = WEIR_CAPTURE_ICMP;
	assert_true(weir_packet_matches(&terms, &icmp4));
	assert_true(weir_packet_matches(&terms, &icmp6));
	assert_false(weir_packet_matches(&terms, &key));
	terms = any();
	terms.source_port = 40000;
	terms.destination_port = 80;
	assert_true(weir_packet_matches(&terms, &key));
	assert_false(weir_packet_matches(&terms, &icmp4));
	terms.destination_port = 81;
	assert_false(weir_packet_matches(&terms, &key));
	terms = any();
	terms.destination_family = 4;
	memcpy(terms.destination, frame_vip4, 4);
	assert_true(weir_packet_matches(&terms, &key));
	assert_false(weir_packet_matches(&terms, &icmp6));
	terms.destination[3] ^= 1;
	assert_false(weir_packet_matches(&terms, &key));
}

TEST(a_client_may_be_a_prefix) {
	const struct frame_spec tcp = {.family = 6, .protocol = 6};
	const struct weir_flow_key key = key_of(&tcp);

	for (uint8_t bits = 0; bits <= 128; bits++) {
		struct weir_capture_terms terms = any();

		terms.client_family = 6;
		terms.client_bits = bits;
		memcpy(terms.client, key.source, 16);
		if (bits < 128) { // change the first bit that is not compared
			terms.client[bits / 8] ^= (uint8_t)(0x80 >> bits % 8);
		}
		assert_true(weir_packet_matches(&terms, &key));
		if (bits > 0) { // change the last compared bit
			terms.client[(bits - 1) / 8] ^= (uint8_t)(0x80 >> (bits - 1) % 8);
			assert_false(weir_packet_matches(&terms, &key));
		}
		terms.client_family = 4;
		terms.client_bits = 0;
		assert_false(weir_packet_matches(&terms, &key));
	}
}

// The bytes after the IP header of a later fragment are payload, and are not used as ports.
TEST(later_fragments_have_no_ports) {
	const struct frame_spec udp = {.family = 4, .protocol = 17};
	// word: flags and fragment offset in the IP header.
	static const struct {
		uint16_t word;
		bool has_ports;
	} cases[] = {{0x4000, true}, {0x2000, true}, {0x2001, false}, {0x0001, false},
		{0x1fff, false}, {0x1000, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_flow_key key;
		struct frame f;

		frame_build(&udp, &f);
		frame_put16(f.bytes + f.l3 + 6, cases[i].word);
		weir_packet_key_read(f.bytes, f.n, &key);
		assert_int_equal(key.protocol, 17);
		assert_memory_equal(key.destination, frame_vip4, 4);
		assert_int_equal(key.source_port, cases[i].has_ports ? rte_cpu_to_be_16(40000) : 0);
		assert_int_equal(
			key.destination_port, cases[i].has_ports ? rte_cpu_to_be_16(80) : 0);
	}
}
