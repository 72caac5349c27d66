// SPDX-License-Identifier: BSD-3-Clause
//
// Writes headers byte by byte, as the RFCs define them. This file uses no code of the packet path,
// because the checks compare the packet path with these headers.
#include "packets.h"

#include <netinet/in.h>
#include <string.h>

#define ETHERNET_BYTES 14u
#define VLAN_BYTES 4u
#define IPV4_BYTES 20u
#define IPV6_BYTES 40u
#define TCP_BYTES 20u
#define UDP_BYTES 8u
#define FRAME_MIN 60u // length without the FCS; 64 bytes on the wire

const uint8_t weir_bench_client_mac[6] = {0x02, 0, 0, 0, 0, 0x01};
const uint8_t weir_bench_our_mac[6] = {0x02, 0, 0, 0, 0, 0x02};

static void put16(uint8_t *at, uint32_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value) {
	put16(at, value >> 16);
	put16(at + 2, value);
}

static uint16_t fold(uint64_t sum) {
	while (sum > 0xffff) {
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)sum;
}

uint16_t weir_bench_sum(const uint8_t *at, size_t bytes, uint64_t sum) {
	for (size_t i = 0; i + 1 < bytes; i += 2) {
		sum += (uint64_t)at[i] << 8 | at[i + 1];
	}
	if (bytes % 2 != 0) {
		sum += (uint64_t)at[bytes - 1] << 8;
	}
	return fold(sum);
}

static uint32_t l4_bytes(uint8_t protocol) {
	return protocol == IPPROTO_TCP ? TCP_BYTES : UDP_BYTES;
}

static uint32_t ip_header_bytes(uint8_t family) {
	return family == 4 ? IPV4_BYTES : IPV6_BYTES;
}

uint32_t weir_bench_frame_min(uint8_t family, uint8_t protocol, bool vlan) {
	uint32_t bytes = ETHERNET_BYTES + (vlan ? VLAN_BYTES : 0) + ip_header_bytes(family) +
			 l4_bytes(protocol);

	return bytes > FRAME_MIN ? bytes : FRAME_MIN;
}

// Returns the byte of the payload at this offset in a frame. The bytes form a pattern, so that a
// check detects a shifted payload.
static uint8_t payload(uint32_t offset) {
	return (uint8_t)(offset * 151 + (offset >> 8) * 7 + 3);
}

static void put_payload(uint8_t *to, uint32_t first, uint32_t end) {
	for (uint32_t i = first; i < end; i++) {
		to[i] = payload(i);
	}
}

void weir_bench_packets_init(
	struct weir_bench_packets *packets, uint8_t family, bool vlan, uint32_t frame_bytes) {
	const uint8_t protocol[2] = {IPPROTO_TCP, IPPROTO_UDP};
	uint8_t frame[WEIR_BENCH_FRAME_MAX] = {0};

	*packets = (struct weir_bench_packets){.frame_bytes = frame_bytes,
		.l3_offset = ETHERNET_BYTES + (vlan ? VLAN_BYTES : 0),
		.family = family,
		.vlan = vlan};
	put_payload(frame, 0, frame_bytes);
	for (unsigned int i = 0; i < 2; i++) {
		uint32_t first =
			packets->l3_offset + ip_header_bytes(family) + l4_bytes(protocol[i]);

		packets->payload_sum[i] = weir_bench_sum(
			frame + first, first < frame_bytes ? frame_bytes - first : 0, 0);
	}
}

static void put_ethernet(const struct weir_bench_packets *packets, uint8_t *to) {
	uint32_t type = packets->family == 4 ? 0x0800 : 0x86dd;

	memcpy(to, weir_bench_our_mac, 6);
	memcpy(to + 6, weir_bench_client_mac, 6);
	if (packets->vlan) {
		put16(to + 12, 0x8100);
		put16(to + 14, WEIR_BENCH_VLAN);
	}
	put16(to + packets->l3_offset - 2, type);
}

static void put_ipv4(const struct weir_bench_tuple *tuple, uint8_t protocol, uint32_t serial,
	uint32_t bytes, uint8_t *ip) {
	ip[0] = 0x45;
	ip[1] = WEIR_BENCH_TOS;
	put16(ip + 2, bytes);
	put16(ip + 4, serial);
	put16(ip + 6, 0x4000);
	ip[8] = 57;
	ip[9] = protocol;
	put16(ip + 10, 0);
	memcpy(ip + 12, tuple->source, 4);
	memcpy(ip + 16, tuple->destination, 4);
	put16(ip + 10, (uint16_t)~weir_bench_sum(ip, IPV4_BYTES, 0));
}

static void put_ipv6(
	const struct weir_bench_tuple *tuple, uint8_t protocol, uint32_t bytes, uint8_t *ip) {
	put32(ip, 6u << 28 | (uint32_t)WEIR_BENCH_TOS << 20 | (tuple->source_port & 0xfffff));
	put16(ip + 4, bytes - IPV6_BYTES);
	ip[6] = protocol;
	ip[7] = 57;
	memcpy(ip + 8, tuple->source, 16);
	memcpy(ip + 24, tuple->destination, 16);
}

// Returns the sum of the words of the pseudo-header (addresses, protocol and length), which is part
// of the TCP or UDP checksum.
static uint64_t pseudo_sum(const struct weir_bench_tuple *tuple, uint8_t protocol, uint32_t bytes) {
	size_t address = tuple->family == 4 ? 4 : 16;

	return (uint64_t)weir_bench_sum(tuple->source, address, 0) +
	       weir_bench_sum(tuple->destination, address, 0) + protocol + bytes;
}

static void put_tcp(const struct weir_bench_tuple *tuple, uint8_t flags, uint32_t serial,
	uint64_t sum, uint8_t *l4) {
	put16(l4, tuple->source_port);
	put16(l4 + 2, tuple->destination_port);
	put32(l4 + 4, serial);
	put32(l4 + 8, flags & WEIR_BENCH_ACK ? ~serial : 0);
	l4[12] = 5 << 4;
	l4[13] = flags;
	put16(l4 + 14, 0xfaf0);
	put32(l4 + 16, 0);
	put16(l4 + 16, (uint16_t)~weir_bench_sum(l4, TCP_BYTES, sum));
}

static void put_udp(
	const struct weir_bench_tuple *tuple, uint32_t bytes, uint64_t sum, uint8_t *l4) {
	uint16_t checksum;

	put16(l4, tuple->source_port);
	put16(l4 + 2, tuple->destination_port);
	put16(l4 + 4, bytes);
	put16(l4 + 6, 0);
	checksum = (uint16_t)~weir_bench_sum(l4, UDP_BYTES, sum);
	put16(l4 + 6, checksum != 0 ? checksum : 0xffff); // 0 would mean "no checksum"
}

static uint32_t put_headers(const struct weir_bench_packets *packets,
	const struct weir_bench_tuple *tuple, uint8_t protocol, uint8_t flags, uint32_t serial,
	uint8_t *to) {
	uint32_t ip_bytes = packets->frame_bytes - packets->l3_offset;
	uint32_t bytes = ip_bytes - ip_header_bytes(packets->family);
	uint8_t *ip = to + packets->l3_offset, *l4 = ip + ip_header_bytes(packets->family);
	uint64_t sum =
		pseudo_sum(tuple, protocol, bytes) + packets->payload_sum[protocol == IPPROTO_UDP];

	put_ethernet(packets, to);
	if (packets->family == 4) {
		put_ipv4(tuple, protocol, serial, ip_bytes, ip);
	} else {
		put_ipv6(tuple, protocol, ip_bytes, ip);
	}
	if (protocol == IPPROTO_TCP) {
		put_tcp(tuple, flags, serial, sum, l4);
	} else {
		put_udp(tuple, bytes, sum, l4);
	}
	return (uint32_t)(l4 - to) + l4_bytes(protocol);
}

void weir_bench_packet_write(const struct weir_bench_packets *packets,
	const struct weir_bench_tuple *tuple, uint8_t protocol, uint8_t flags, uint32_t serial,
	uint8_t *to) {
	uint32_t headers = put_headers(packets, tuple, protocol, flags, serial, to);

	put_payload(to, headers, packets->frame_bytes);
}

void weir_bench_packet_rewrite(const struct weir_bench_packets *packets,
	const struct weir_bench_tuple *tuple, uint8_t protocol, uint8_t flags, uint32_t serial,
	uint8_t *to) {
	uint32_t headers = put_headers(packets, tuple, protocol, flags, serial, to);
	uint32_t end = packets->frame_bytes < WEIR_BENCH_HEADERS_BYTES ? packets->frame_bytes
								       : WEIR_BENCH_HEADERS_BYTES;

	put_payload(to, headers, end);
}
