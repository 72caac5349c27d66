// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include "path_mtu.h"
#include "test.h"

// "Fragmentation needed" to 10.0.0.2 about an IPIP packet to 10.0.0.11, next-hop MTU 1400.
static const uint8_t message4[56] = {0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0,
	2, // then ICMP header
	3, 4, 0, 0, 0, 0, 0x05, 0x78, // then quoted packet
	0x45, 0, 5, 240, 0, 0, 0x40, 0, 64, 4, 0, 0, 10, 0, 0, 2, 10, 0, 0, 11, 0x45, 0, 5, 220, 1,
	2, 3, 4};

// "Packet too big" about IPv4 in IPv6, from 2001:db8::2 to 2001:db8::11, MTU 1400.
static const uint8_t message6[8 + 40 + 8] = {2, 0, 1, 2, 0, 0, 0x05, 0x78, // then quoted packet
	0x60, 0, 0, 0, 5, 220, 4, 64, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
	0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x45};

static void fix_checksum(uint8_t *packet, size_t bytes) {
	uint32_t sum = 0;

	packet[22] = packet[23] = 0;
	for (size_t i = 20; i < bytes; i += 2) {
		sum += (uint32_t)packet[i] << 8 | packet[i + 1];
	}
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	packet[22] = (uint8_t)(sum >> 8);
	packet[23] = (uint8_t)sum;
}

// Outer protocols of the forwarding modes: IPIP, IPv6, UDP (GUE), GRE.
static const uint8_t tunnels[] = {4, 41, 17, 47};

TEST(path_mtu_reads_ipv4) {
	struct weir_path_mtu_report report;
	uint8_t packet[sizeof(message4)];

	memcpy(packet, message4, sizeof(packet));
	assert_false(weir_path_mtu_parse4(packet, sizeof(packet), &report)); // wrong checksum
	fix_checksum(packet, sizeof(packet));
	assert_true(weir_path_mtu_parse4(packet, sizeof(packet), &report));
	assert_int_equal(report.mtu, 1400);
	assert_int_equal(report.backend.family, 4);
	assert_memory_equal(report.backend.bytes, ((uint8_t[4]){10, 0, 0, 11}), 4);
	assert_memory_equal(report.source.bytes, ((uint8_t[4]){10, 0, 0, 2}), 4);
	for (size_t bytes = 0; bytes < 48; bytes++) { // truncated
		uint8_t cut[48];

		memcpy(cut, packet, bytes);
		assert_false(weir_path_mtu_parse4(cut, bytes, &report));
	}
	for (size_t i = 0; i < sizeof(tunnels); i++) {
		packet[28 + 9] = tunnels[i];
		fix_checksum(packet, sizeof(packet));
		assert_true(weir_path_mtu_parse4(packet, sizeof(packet), &report));
	}
}

TEST(path_mtu_ignores_other_packets) {
	static const struct {
		uint8_t at, value;
	} changes[] = {{20, 11}, {21, 1}, {28, 0x46}, {28 + 9, 6}, {0, 0x41}};
	struct weir_path_mtu_report report;
	uint8_t packet[sizeof(message6)];

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		memcpy(packet, message4, sizeof(message4));
		packet[changes[i].at] = changes[i].value;
		fix_checksum(packet, sizeof(message4));
		assert_false(weir_path_mtu_parse4(packet, sizeof(message4), &report));
	}
	memcpy(packet, message6, sizeof(packet));
	packet[8 + 6] = 6;
	assert_false(weir_path_mtu_parse6(packet, sizeof(packet), &report));
	packet[8 + 6] = 4;
	packet[0] = 1;
	assert_false(weir_path_mtu_parse6(packet, sizeof(packet), &report));
}

TEST(path_mtu_reads_ipv6) {
	struct weir_path_mtu_report report;
	uint8_t packet[sizeof(message6)];

	memcpy(packet, message6, sizeof(packet));
	assert_true(weir_path_mtu_parse6(packet, sizeof(packet), &report));
	assert_int_equal(report.mtu, 1400);
	assert_int_equal(report.backend.family, 6);
	assert_int_equal(report.backend.bytes[15], 0x11);
	assert_int_equal(report.source.bytes[15], 2);
	for (size_t bytes = 0; bytes < 49; bytes++) {
		uint8_t cut[49];

		memcpy(cut, packet, bytes);
		assert_false(weir_path_mtu_parse6(cut, bytes, &report));
	}
	packet[8 + 6] = 44; // the outer packet was fragmented
	packet[8 + 40] = 41;
	assert_true(weir_path_mtu_parse6(packet, sizeof(packet), &report));
}

TEST(path_mtu_is_bounded) {
	struct weir_path_mtu_report report = {.backend = {.family = 4}, .mtu = 1400};

	assert_int_equal(weir_path_mtu_next(&report, 1600), 1400);
	assert_int_equal(weir_path_mtu_next(&report, 1400), 1400);
	assert_int_equal(weir_path_mtu_next(&report, 1300), 1300); // the MTU is never raised
	report.mtu = 68;
	assert_int_equal(weir_path_mtu_next(&report, 1500), 576);
	report.mtu = 0; // old routers send no MTU
	assert_int_equal(weir_path_mtu_next(&report, 1500), 1492);
	assert_int_equal(weir_path_mtu_next(&report, 1400), 1280);
	assert_int_equal(weir_path_mtu_next(&report, 576), 576);
	report = (struct weir_path_mtu_report){.backend = {.family = 6}, .mtu = 68};
	assert_int_equal(weir_path_mtu_next(&report, 1500), 1280);
	report.mtu = UINT32_MAX;
	assert_int_equal(weir_path_mtu_next(&report, 1500), 1500);
}
