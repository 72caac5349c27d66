// SPDX-License-Identifier: BSD-3-Clause
//
// Builds frames for the tests of BPF programs, layer by layer. Each put_ function appends one
// header; finish_ functions fill in the fields that depend on later headers.
#pragma once

#include <arpa/inet.h>
#include <assert.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#define FRAME_BYTES 2048

struct frame {
	uint32_t length;
	uint8_t pad[2]; // aligns IP headers to 4 bytes, as their types require
	uint8_t byte[FRAME_BYTES];
};

static inline void *put(struct frame *frame, const void *data, uint32_t bytes) {
	void *at = frame->byte + frame->length;

	assert(frame->length + bytes <= FRAME_BYTES);
	if (data != NULL) {
		memcpy(at, data, bytes);
	} else {
		memset(at, 0, bytes);
	}
	frame->length += bytes;
	return at;
}

static inline void put_u16(struct frame *frame, uint16_t value) {
	value = htons(value);
	put(frame, &value, sizeof(value));
}

// Append an Ethernet header and `tags` VLAN tags. If there are two or more, the outer tag is
// 802.1ad.
static inline void put_ethernet(struct frame *frame, int tags, uint16_t type) {
	static const uint8_t macs[12] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};

	put(frame, macs, sizeof(macs));
	for (int i = 0; i < tags; i++) {
		put_u16(frame, i + 1 < tags ? ETH_P_8021AD : ETH_P_8021Q);
		put_u16(frame, (uint16_t)(100 + i));
	}
	put_u16(frame, type);
}

static inline uint16_t ipv4_checksum(const void *header, uint32_t bytes) {
	const uint8_t *byte = header;
	uint32_t sum = 0;

	for (uint32_t i = 0; i + 1 < bytes; i += 2) {
		sum += (uint32_t)byte[i] << 8 | byte[i + 1];
	}
	while (sum >> 16) {
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return htons((uint16_t)~sum);
}

static inline struct iphdr *put_ipv4(struct frame *frame, const char *source,
	const char *destination, uint8_t protocol, uint32_t option_bytes) {
	struct iphdr *ip = put(frame, NULL, sizeof(*ip));

	ip->version = 4;
	ip->ihl = 5 + option_bytes / 4;
	ip->ttl = 64;
	ip->protocol = protocol;
	inet_pton(AF_INET, source, &ip->saddr);
	inet_pton(AF_INET, destination, &ip->daddr);
	memset(put(frame, NULL, option_bytes), 1, option_bytes); // option 1: "no operation"
	return ip;
}

static inline struct ipv6hdr *put_ipv6(
	struct frame *frame, const char *source, const char *destination, uint8_t next) {
	struct ipv6hdr *ip = put(frame, NULL, sizeof(*ip));

	ip->version = 6;
	ip->hop_limit = 64;
	ip->nexthdr = next;
	inet_pton(AF_INET6, source, &ip->saddr);
	inet_pton(AF_INET6, destination, &ip->daddr);
	return ip;
}

// Set the length (up to the end of the frame) and the IPv4 checksum. Call for the innermost header
// first.
static inline void finish_ipv4(struct frame *frame, struct iphdr *ip) {
	ip->tot_len = htons((uint16_t)(frame->byte + frame->length - (uint8_t *)ip));
	ip->check = 0;
	ip->check = ipv4_checksum(ip, ip->ihl * 4u);
}

static inline void finish_ipv6(struct frame *frame, struct ipv6hdr *ip) {
	ip->payload_len = htons((uint16_t)(frame->byte + frame->length - (uint8_t *)(ip + 1)));
}

// Append the ports of a TCP or UDP header, and pad the header to 20 bytes.
static inline void put_ports(struct frame *frame, uint16_t source, uint16_t destination) {
	put_u16(frame, source);
	put_u16(frame, destination);
	put(frame, NULL, 16);
}
