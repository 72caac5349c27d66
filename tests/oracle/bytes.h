// SPDX-License-Identifier: BSD-3-Clause
//
// Bytes: integers in network byte order, Internet checksums, and a random number generator. Used by
// the oracle and the generator of frames; contains no code of the packet path.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t get16(const uint8_t *at) {
	return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t get32(const uint8_t *at) {
	return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static inline void put16(uint8_t *at, uint32_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static inline void put32(uint8_t *at, uint32_t value) {
	put16(at, value >> 16);
	put16(at + 2, value & 0xffff);
}

// Ones' complement sum of 16-bit words (RFC 1071), folded; an odd last byte is padded with a zero
// byte.
static inline uint16_t sum16(const uint8_t *at, uint32_t bytes, uint32_t start) {
	uint64_t sum = start;

	for (uint32_t i = 0; i + 1 < bytes; i += 2) {
		sum += get16(at + i);
	}
	if (bytes % 2 != 0) {
		sum += (uint32_t)at[bytes - 1] << 8;
	}
	while (sum > 0xffff) {
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)sum;
}

// Ones' complement sum of the pseudo-header of an IP packet. ip: the IP header; bytes: length of
// the upper-layer packet.
static inline uint16_t pseudo_sum(const uint8_t *ip, uint32_t bytes, uint8_t protocol) {
	return ip[0] >> 4 == 4 ? sum16(ip + 12, 8, bytes + protocol)
			       : sum16(ip + 8, 32, bytes + protocol);
}

// Offset of the payload of a frame of n bytes. Skips at most `most` VLAN tags. The offset may be
// beyond the end of the frame.
static inline uint32_t after_tags(const uint8_t *frame, uint32_t n, uint32_t most) {
	uint32_t at = 12;

	for (uint32_t tags = 0; tags < most && at + 2 <= n; tags++) {
		uint16_t type = get16(frame + at);

		if (type != 0x8100 && type != 0x88a8 && type != 0x9100) {
			break;
		}
		at += 4;
	}
	return at + 2;
}

// --- random numbers (xorshift64*) -------------------------------------------------------------

struct random {
	uint64_t state;
};

static inline uint64_t random64(struct random *r) {
	r->state ^= r->state >> 12;
	r->state ^= r->state << 25;
	r->state ^= r->state >> 27;
	return r->state * 0x2545f4914f6cdd1dull;
}

static inline uint32_t random_below(struct random *r, uint32_t n) {
	return (uint32_t)((random64(r) >> 32) * n >> 32);
}

static inline bool chance(struct random *r, uint32_t percent) {
	return random_below(r, 100) < percent;
}
