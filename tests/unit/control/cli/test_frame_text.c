// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>
#include <string.h>

#include "frame_text.h"
#include "test.h"

#define MACS "\2\0\0\0\0\1\2\0\0\0\0\2"
#define ADDRESSES4 "\xc0\0\2\7\xc6\x33\x64\x0a"
#define IPV4(bytes, protocol) "\x45\0" bytes "\0\1\x40\0\x40" protocol "\0\0" ADDRESSES4
#define IPV6(bytes, next) "\x60\0\0\0" bytes next "\x40" ADDRESS6 ADDRESS6
#define ADDRESS6 "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\7"
#define TCP(flags) "\x9c\x40\0\x50\0\0\0\x4d\0\0\0\0\x50" flags "\xff\xff\0\0\0\0"
#define UDP "\x9c\x40\0\x50\0\x24\0\0"

static const struct {
	const char *data;
	size_t bytes;
	const char *text;
	int version;
} cases[] = {
#define CASE(data, text, version) {data, sizeof(data) - 1, text, version}
	CASE("", "incomplete Ethernet header", 0),
	CASE("\2\0\0\0\0\1\2\0\0\0\0\2\x08", "incomplete Ethernet header", 0),
	CASE(MACS "\x08\x06", "EtherType 0x0806", 0),
	CASE(MACS "\x81\0\0\x64", "EtherType 0x8100", 0), // no EtherType after the tag
	CASE(MACS "\x08\0", "IPv4, truncated", 4),
	CASE(MACS "\x08\0" IPV4("\0\x28", "\6") TCP("\2"), "TCP SYN seq 77, no data", 4),
	CASE(MACS "\x81\0\0\x64\x08\0" IPV4("\0\x28", "\6") TCP("\x12"),
		"TCP SYN ACK seq 77, no data", 4),
	CASE(MACS "\x88\xa8\0\1\x81\0\0\x64\x08\0" IPV4("\0\x29", "\6") TCP("\x18"),
		"TCP PSH ACK seq 77, 1 byte of data", 4),
	CASE(MACS "\x91\0\0\1\x91\0\0\x64\x08\0" IPV4("\0\x28", "\6") TCP("\2"),
		"TCP SYN seq 77, no data", 4),
	CASE(MACS "\x08\0" IPV4("\5\xdc", "\6") TCP("\x11"),
		"TCP FIN ACK seq 77, 1460 bytes of data", 4),
	CASE(MACS "\x08\0" IPV4("\0\x28", "\6") TCP("\0"), "TCP without flags seq 77, no data", 4),
	CASE(MACS "\x08\0" IPV4("\0\x1e", "\6") TCP("\4"), "TCP RST seq 77, truncated", 4),
	CASE(MACS "\x08\0" IPV4("\0\x28", "\6") "\x9c\x40", "TCP, truncated", 4),
	CASE(MACS "\x08\0" IPV4("\0\x38", "\x11") UDP, "UDP, 28 bytes of data", 4),
	CASE(MACS "\x08\0" IPV4("\0\x14", "\x11"), "IPv4, protocol 17", 4),
	CASE(MACS "\x08\0" IPV4("\0\x1c", "\1") "\x08\0", "ICMP type 8 code 0", 4),
	CASE(MACS "\x08\0" IPV4("\0\x38", "\x84"), "IPv4, protocol 132", 4),
	CASE(MACS "\x08\0\x45\0\0\x38\0\1\0\1\x40\x11\0\0" ADDRESSES4,
		"IPv4, later fragment of protocol 17", 4),
	CASE(MACS "\x08\0\x41\0\0\x38\0\1\0\0\x40\x11\0\0" ADDRESSES4, "IPv4, truncated", 4),
	CASE(MACS "\x86\xdd" IPV6("\0\x14", "\6") TCP("\2"), "TCP SYN seq 77, no data", 6),
	CASE(MACS "\x86\xdd" IPV6("\0\x14", "\0") "\6\0\1\4\0\0\0\0", "TCP, truncated", 6),
	CASE(MACS "\x86\xdd" IPV6("\0\x1c", "\x3c") "\6\0\1\4\0\0\0\0" TCP("\2"),
		"TCP SYN seq 77, no data", 6),
	CASE(MACS "\x86\xdd" IPV6("\0\x20", "\x33") "\6\1\0\0\0\0\0\1\0\0\0\2" TCP("\2"),
		"TCP SYN seq 77, no data", 6), // after an authentication header
	CASE(MACS "\x86\xdd" IPV6("\0\x08", "\x3c") "\6\xff\1\4\0\0\0\0", "IPv6, truncated", 6),
	CASE(MACS "\x86\xdd" IPV6("\0\x1c", "\x2c") "\6\0\0\x09\0\0\0\1",
		"IPv6, later fragment of protocol 6", 6),
	CASE(MACS "\x86\xdd" IPV6("\0\x1c", "\x2c") "\x3c\0\0\x09\0\0\0\1", "IPv6, later fragment",
		// the Next Header is an options header, so only the first fragment contains the
		// protocol
		6),
	CASE(MACS "\x86\xdd" IPV6("\0\x24", "\x2c") "\x3c\0\0\1\0\0\0\1"
						    "\6\0\1\4\0\0\0\0" TCP("\2"),
		"TCP SYN seq 77, no data", 6),
	CASE(MACS "\x86\xdd" IPV6("\0\x08", "\x3a") "\x80\0", "ICMPv6 type 128 code 0", 6),
#undef CASE
};

TEST(frames_are_described) {
	char text[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint8_t *data = (const uint8_t *)cases[i].data;

		assert_string_equal(
			weir_frame_text(data, cases[i].bytes, text, sizeof(text)), cases[i].text);
		assert_int_equal(weir_frame_ip_version(data, cases[i].bytes), cases[i].version);
	}
}

// Frames are truncated at each byte. Each frame is in memory of exactly its size, so that
// sanitizers detect a read beyond the end.
TEST(truncated_frames_are_not_read_beyond) {
	char text[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t bytes = 0; bytes <= cases[i].bytes; bytes++) {
			uint8_t *data = malloc(bytes > 0 ? bytes : 1);

			memcpy(data, cases[i].data, bytes);
			assert_true(strlen(weir_frame_text(data, bytes, text, sizeof(text))) > 0);
			free(data);
		}
	}
}
