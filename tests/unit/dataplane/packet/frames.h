// SPDX-License-Identifier: BSD-3-Clause
//
// Frames: packets for the tests of the packet path, built field by field, and placed so that ASan
// detects a read or write beyond the end of a packet. Checksums are computed byte by byte, without
// code of the packet path.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>

#define FRAME_MAX 10000

// Addresses that the tests use. IPv4 addresses are in the first 4 bytes.
extern const uint8_t frame_client4[16], frame_vip4[16], frame_stranger4[16];
extern const uint8_t frame_client6[16], frame_vip6[16], frame_stranger6[16];
extern const uint8_t frame_client_mac[6], frame_our_mac[6];

// Fields of a packet to build. Zero means the default value: client to VIP, TTL 64, ...
struct frame_spec {
	uint8_t family; // 4 or 6
	// 6, 17, 1 or 58; with any other protocol, the payload follows the IP header
	uint8_t protocol;
	const uint8_t *source;
	const uint8_t *destination;
	uint16_t source_port; // 0 = port 40000
	uint16_t destination_port; // 0 = port 80
	uint8_t tcp_flags;
	uint8_t tcp_options; // bytes of TCP options, a multiple of 4
	uint8_t tos;
	uint8_t icmp_type;
	uint8_t icmp_code;
	uint8_t tags; // number of VLAN tags
	uint16_t tag_type[3]; // 0 = 0x8100
	const uint8_t *options; // IPv4 options or IPv6 extension headers
	uint8_t option_bytes;
	uint8_t first_header; // IPv6 with extension headers: type of the first header
	uint16_t payload; // bytes after the L4 header, filled with a pattern
	const uint8_t *body; // payload that replaces the pattern
	uint16_t padding; // bytes of padding after the IP packet
};

struct frame {
	uint8_t bytes[FRAME_MAX];
	uint32_t n;
	uint32_t l3; // offset of the IP header
	uint32_t l4; // offset of the L4 header
	uint32_t ip_bytes; // length of the IP packet
};

void frame_build(const struct frame_spec *spec, struct frame *ret);
// Set the IPv4 header checksum to the correct value.
void frame_fix_ipv4(struct frame *f);

void frame_put16(uint8_t *at, uint16_t value);
void frame_put32(uint8_t *at, uint32_t value);
uint16_t frame_get16(const uint8_t *at);
uint32_t frame_get32(const uint8_t *at);
// Returns `sum` plus the sum of big-endian 16-bit words, folded to 16 bits.
uint16_t frame_sum(const uint8_t *at, uint32_t bytes, uint32_t sum);
// Returns the sum of an IPv6 pseudo-header. ip: pointer to the IPv6 header.
uint16_t frame_pseudo_sum6(const uint8_t *ip, uint32_t bytes, uint8_t protocol);

// Returns a pseudo-random number below 2^31, and advances the state of the generator.
uint64_t frame_random(uint64_t *state);

// Returns a packet buffer of exactly headroom + n bytes on the heap.
struct rte_mbuf *frame_mbuf(const uint8_t *bytes, uint32_t n, uint16_t headroom);
void frame_mbuf_free(struct rte_mbuf *m);
