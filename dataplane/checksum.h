// SPDX-License-Identifier: BSD-3-Clause
//
// Internet checksums (RFC 1071, RFC 1624). Included by parse, encap and icmp.
//
// Sums are of 16-bit words as they lie in memory: ones' complement addition does not care about
// byte order, so what is folded and complemented can be stored as it is.
//
// Threads: pure functions.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t weir_load16(const void *p) {
	uint16_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint32_t weir_load32(const void *p) {
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint64_t weir_load64(const void *p) {
	uint64_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static inline void weir_store16(void *p, uint16_t value) {
	memcpy(p, &value, sizeof(value));
}

static inline void weir_store32(void *p, uint32_t value) {
	memcpy(p, &value, sizeof(value));
}

static inline void weir_store64(void *p, uint64_t value) {
	memcpy(p, &value, sizeof(value));
}

static inline void weir_store128(void *p, uint64_t low, uint64_t high) {
	typedef uint64_t words __attribute__((vector_size(16)));
	words value = {low, high};

	memcpy(p, &value, sizeof(value));
}

static inline uint16_t weir_checksum_fold(uint64_t sum) {
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

// The same for a sum below 2^18.
static inline uint16_t weir_checksum_fold18(uint32_t sum) {
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

// Is the checksum of an IPv4 header without options right? Given as words of 8, 8 and 4 bytes.
static inline bool weir_checksum_ipv4_right(uint64_t first, uint64_t second, uint32_t third) {
	uint64_t sum = first + second;
	uint32_t half;

	sum += sum < second; // the carry; the sum cannot be all ones then
	sum = (sum & 0xffffffff) + (sum >> 32) + third; // below 2^34
	half = (uint32_t)((sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32));
	return (half & 0xffff) + (half >> 16) == 0xffff;
}

// Sum of an IPv4 header without options; 0xffff when its checksum is right.
static inline uint16_t weir_checksum_ipv4(const void *header) {
	const uint8_t *p = header;

	return weir_checksum_fold((uint64_t)weir_load32(p) + weir_load32(p + 4) +
				  weir_load32(p + 8) + weir_load32(p + 12) + weir_load32(p + 16));
}

// Checksum field after one 16-bit word changed from `from` to `to` (RFC 1624, equation 3).
static inline uint16_t weir_checksum_update(uint16_t checksum, uint16_t from, uint16_t to) {
	return (uint16_t)~weir_checksum_fold((uint64_t)(uint16_t)~checksum + (uint16_t)~from + to);
}
