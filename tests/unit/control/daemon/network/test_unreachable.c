// SPDX-License-Identifier: BSD-3-Clause
#include <netinet/in.h>
#include <string.h>

#include "test.h"
#include "unreachable.h"

// 10.0.0.11 reports "protocol unreachable" to 10.0.0.2, about a datagram in IPIP. The datagram is
// from 192.0.2.2:53000 to 198.51.100.10:53.
static const uint8_t message4[76] = {0x45, 0, 0, 76, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 11, 10, 0,
	0, 2, // then ICMP header
	3, 2, 0, 0, 0, 0, 0, 0, // then outer header
	0x45, 0, 0, 53, 0, 0, 0x40, 0, 64, 4, 0, 0, 10, 0, 0, 2, 10, 0, 0, 11, // then inner header
	0x45, 0, 0, 33, 1, 2, 0x40, 0, 63, 17, 0, 0, 192, 0, 2, 2, 198, 51, 100,
	10, // then ports and length
	0xcf, 0x08, 0, 53, 0, 13, 0, 0};

// 2001:db8::11 reports "unrecognized next header", about a datagram of IPv6 in IPv6. The datagram
// is from 2001:db8:c::2 port 7 to 2001:db8:f::a port 53.
static const uint8_t message6[8 + 40 + 40 + 4] = {4, 1, 1, 2, 0, 0, 0, 6, // then outer header
	0x60, 0, 0, 0, 0, 48, 41, 64, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
	0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, // then inner header
	0x60, 0, 0, 0, 0, 8, 17, 63, 0x20, 0x01, 0x0d, 0xb8, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
	0x20, 0x01, 0x0d, 0xb8, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, // then ports
	0, 7, 0, 53};

static void fix_checksum(struct weir_icmp_message *message) {
	uint32_t sum = 0;

	message->data[22] = message->data[23] = 0;
	for (size_t i = 20; i < message->bytes; i += 2) {
		sum += weir_icmp_get16(message->data + i);
	}
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	message->data[22] = (uint8_t)(sum >> 8);
	message->data[23] = (uint8_t)sum;
}

static struct weir_icmp_message begin4(void) {
	struct weir_icmp_message message = {.family = 4, .bytes = sizeof(message4)};

	memcpy(message.data, message4, sizeof(message4));
	fix_checksum(&message);
	return message;
}

static struct weir_icmp_message begin6(void) {
	struct weir_icmp_message message = {.family = 6, .bytes = sizeof(message6)};

	memcpy(message.data, message6, sizeof(message6));
	message.from = weir_address_of(6, message6 + 8 + 24);
	return message;
}

TEST(unreachable_reads_ipv4) {
	struct weir_icmp_message message = begin4();
	struct weir_unreachable_report report;
	uint32_t flow;

	assert_true(weir_unreachable_parse(&message, &report));
	assert_string_equal(weir_unreachable_text((enum weir_unreachable_kind)report.kind),
		"protocol unreachable");
	assert_memory_equal(report.host.bytes, ((uint8_t[4]){10, 0, 0, 11}), 4);
	assert_memory_equal(report.source.bytes, ((uint8_t[4]){10, 0, 0, 2}), 4);
	assert_memory_equal(report.client.bytes, ((uint8_t[4]){192, 0, 2, 2}), 4);
	assert_memory_equal(report.vip.bytes, ((uint8_t[4]){198, 51, 100, 10}), 4);
	assert_int_equal(report.protocol, IPPROTO_UDP);
	assert_int_equal(report.client_port, 53000);
	assert_int_equal(report.vip_port, 53);
	assert_int_equal(report.bytes, 53);
	flow = weir_unreachable_flow(&report);
	message.data[69]++; // a different client port
	fix_checksum(&message);
	assert_true(weir_unreachable_parse(&message, &report));
	assert_int_not_equal(weir_unreachable_flow(&report), flow);
}

// Messages that a host cannot have sent about such a packet, or that do not identify a flow.
TEST(unreachable_ignores_other_messages) {
	static const struct {
		uint8_t at, value;
		const char *what;
	} changes[] = {{9, 17, "not ICMP"}, {15, 12, "another host or a router sent it"},
		{20, 11, "time exceeded"}, {21, 4, "fragmentation needed"}, {21, 5, "source route"},
		{21, 14, "precedence"}, {28, 0x44, "outer header too short"},
		{28, 0x65, "not IPv4"}, {34, 0x1f, "outer fragment"}, {37, 6, "no tunnel packet"},
		{37, 41, "IPv6 in IPv4, with IPv4 in it"}, {47, 12, "packet to another host"},
		{48, 0x46, "options beyond the end"}, {55, 1, "inner fragment"},
		{57, 1, "an inner protocol without ports"}};
	struct weir_unreachable_report report;

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct weir_icmp_message message = begin4();

		message.data[changes[i].at] = changes[i].value;
		message.bytes -= changes[i].value == 0x46 ? 4 : 0;
		fix_checksum(&message);
		if (weir_unreachable_parse(&message, &report)) {
			fail_msg("%s", changes[i].what);
		}
	}
	for (size_t bytes = 0; bytes < 72; bytes += 2) { // truncated
		struct weir_icmp_message message = begin4();

		message.bytes = bytes;
		if (bytes >= 24) {
			fix_checksum(&message);
		}
		assert_false(weir_unreachable_parse(&message, &report));
	}
	struct weir_icmp_message message = begin4();

	message.data[22] ^= 1;
	assert_false(weir_unreachable_parse(&message, &report)); // wrong checksum
}

TEST(unreachable_reads_codes) {
	static const struct {
		uint8_t family, type, code;
		const char *text; // expected text; NULL: the message is ignored
	} cases[] = {{4, 3, 0, "unreachable"}, {4, 3, 1, "unreachable"},
		{4, 3, 2, "protocol unreachable"}, {4, 3, 3, "port unreachable"}, {4, 3, 4, NULL},
		{4, 3, 9, "prohibited"}, {4, 3, 10, "prohibited"}, {4, 3, 13, "prohibited"},
		{6, 1, 0, "unreachable"}, {6, 1, 1, "prohibited"}, {6, 1, 2, NULL},
		{6, 1, 3, "unreachable"}, {6, 1, 4, "port unreachable"}, {6, 1, 5, "prohibited"},
		{6, 1, 6, "prohibited"}, {6, 4, 0, NULL}, {6, 4, 1, "protocol unreachable"},
		{6, 4, 2, NULL}, {6, 2, 0, NULL}, {6, 3, 1, NULL}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_icmp_message message = cases[i].family == 4 ? begin4() : begin6();
		uint8_t *icmp = message.data + (cases[i].family == 4 ? 20 : 0);
		struct weir_unreachable_report report;

		icmp[0] = cases[i].type;
		icmp[1] = cases[i].code;
		if (cases[i].family == 4) {
			fix_checksum(&message);
		}
		assert_int_equal(weir_unreachable_parse(&message, &report), cases[i].text != NULL);
		if (cases[i].text != NULL) {
			assert_string_equal(
				weir_unreachable_text((enum weir_unreachable_kind)report.kind),
				cases[i].text);
		}
	}
}

TEST(unreachable_reads_ipv6) {
	struct weir_icmp_message message = begin6();
	struct weir_unreachable_report report;

	assert_true(weir_unreachable_parse(&message, &report));
	assert_int_equal(report.host.bytes[15], 0x11);
	assert_int_equal(report.source.bytes[15], 2);
	assert_int_equal(report.vip.bytes[15], 10);
	assert_int_equal(report.vip_port, 53);
	assert_int_equal(report.bytes, 88);
	for (message.bytes = 0; message.bytes < sizeof(message6); message.bytes++) {
		assert_false(weir_unreachable_parse(&message, &report));
	}
	message = begin6();
	message.from.bytes[15]++; // sent by a router
	assert_false(weir_unreachable_parse(&message, &report));
	message = begin6();
	message.data[7] = 40; // a message about a header of the inner packet
	assert_false(weir_unreachable_parse(&message, &report));
}

// --- other forwarding modes ---

// Puts `bytes` bytes behind the quoted outer header of a message, and changes its protocol.
static void insert(struct weir_icmp_message *message, size_t at, size_t protocol_at,
	uint8_t protocol, const uint8_t *tail, size_t bytes) {
	memmove(message->data + at + bytes, message->data + at, message->bytes - at);
	memcpy(message->data + at, tail, bytes);
	message->bytes += bytes;
	message->data[protocol_at] = protocol;
	if (message->family == 4) {
		fix_checksum(message);
	}
}

// A host without GUE receiver reports "port unreachable"; one without GRE, "protocol unreachable".
TEST(unreachable_reads_all_forwarding_modes) {
	static const struct {
		uint8_t protocol, bytes;
		uint8_t tail4[12], tail6[12];
		struct weir_forwarding forwarding;
	} cases[] = {
		{17, 12, {0xc0, 1, 0x17, 0xc1, 0, 45, 0, 0, 0, 4, 0, 0},
			{0xc0, 1, 0x17, 0xc1, 0, 60, 0, 0, 0, 41, 0, 0},
			{.mode = WEIR_FORWARDING_GUE, .gue_port = 6081}},
		{47, 4, {0, 0, 8, 0}, {0, 0, 0x86, 0xdd},
			{.mode = WEIR_FORWARDING_GRE, .gue_port = WEIR_GUE_PORT}},
		{47, 8, {0x20, 0, 8, 0, 0xa1, 2, 3, 4}, {0x20, 0, 0x86, 0xdd, 0xa1, 2, 3, 4},
			{.mode = WEIR_FORWARDING_GRE,
				.gue_port = WEIR_GUE_PORT,
				.gre_key = 0xa1020304}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_icmp_message ipv4 = begin4(), ipv6 = begin6(), changed;
		struct weir_unreachable_report report;

		insert(&ipv4, 48, 37, cases[i].protocol, cases[i].tail4, cases[i].bytes);
		assert_true(weir_unreachable_parse(&ipv4, &report));
		assert_int_equal(report.client_port, 53000);
		assert_true(weir_forwarding_equal(&report.forwarding, &cases[i].forwarding));
		insert(&ipv6, 48, 14, cases[i].protocol, cases[i].tail6, cases[i].bytes);
		assert_true(weir_unreachable_parse(&ipv6, &report));
		assert_int_equal(report.client_port, 7);
		assert_true(weir_forwarding_equal(&report.forwarding, &cases[i].forwarding));
		// Each byte of the header that identifies the packet inside matters.
		for (size_t k = cases[i].protocol == 17 ? 8 : 0; k < 4; k++) {
			changed = ipv4;
			changed.data[48 + k] ^= 0x11;
			fix_checksum(&changed);
			assert_false(weir_unreachable_parse(&changed, &report));
		}
		// cut anywhere
		for (size_t bytes = 48; bytes < 48u + cases[i].bytes + 24; bytes++) {
			changed = ipv4;
			changed.bytes = bytes;
			fix_checksum(&changed);
			assert_false(weir_unreachable_parse(&changed, &report));
		}
	}
}
