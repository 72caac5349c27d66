// SPDX-License-Identifier: BSD-3-Clause
#include "traffic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>

#define ETHER_BYTES 14u
#define IP_BYTES 20u
#define L4_AT (ETHER_BYTES + IP_BYTES)
#define STAMP_BYTES 6u // 48 bits of the TSC, enough for a day
#define STAMP_MASK ((1ull << (8 * STAMP_BYTES)) - 1)
#define NETWORK 0xc6120000u // 198.18.0.0/15
#define NETWORK_BITS 17
#define PORT_FIRST 1024u
#define TTL 64
#define FLAGS_SYN 0x5002u // TCP header length and flags, as a 16-bit word
#define FLAGS_DATA 0x5018u
#define FLAGS_AT 12u

// --- checksums ----------------------------------------------------------------------------

static void put16(uint8_t *at, uint32_t value) {
	uint16_t word = htons((uint16_t)value);

	memcpy(at, &word, sizeof(word));
}

static uint32_t get16(const uint8_t *at) {
	uint16_t word;

	memcpy(&word, at, sizeof(word));
	return ntohs(word);
}

static void put32(uint8_t *at, uint32_t value) {
	value = htonl(value);
	memcpy(at, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *at) {
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return ntohl(value);
}

static uint32_t sum_of(const uint8_t *bytes, uint32_t n) {
	uint32_t sum = 0;

	for (; n > 1; n -= 2, bytes += 2) {
		sum += get16(bytes);
	}
	return n > 0 ? sum + ((uint32_t)*bytes << 8) : sum;
}

static uint32_t words_of(uint32_t value) {
	return (value >> 16) + (value & 0xffff);
}

static uint32_t fold(uint32_t sum) {
	sum = (sum >> 16) + (sum & 0xffff);
	return ((sum >> 16) + sum) & 0xffff;
}

// Returns the checksum for a sum; 0 is replaced by 0xffff. In UDP a checksum of 0 means no
// checksum; in TCP and IPv4, 0 and 0xffff are equivalent.
static uint32_t checksum(uint32_t sum) {
	uint32_t result = ~fold(sum) & 0xffff;

	return result != 0 ? result : 0xffff;
}

// --- flows --------------------------------------------------------------------------------

// Computes a bijection on 32-bit numbers, so that no two flows get the same source.
static uint32_t scatter(uint32_t x) {
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ (x >> 16);
}

void rig_traffic_source(uint32_t flow, uint32_t *ret_address, uint16_t *ret_port) {
	uint32_t x = scatter(flow);

	*ret_address = NETWORK | (x & ((1u << NETWORK_BITS) - 1));
	*ret_port = (uint16_t)(PORT_FIRST + (x >> NETWORK_BITS));
}

// --- writing ------------------------------------------------------------------------------

static void write_ip(const struct rig_traffic_params *params, uint8_t *ip) {
	ip[0] = 0x45;
	put16(ip + 2, params->frame_bytes - ETHER_BYTES);
	ip[6] = 0x40; // don't fragment (DF)
	ip[8] = TTL;
	ip[9] = params->protocol;
	put32(ip + 16, params->vip);
}

// Set the offsets of the fields, and write the constant part of the header.
static uint32_t write_l4(struct rig_traffic *traffic) {
	const struct rig_traffic_params *params = &traffic->params;
	uint8_t *l4 = traffic->frame + L4_AT;
	uint32_t l4_bytes = params->frame_bytes - L4_AT;

	put16(l4 + 2, params->port);
	if (params->protocol == IPPROTO_TCP) {
		traffic->checksum_at = L4_AT + 16;
		traffic->flow_at = L4_AT + 4;
		traffic->trial_at = L4_AT + 8;
		traffic->stamp_at = L4_AT + sizeof(struct tcphdr);
		put16(l4 + 14, 0xffff);
		return l4_bytes;
	}
	traffic->checksum_at = L4_AT + 6;
	traffic->stamp_at = L4_AT + sizeof(struct udphdr);
	traffic->flow_at = (uint16_t)(traffic->stamp_at + STAMP_BYTES);
	traffic->trial_at = (uint16_t)(traffic->flow_at + 4);
	put16(l4 + 4, l4_bytes);
	return l4_bytes;
}

int rig_traffic_init(const struct rig_traffic_params *params, struct rig_traffic *ret) {
	uint32_t l4_bytes;

	if ((params->protocol != IPPROTO_TCP && params->protocol != IPPROTO_UDP) ||
		params->frame_bytes < RIG_FRAME_MIN || params->frame_bytes > RIG_FRAME_MAX ||
		params->flows == 0) {
		return -EINVAL;
	}
	memset(ret, 0, sizeof(*ret));
	ret->params = *params;
	memcpy(ret->frame, params->destination_mac, 6);
	memcpy(ret->frame + 6, params->source_mac, 6);
	put16(ret->frame + 12, 0x0800);
	write_ip(params, ret->frame + ETHER_BYTES);
	l4_bytes = write_l4(ret);
	ret->ip_sum = sum_of(ret->frame + ETHER_BYTES, IP_BYTES);
	rig_traffic_set_trial(ret, 0);
	ret->l4_sum = words_of(params->vip) + params->protocol + l4_bytes +
		      sum_of(ret->frame + L4_AT, l4_bytes);
	return 0;
}

void rig_traffic_set_trial(struct rig_traffic *traffic, uint32_t trial) {
	traffic->l4_sum -= words_of(traffic->trial);
	traffic->l4_sum += words_of(trial);
	traffic->trial = trial;
	put32(traffic->frame + traffic->trial_at, trial);
}

void rig_traffic_fill(const struct rig_traffic *traffic, uint8_t *frame) {
	memcpy(frame, traffic->frame, traffic->params.frame_bytes);
}

void rig_traffic_write(const struct rig_traffic *traffic, uint32_t flow, enum rig_kind kind,
	uint64_t stamp, uint8_t *frame) {
	uint32_t address, sum, stamp_high, stamp_low;
	uint16_t port;

	rig_traffic_source(flow, &address, &port);
	stamp &= STAMP_MASK;
	stamp_high = (uint32_t)(stamp >> 32);
	stamp_low = (uint32_t)stamp;
	put32(frame + ETHER_BYTES + 12, address);
	put16(frame + ETHER_BYTES + 10, checksum(traffic->ip_sum + words_of(address)));
	put16(frame + L4_AT, port);
	put32(frame + traffic->flow_at, flow);
	put16(frame + traffic->stamp_at, stamp_high);
	put32(frame + traffic->stamp_at + 2, stamp_low);
	sum = traffic->l4_sum + words_of(address) + port + words_of(flow) + stamp_high +
	      words_of(stamp_low);
	if (traffic->params.protocol == IPPROTO_TCP) {
		uint32_t flags = kind == RIG_SYN ? FLAGS_SYN : FLAGS_DATA;

		put16(frame + L4_AT + FLAGS_AT, flags);
		sum += flags;
	}
	put16(frame + traffic->checksum_at, checksum(sum));
}

// --- reading ------------------------------------------------------------------------------

enum rig_verdict rig_traffic_read(const struct rig_traffic *traffic, bool encapsulated,
	const uint8_t *frame, uint32_t bytes, struct rig_seen *ret) {
	const struct rig_traffic_params *params = &traffic->params;
	uint32_t outer = encapsulated ? IP_BYTES : 0;
	const uint8_t *inner = frame + outer;

	if (bytes != params->frame_bytes + outer || get16(frame + 12) != 0x0800 ||
		frame[ETHER_BYTES] != 0x45) {
		return RIG_UNEXPECTED;
	}
	if (encapsulated &&
		(frame[ETHER_BYTES + 9] != IPPROTO_IPIP || inner[ETHER_BYTES] != 0x45)) {
		return RIG_UNEXPECTED;
	}
	if (inner[ETHER_BYTES + 9] != params->protocol ||
		get32(inner + ETHER_BYTES + 16) != params->vip) {
		return RIG_UNEXPECTED;
	}
	if (get32(inner + traffic->trial_at) != traffic->trial) {
		return RIG_STRAGGLER;
	}
	ret->flow = get32(inner + traffic->flow_at);
	if (ret->flow >= params->flows) {
		return RIG_UNEXPECTED;
	}
	ret->stamp = (uint64_t)get16(inner + traffic->stamp_at) << 32 |
		     get32(inner + traffic->stamp_at + 2);
	ret->backend = encapsulated ? get32(frame + ETHER_BYTES + 16) : 0;
	return RIG_OURS;
}

static bool ip_is_intact(const uint8_t *ip, uint32_t bytes) {
	return fold(sum_of(ip, IP_BYTES)) == 0xffff && get16(ip + 2) == bytes;
}

bool rig_traffic_intact(const struct rig_traffic *traffic, bool encapsulated, const uint8_t *frame,
	const struct rig_seen *seen) {
	const uint8_t *ip = frame + ETHER_BYTES;
	uint32_t bytes = traffic->params.frame_bytes - ETHER_BYTES;
	uint32_t l4_bytes = bytes - IP_BYTES;
	uint32_t address;
	uint16_t port;

	if (encapsulated) {
		if (!ip_is_intact(ip, bytes + IP_BYTES)) {
			return false;
		}
		ip += IP_BYTES;
	}
	rig_traffic_source(seen->flow, &address, &port);
	return ip_is_intact(ip, bytes) && get32(ip + 12) == address &&
	       get16(ip + IP_BYTES) == port &&
	       fold(sum_of(ip + 12, 8) + traffic->params.protocol + l4_bytes +
		       sum_of(ip + IP_BYTES, l4_bytes)) == 0xffff;
}
