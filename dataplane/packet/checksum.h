// SPDX-License-Identifier: BSD-3-Clause
//
// Internet checksums (RFC 1071, RFC 1624).
//
// A sum is the sum of 16-bit words as stored in memory. Ones' complement addition does not depend
// on the byte order, so a folded and complemented sum can be stored unchanged.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
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

// Store `value` in the first 4 of 16 bytes, and 0 in the remaining bytes.
static inline void weir_store_padded32(void *p, uint32_t value) {
	typedef uint32_t words __attribute__((vector_size(16)));
	words padded = {value, 0, 0, 0};

	memcpy(p, &padded, sizeof(padded));
}

static inline uint16_t weir_checksum_fold(uint64_t sum) {
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

// Folds a sum below 2^20. The highest 16 bits of the product are the sum of the low half, the
// high half and the carry.
static inline uint16_t weir_checksum_fold20(uint32_t sum) {
	return (uint16_t)(sum * 0x0001000100010000ull >> 48);
}

// Constants for a division by 0xffff. They are in memory, because an instruction can read an
// operand from memory, which saves a register.
struct weir_checksum_division {
	uint64_t inverse; // inverse of 0xffff modulo 2^64
	uint64_t quotient_max; // largest quotient of a number of 64 bits
};
extern const struct weir_checksum_division weir_checksum_division;

// Returns whether the checksum of an IPv4 header without options is right. The header is passed
// as words of 8, 8 and 4 bytes, which must not all be 0.
//
// The checksum is right if the sum of the 16-bit words is a multiple of 0xffff. Longer words and
// carries may be added instead, because 2^16 and its powers are 1 modulo 0xffff. A sum is a
// multiple of 0xffff if the product of sum and inverse is at most quotient_max (Granlund and
// Montgomery, 1994, section 9).
static inline bool weir_checksum_ipv4_right(uint64_t first, uint64_t second, uint32_t third) {
	uint64_t sum;

	sum = first + second;
	sum += sum < second;
	sum += third;
	sum += sum < third;
	return sum * weir_checksum_division.inverse <= weir_checksum_division.quotient_max;
}

// Returns the sum of an IPv4 header without options; 0xffff if its checksum is right.
static inline uint16_t weir_checksum_ipv4(const void *header) {
	const uint8_t *p = header;

	return weir_checksum_fold((uint64_t)weir_load32(p) + weir_load32(p + 4) +
				  weir_load32(p + 8) + weir_load32(p + 12) + weir_load32(p + 16));
}

// Returns the checksum field of a header in which one 16-bit word changed from `from` to `to` (RFC
// 1624, equation 3).
static inline uint16_t weir_checksum_update(uint16_t checksum, uint16_t from, uint16_t to) {
	return (uint16_t)~weir_checksum_fold((uint64_t)(uint16_t)~checksum + (uint16_t)~from + to);
}
