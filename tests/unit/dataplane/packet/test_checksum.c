// SPDX-License-Identifier: BSD-3-Clause
//
// Checksums: the optimized functions compared with the definition (RFC 1071), word by word.
#include "checksum.h"
#include "test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// One's complement addition.
static uint16_t add(uint16_t a, uint16_t b) {
	uint32_t sum = (uint32_t)a + b;

	return (uint16_t)(sum > 0xffff ? sum - 0xffff : sum);
}

static uint16_t sum_of(const uint8_t *header, unsigned int bytes) {
	uint16_t sum = 0;

	for (unsigned int i = 0; i < bytes; i += 2) {
		sum = add(sum, weir_load16(header + i));
	}
	return sum;
}

TEST(checksum_fold20_is_exact_for_every_sum) {
	for (uint32_t sum = 0; sum < 1u << 20; sum++) {
		uint16_t folded = (uint16_t)(sum & 0xffff);

		for (uint32_t carry = 0; carry < sum >> 16; carry++) {
			folded = add(folded, 1);
		}
		assert_int_equal(weir_checksum_fold20(sum), folded);
	}
}

static void check_header(uint8_t header[20]) {
	bool right = sum_of(header, 20) == 0xffff;

	assert_int_equal(weir_checksum_ipv4(header), sum_of(header, 20));
	assert_int_equal(weir_checksum_ipv4_right(weir_load64(header), weir_load64(header + 8),
				 weir_load32(header + 16)),
		right);
}

// Headers with a correct checksum, and headers with any single bit inverted. In some headers all
// bits except the checksum are set, so that every addition carries.
TEST(checksum_of_a_header_is_correct_or_not) {
	uint64_t random = 1;

	for (unsigned int n = 0; n < 20000; n++) {
		uint8_t header[20];
		uint16_t sum;

		for (unsigned int i = 0; i < 20; i++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			header[i] = n % 4 == 0 ? 0xff : (uint8_t)(random >> 40);
		}
		header[n % 20] = (uint8_t)n;
		header[0] = 0x45;
		weir_store16(header + 10, 0);
		sum = sum_of(header, 20);
		weir_store16(header + 10, (uint16_t)~sum);
		assert_int_equal(sum_of(header, 20), 0xffff);
		check_header(header);
		for (unsigned int bit = 0; bit < 160; bit++) {
			header[bit / 8] ^= (uint8_t)(1 << bit % 8);
			check_header(header);
			header[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
}
