// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include "data_path_packet.h"
#include "watch_lab.h"

#define TOS 0xb9 // DSCP 46, ECN 1

// A SYN from 10.0.0.2:63488 to 198.51.100.10:80, and from 2001:db8:a::2 to 2001:db8:f::10.
static const uint8_t inner4[40] = {0x45, TOS, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 198,
	51, 100, 10, 0xf8, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff};
static const uint8_t inner6[60] = {0x60 | TOS >> 4, (TOS & 0xf) << 4, 0, 0, 0, 20, 6, 64, 0x20,
	0x01, 0x0d, 0xb8, 0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x20, 0x01, 0x0d, 0xb8, 0, 0x0f, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0xf8, 0, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x04, 0xff,
	0xff};

TEST(packets_are_read) {
	struct weir_data_path_packet packet;
	struct weir_address address;

	assert_true(weir_data_path_packet_read(inner4, sizeof(inner4), &packet));
	address = watch_lab_address("10.0.0.2");
	assert_memory_equal(&packet.source, &address, sizeof(address));
	address = watch_lab_address("198.51.100.10");
	assert_memory_equal(&packet.destination, &address, sizeof(address));
	assert_int_equal(packet.source_port, 63488);
	assert_int_equal(packet.destination_port, 80);
	assert_false(packet.reset);
	assert_true(weir_data_path_packet_read(inner6, sizeof(inner6), &packet));
	address = watch_lab_address("2001:db8:a::2");
	assert_memory_equal(&packet.source, &address, sizeof(address));
	assert_int_equal(packet.destination_port, 443);
	assert_true(packet.reset);
	assert_false(packet.acknowledges);
}

// A UDP packet has a shorter header, and its bytes have other meanings than the flags of TCP.
TEST(datagrams_are_read) {
	struct weir_data_path_packet packet;
	uint8_t datagram[40];

	memcpy(datagram, inner4, sizeof(datagram));
	datagram[9] = 17;
	datagram[33] = 0x14; // RST and ACK of a TCP packet
	assert_true(weir_data_path_packet_read(datagram, sizeof(datagram), &packet));
	assert_int_equal(packet.protocol, 17);
	assert_int_equal(packet.source_port, 63488);
	assert_false(packet.reset || packet.acknowledges);
	datagram[3] = 28; // total length
	assert_true(weir_data_path_packet_read(datagram, 28, &packet));
	datagram[3] = 27;
	assert_false(weir_data_path_packet_read(datagram, 27, &packet));
}

static void expect_refused(const uint8_t *good, size_t bytes, size_t at, uint8_t value) {
	struct weir_data_path_packet packet;
	uint8_t bad[64];

	memcpy(bad, good, bytes);
	bad[at] = value;
	assert_false(weir_data_path_packet_read(bad, bytes, &packet));
}

TEST(packets_of_other_kinds_are_refused) {
	struct weir_data_path_packet packet;

	for (size_t bytes = 0; bytes < sizeof(inner6); bytes++) {
		uint8_t cut[sizeof(inner6)];

		memcpy(cut, inner6, bytes);
		assert_false(weir_data_path_packet_read(cut, bytes, &packet));
		memcpy(cut, inner4, bytes < sizeof(inner4) ? bytes : sizeof(inner4));
		assert_int_equal(
			weir_data_path_packet_read(cut, bytes, &packet), bytes == sizeof(inner4));
	}
	expect_refused(inner4, sizeof(inner4), 0, 0x55);
	expect_refused(inner4, sizeof(inner4), 0, 0x44); // shorter than a header
	expect_refused(inner4, sizeof(inner4), 0, 0x46); // header with options, and no room for TCP
	expect_refused(inner4, sizeof(inner4), 3, 41); // wrong total length
	expect_refused(inner4, sizeof(inner4), 6, 0x20); // flag for more fragments
	expect_refused(inner4, sizeof(inner4), 7, 1); // nonzero fragment offset
	expect_refused(inner4, sizeof(inner4), 9, 1); // protocol ICMP
	expect_refused(inner6, sizeof(inner6), 5, 21); // wrong payload length
	expect_refused(inner6, sizeof(inner6), 6, 44); // with a fragment header
}
