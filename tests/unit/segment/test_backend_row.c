// SPDX-License-Identifier: BSD-3-Clause
//
// Backend rows compared with headers written by hand.
#include <string.h>

#include "backend_row.h"
#include "test.h"

static const struct weir_backend_path path4 = {
	.address = {10, 0, 0, 11},
	.source = {192, 0, 2, 1},
	.family = 4,
	.port = 3,
	.next_hop_mac = {2, 0, 0, 0, 0, 0x11},
	.port_mac = {2, 0, 0, 0, 0, 1},
	.mtu = 1500,
	.service = 7,
	.resolved = 1,
};

TEST(ipv4_row_is_a_header_ready_to_copy) {
	const uint8_t header[34] = {2, 0, 0, 0, 0, 0x11, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0, 0,
		0, 0, 0, 0x40, 0, 64, 4, 0, 0, 192, 0, 2, 1, 10, 0, 0, 11};
	struct weir_backend_row row;

	memset(&row, 0xff, sizeof(row));
	weir_backend_row_build(&path4, &row);
	assert_memory_equal(row.header, header, sizeof(header));
	assert_int_equal(row.flags, WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED);
	assert_int_equal(row.port, 3);
	assert_int_equal(row.outer_family, 4);
	assert_int_equal(row.l2_bytes, 14);
	assert_int_equal(row.header_bytes, 34);
	assert_int_equal(row.mtu, 1500);
	assert_int_equal(row.service, 7);
	// 4500 + 4000 + 4004 + c000 + 0201 + 0a00 + 000b = 19110 -> 9111
	assert_int_equal(row.checksum_base, 0x9111);
	for (size_t i = sizeof(header); i < sizeof(row.header); i++) {
		assert_int_equal(row.header[i], 0);
	}
}

// What each mode puts between the outer IP header and the packet, and which of its fields depend on
// the packet.
TEST(modes_add_their_headers) {
	static const struct {
		enum weir_forwarding_mode mode;
		uint32_t key;
		uint8_t protocol, bytes, inner_at, udp_at;
		uint8_t inner4[2], inner6[2];
		uint8_t tail[12];
	} cases[] = {
		{WEIR_FORWARDING_IPIP, 0, 4, 0, 0, 0, {0}, {0}, {0}},
		{WEIR_FORWARDING_GUE, 0, 17, 12, 4, 12, {0, 4}, {0, 41}, {0, 0, 0x17, 0xc0}},
		{WEIR_FORWARDING_GRE, 0, 47, 4, 2, 0, {0x08, 0}, {0x86, 0xdd}, {0}},
		{WEIR_FORWARDING_GRE, 0xdeadbeef, 47, 8, 6, 0, {0x08, 0}, {0x86, 0xdd},
			{0x20, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef}},
	};

	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const unsigned int k = (unsigned int)i / 2, ip = i % 2 == 0 ? 20 : 40;
		struct weir_backend_path path = path4;
		struct weir_forwarding read = {0};
		struct weir_backend_row row;

		path.family = i % 2 == 0 ? 4 : 6;
		path.forwarding = (struct weir_forwarding){.mode = (uint8_t)cases[k].mode,
			.gue_port = WEIR_GUE_PORT,
			.gre_key = cases[k].key};
		path.vlan = 100;
		memset(&row, 0xff, sizeof(row));
		weir_backend_row_build(&path, &row);
		assert_int_equal(row.forwarding, cases[k].mode);
		assert_int_equal(row.outer_family, path.family);
		assert_int_equal(row.tail_bytes, cases[k].bytes);
		assert_int_equal(row.header_bytes, 18 + ip + cases[k].bytes);
		assert_int_equal(weir_forwarding_overhead(&path.forwarding, path.family),
			ip + cases[k].bytes);
		assert_int_equal(row.header[18 + (ip == 20 ? 9 : 6)], cases[k].protocol);
		assert_int_equal(row.inner_at, cases[k].inner_at);
		assert_int_equal(row.udp_at, cases[k].udp_at);
		assert_memory_equal(&row.inner4, cases[k].inner4, 2);
		assert_memory_equal(&row.inner6, cases[k].inner6, 2);
		assert_memory_equal(row.header + 18 + ip, cases[k].tail, cases[k].bytes);
		assert_true(weir_forwarding_read(&row, &read));
		assert_int_equal(read.mode, cases[k].mode);
		assert_int_equal(read.gue_port, WEIR_GUE_PORT);
		assert_int_equal(read.gre_key, cases[k].key);
	}
}

TEST(l2_has_only_an_ethernet_header) {
	const uint8_t header[16] = {2, 0, 0, 0, 0, 0x11, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 0x64};
	const uint8_t types[2][2] = {{0x08, 0}, {0x86, 0xdd}};
	struct weir_backend_path path = path4;
	struct weir_backend_row row;

	path.forwarding.mode = WEIR_FORWARDING_L2;
	path.vlan = 100;
	path.source_bits = 8;
	weir_backend_row_build(&path, &row);
	assert_memory_equal(row.header, header, sizeof(header));
	assert_int_equal(row.outer_family, 0);
	assert_int_equal(row.l2_bytes, 18);
	assert_int_equal(row.header_bytes, 18);
	assert_int_equal(row.tail_bytes, 0);
	assert_int_equal(row.source_bits, 0);
	assert_int_equal(row.inner_at, 2);
	assert_memory_equal(&row.inner4, types[0], 2);
	assert_memory_equal(&row.inner6, types[1], 2);
	assert_int_equal(weir_forwarding_overhead(&path.forwarding, 4), 0);
}

TEST(modes_have_names) {
	static const char *const names[] = {"ipip", "l2", "gue", "gre"};

	for (unsigned int mode = 0; mode < WEIR_FORWARDING_COUNT; mode++) {
		assert_string_equal(weir_forwarding_name(mode), names[mode]);
	}
}

TEST(own_limit_is_in_the_row) {
	struct weir_backend_path path = path4;
	struct weir_backend_row row;

	weir_backend_row_build(&path, &row);
	assert_int_equal(row.max_active_flows, 0);
	path.max_active_flows = 70000;
	path.state = WEIR_BACKEND_AT_LIMIT;
	weir_backend_row_build(&path, &row);
	assert_int_equal(row.max_active_flows, 70000);
	assert_int_equal(
		row.flags, WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED | WEIR_BACKEND_AT_LIMIT);
}

TEST(vlan_tag_shifts_the_ip_header_and_not_the_sum) {
	const uint8_t tag[6] = {0x81, 0x00, 0x00, 0x64, 0x08, 0x00};
	struct weir_backend_path path = path4;
	struct weir_backend_row row, plain;

	weir_backend_row_build(&path, &plain);
	path.vlan = 100;
	weir_backend_row_build(&path, &row);
	assert_int_equal(row.l2_bytes, 18);
	assert_int_equal(row.header_bytes, 38);
	assert_memory_equal(row.header, plain.header, 12);
	assert_memory_equal(row.header + 12, tag, sizeof(tag));
	assert_memory_equal(row.header + 18, plain.header + 14, 20);
	assert_int_equal(row.checksum_base, plain.checksum_base);
}

TEST(ipv6_row_fits_with_a_vlan_tag) {
	struct weir_backend_path path = {
		.address = {0x20, 0x01, 0x0d, 0xb8, [15] = 0x11},
		.source = {0x20, 0x01, 0x0d, 0xb8, [15] = 0x01},
		.family = 6,
		.next_hop_mac = {2, 0, 0, 0, 0, 0x11},
		.port_mac = {2, 0, 0, 0, 0, 1},
		.vlan = 4094,
		.mtu = 9000,
	};
	const uint8_t start[14] = {0x81, 0x00, 0x0f, 0xfe, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 4, 64};
	struct weir_backend_row row;

	weir_backend_row_build(&path, &row);
	assert_int_equal(row.outer_family, 6);
	assert_int_equal(row.l2_bytes, 18);
	assert_int_equal(row.header_bytes, 58);
	assert_int_equal(row.checksum_base, 0);
	assert_memory_equal(row.header + 12, start, sizeof(start));
	assert_memory_equal(row.header + 26, path.source, 16);
	assert_memory_equal(row.header + 42, path.address, 16);
}

TEST(flags_follow_the_path) {
	struct weir_backend_path path = path4;
	struct weir_backend_row row;

	path.resolved = 0;
	weir_backend_row_build(&path, &row);
	assert_int_equal(row.flags, WEIR_BACKEND_PRESENT);
	path.resolved = 1;
	weir_backend_row_build(&path, &row);
	assert_int_equal(row.flags, WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED);
}

// If the fields that the worker sets are added to checksum_base, the sum of the header is 0xffff
// (RFC 791).
TEST(checksum_base_completes_to_a_correct_checksum) {
	struct weir_backend_path path = path4;

	for (uint32_t round = 0; round < 4096; round++) {
		uint16_t length = (uint16_t)(20 + round * 15);
		uint8_t tos = (uint8_t)(round * 7);
		struct weir_backend_row row;
		uint32_t sum;
		uint16_t checksum;
		uint8_t ip[20];

		path.address[1] = (uint8_t)(round >> 4);
		path.source[0] = (uint8_t)(round * 31);
		path.source[1] = (uint8_t)(round * 5);
		weir_backend_row_build(&path, &row);
		sum = (uint32_t)row.checksum_base + tos + length + (41 - 4);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		checksum = (uint16_t)~sum;
		memcpy(ip, row.header + row.l2_bytes, sizeof(ip));
		ip[1] = tos;
		ip[2] = (uint8_t)(length >> 8);
		ip[3] = (uint8_t)length;
		ip[9] = 41;
		ip[10] = (uint8_t)(checksum >> 8);
		ip[11] = (uint8_t)checksum;
		sum = 0;
		for (unsigned int i = 0; i < 20; i += 2) {
			sum += (uint32_t)ip[i] << 8 | ip[i + 1];
		}
		while (sum > 0xffff) {
			sum = (sum & 0xffff) + (sum >> 16);
		}
		assert_int_equal(sum, 0xffff);
	}
}

// The expected outer headers were written by hand from docs/reference/packet-formats.md. Their
// checksums were computed by another program.
TEST(filled_headers_equal_those_written_by_hand) {
#define TOS 0xb9 // DSCP 46, ECN 1
#define HASH 0x12345000u // flow label 0x12345; low byte of an IPv4 source: 0x12
#define SOURCE6 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2
#define BACKEND6 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11
	static const uint8_t inner4[40] = {0x45, TOS}, inner6[60] = {0x6b, 0x90};
	static const struct {
		uint8_t family, source, source_bits;
		const uint8_t *packet;
		size_t bytes;
		uint8_t outer[40];
	} cases[] = {
		{4, 2, 0, inner4, sizeof(inner4),
			{0x45, TOS, 0, 60, 0, 0, 0x40, 0, 64, 4, 0x25, 0xf9, 10, 0, 0, 2, 10, 0, 0,
				11}},
		{4, 64, 4, inner4, sizeof(inner4),
			{0x45, TOS, 0, 60, 0, 0, 0x40, 0, 64, 4, 0x25, 0xb9, 10, 0, 0, 0x42, 10, 0,
				0, 11}},
		{4, 2, 0, inner6, sizeof(inner6),
			{0x45, TOS, 0, 80, 0, 0, 0x40, 0, 64, 41, 0x25, 0xc0, 10, 0, 0, 2, 10, 0, 0,
				11}},
		{6, 2, 0, inner4, sizeof(inner4),
			{0x6b, 0x91, 0x23, 0x45, 0, 40, 4, 64, SOURCE6, BACKEND6}},
		{6, 2, 0, inner6, sizeof(inner6),
			{0x6b, 0x91, 0x23, 0x45, 0, 60, 41, 64, SOURCE6, BACKEND6}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_backend_path path = {
			.family = cases[i].family, .source_bits = cases[i].source_bits};
		const uint8_t address6[16] = {BACKEND6}, source6[16] = {SOURCE6};
		uint8_t header[WEIR_OUTER_HEADER_BYTES];
		struct weir_backend_row row;

		memcpy(path.address, path.family == 6 ? address6 : path4.address, 16);
		memcpy(path.source, path.family == 6 ? source6 : (uint8_t[16]){10}, 16);
		path.source[path.family == 6 ? 15 : 3] = cases[i].source;
		weir_backend_row_build(&path, &row);
		weir_backend_row_fill(&row, cases[i].packet, cases[i].bytes, HASH, header);
		assert_memory_equal(
			header + 14, cases[i].outer, (size_t)row.header_bytes - row.l2_bytes);
	}
}

TEST(filled_flow_label_is_never_zero) {
	struct weir_backend_path path = {.family = 6};
	const uint8_t packet[40] = {0x45};
	uint8_t header[WEIR_OUTER_HEADER_BYTES];
	struct weir_backend_row row;

	weir_backend_row_build(&path, &row);
	weir_backend_row_fill(&row, packet, sizeof(packet), 0xfff, header);
	assert_memory_equal(header + 14, ((uint8_t[4]){0x60, 0, 0, 1}), 4);
}
