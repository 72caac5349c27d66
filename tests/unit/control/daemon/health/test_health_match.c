// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the comparison of answers: the result must not depend on the parts in which an answer
// arrives.
#include <stdlib.h>
#include <string.h>

#include "health_match.h"
#include "test.h"

#define ROUNDS 20000

// Passes an answer in parts of at most `part` bytes. Returns the first result other than MORE.
static enum weir_health_match_result take(
	struct weir_health_match *match, const char *answer, size_t bytes, size_t part) {
	for (size_t at = 0; at < bytes; at += part) {
		const size_t n = bytes - at < part ? bytes - at : part;
		const enum weir_health_match_result result =
			weir_health_match_take(match, answer + at, n);

		if (result != WEIR_HEALTH_MATCH_MORE) {
			return result;
		}
	}
	return WEIR_HEALTH_MATCH_MORE;
}

static enum weir_health_match_result expected(
	const char *answer, size_t bytes, const char *wanted, size_t wanted_bytes, bool anywhere) {
	const size_t n = bytes < wanted_bytes ? bytes : wanted_bytes;

	if (anywhere) {
		return memmem(answer, bytes, wanted, wanted_bytes) != NULL ? WEIR_HEALTH_MATCH_FOUND
									   : WEIR_HEALTH_MATCH_MORE;
	}
	return memcmp(answer, wanted, n) != 0 ? WEIR_HEALTH_MATCH_OTHER
	       : bytes < wanted_bytes         ? WEIR_HEALTH_MATCH_MORE
					      : WEIR_HEALTH_MATCH_FOUND;
}

// An alphabet of two letters makes repetitions and borders likely.
TEST(match_finds_what_memmem_finds) {
	srandom(1);
	for (int i = 0; i < ROUNDS; i++) {
		char answer[24], wanted[8];
		const size_t bytes = (size_t)random() % (sizeof(answer) + 1);
		const size_t wanted_bytes = (size_t)random() % sizeof(wanted) + 1;
		const size_t part = (size_t)random() % 5 + 1;
		const bool anywhere = random() % 2;
		struct weir_health_match match;

		for (size_t k = 0; k < sizeof(answer); k++) {
			answer[k] = (char)('a' + random() % 2);
		}
		for (size_t k = 0; k < wanted_bytes; k++) {
			wanted[k] = (char)('a' + random() % 2);
		}
		weir_health_match_init(&match, wanted, wanted_bytes, anywhere);
		assert_int_equal(take(&match, answer, bytes, part),
			expected(answer, bytes, wanted, wanted_bytes, anywhere));
	}
}

TEST(match_of_the_greatest_length) {
	char wanted[WEIR_HEALTH_MATCH_BYTES], answer[2 * WEIR_HEALTH_MATCH_BYTES];
	struct weir_health_match match;

	memset(wanted, 'x', sizeof(wanted));
	memset(answer, 'x', sizeof(answer));
	for (int anywhere = 0; anywhere < 2; anywhere++) {
		weir_health_match_init(&match, wanted, sizeof(wanted), anywhere);
		assert_int_equal(
			take(&match, answer, sizeof(wanted) - 1, 7), WEIR_HEALTH_MATCH_MORE);
		assert_int_equal(take(&match, answer, 1, 1), WEIR_HEALTH_MATCH_FOUND);
	}
	answer[100] = 'y';
	weir_health_match_init(&match, wanted, sizeof(wanted), true);
	assert_int_equal(take(&match, answer, sizeof(answer), 1), WEIR_HEALTH_MATCH_FOUND);
	assert_int_equal(match.bytes, 101 + sizeof(wanted));
}

TEST(match_describes_the_first_line) {
	static const char answer[] = "421 too\x01many connections, try later\r\nnext line";
	struct weir_health_match match;
	char text[96];

	weir_health_match_init(&match, "220", 3, false);
	assert_int_equal(take(&match, answer, sizeof(answer) - 1, 3), WEIR_HEALTH_MATCH_OTHER);
	weir_health_match_failed(&match, "", text, sizeof(text));
	assert_string_equal(text, "answer \"421\" instead of \"220\"");
	weir_health_match_init(&match, "220", 3, true);
	assert_int_equal(take(&match, answer, sizeof(answer) - 1, 5), WEIR_HEALTH_MATCH_MORE);
	weir_health_match_failed(&match, ", timeout", text, sizeof(text));
	assert_string_equal(
		text, "answer \"421 too?many connections, try la\" without \"220\", timeout");
	weir_health_match_passed(&match, text, sizeof(text));
	assert_string_equal(text, "answer \"421 too?many connections, try la\"");
	match.hex = true;
	weir_health_match_failed(&match, "", text, sizeof(text));
	assert_string_equal(text, "answer 34323120746f6f016d616e79 without 323230");
}
