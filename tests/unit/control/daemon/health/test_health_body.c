// SPDX-License-Identifier: BSD-3-Clause
//
// Tests regular expressions and digests of bodies that arrive in parts of any size.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "health_body.h"
#include "test.h"

struct verdict {
	enum weir_probe_outcome outcome;
	char detail[96];
};

static struct verdict judge(
	const struct weir_config_url *url, const char *text, size_t bytes, size_t part) {
	struct verdict verdict = {.detail = "HTTP 200"};
	struct weir_health_body body;

	weir_health_body_init(&body, url);
	for (size_t at = 0; at < bytes; at += part) {
		size_t n = bytes - at < part ? bytes - at : part;

		// Read from separate memory, so that a sanitizer detects a read beyond the end.
		char *copy = malloc(n);
		memcpy(copy, text + at, n);
		bool more = weir_health_body_take(&body, copy, n);
		free(copy);
		if (!more) {
			break;
		}
	}
	verdict.outcome = weir_health_body_judge(&body, verdict.detail, sizeof(verdict.detail));
	weir_health_body_fini(&body);
	return verdict;
}

static struct weir_config_url regex_of(const char *pattern) {
	struct weir_config_url url = {.path = "/"};

	strcpy(url.body_regex, pattern);
	return url;
}

TEST(regular_expression_is_found_in_parts_of_any_size) {
	static const char text[] = "{\"status\":\0 \"UP\",\n\"db\": 3}";
	static const struct {
		const char *pattern;
		bool found;
	} cases[] = {
		{"\"status\":.*\"(UP|OK)\"", true},
		{"\"status\":.*\"up\"", false},
		{"(?i)\"status\":.*\"up\"", true},
		{"^\\{", true},
		{"\\}$", true},
		{"db\": [0-9]+\\}$", true},
		{"^\"db", false},
		{"(?m)^\"db", true},
		{"a*", true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config_url url = regex_of(cases[i].pattern);

		for (size_t part = 1; part <= sizeof(text); part++) {
			struct verdict verdict = judge(&url, text, sizeof(text) - 1, part);

			assert_int_equal(verdict.outcome,
				cases[i].found ? WEIR_PROBE_PASSED : WEIR_PROBE_FAILED);
		}
	}
	assert_string_equal(judge(&(struct weir_config_url){.body_regex = "x+"}, "", 0, 1).detail,
		"HTTP 200, body does not match \"x+\"");
}

TEST(regular_expression_searches_64_kib) {
	struct weir_config_url url = regex_of("ready");
	char *text = malloc(WEIR_HEALTH_BODY_BYTES + 16);

	memset(text, ' ', WEIR_HEALTH_BODY_BYTES + 16);
	memcpy(text + WEIR_HEALTH_BODY_BYTES - 5, "ready", 5);
	for (size_t part = 1; part < 3 * WEIR_HEALTH_BODY_BYTES; part = part * 3 + 1) {
		assert_int_equal(judge(&url, text, WEIR_HEALTH_BODY_BYTES + 16, part).outcome,
			WEIR_PROBE_PASSED);
	}
	memmove(text + WEIR_HEALTH_BODY_BYTES - 4, "ready", 5);
	text[WEIR_HEALTH_BODY_BYTES - 5] = ' ';
	assert_int_equal(
		judge(&url, text, WEIR_HEALTH_BODY_BYTES + 16, 4096).outcome, WEIR_PROBE_FAILED);
	free(text);
}

// A server could otherwise hold the loop for a second with each answer: with 64 KiB of letters,
// PCRE2 reads each of these bytes once for each of them.
TEST(searches_are_short_for_any_body) {
	static const char *const patterns[] = {
		"\\w+\\s\\d", "(a+)+$", "(a|aa)+$", "(?=(a+))a*c\\1", "a*a*a*a*a*b"};
	char *text = malloc(WEIR_HEALTH_BODY_BYTES);
	uint32_t stopped = 0;

	memset(text, 'a', WEIR_HEALTH_BODY_BYTES);
	text[WEIR_HEALTH_BODY_BYTES - 2] = 'c';
	text[WEIR_HEALTH_BODY_BYTES - 1] = '-';
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		struct weir_config_url url = regex_of(patterns[i]);
		clock_t before = clock();
		struct verdict verdict =
			judge(&url, text, WEIR_HEALTH_BODY_BYTES, WEIR_HEALTH_BODY_BYTES);

		assert_int_equal(verdict.outcome, WEIR_PROBE_FAILED);
		assert_true(clock() - before < CLOCKS_PER_SEC / 4); // usually 5 ms
		stopped += strcmp(verdict.detail, "HTTP 200, body_regex takes too long to search "
						  "this body") == 0;
	}
	assert_true(stopped >= 3);
	free(text);
}

// A class with many properties takes more than 2 ms for 64 KiB of letters, which is one item of the
// pattern. The server decides when the slow items begin.
TEST(searches_are_short_even_if_each_item_is_slow) {
	struct weir_config_url url = {.path = "/"};
	char *text = malloc(WEIR_HEALTH_BODY_BYTES);
	char *end = url.body_regex;

	end += sprintf(end, "[^");
	for (int i = 0; i < 70; i++) {
		end += sprintf(end, "\\p%c", "NMPSZ"[i % 5]);
	}
	sprintf(end, "]*+(?:\x01|\x02)");
	memset(text, 'a', WEIR_HEALTH_BODY_BYTES);
	for (size_t before = 0; before < 1000; before = before * 5 + 1) {
		clock_t begin = clock();
		struct verdict verdict;

		memset(text, '!', before);
		verdict = judge(&url, text, WEIR_HEALTH_BODY_BYTES, WEIR_HEALTH_BODY_BYTES);
		assert_true(clock() - begin < CLOCKS_PER_SEC / 1000 * 25); // usually 12 ms
		assert_string_equal(
			verdict.detail, "HTTP 200, body_regex takes too long to search this body");
	}
	free(text);
}

// FIPS 180-4 and RFC 1321 have these digests as examples.
TEST(digests_of_bodies_in_parts_of_any_size) {
	static const struct weir_config_bytes sha256_of_abc = {
		32, {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d,
			    0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4,
			    0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad}};
	static const struct weir_config_bytes md5_of_abc = {
		16, {0x90, 0x01, 0x50, 0x98, 0x3c, 0xd2, 0x4f, 0xb0, 0xd6, 0x96, 0x3f, 0x7d, 0x28,
			    0xe1, 0x7f, 0x72}};
	const struct weir_config_url urls[] = {
		{.body_sha256 = sha256_of_abc}, {.body_md5 = md5_of_abc}};
	static const char *const details[] = {
		"HTTP 200, body_sha256 is "
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"HTTP 200, body_md5 is d41d8cd98f00b204e9800998ecf8427e"};

	for (size_t i = 0; i < 2; i++) {
		struct verdict verdict = judge(&urls[i], "", 0, 1);

		assert_int_equal(verdict.outcome, WEIR_PROBE_FAILED);
		assert_string_equal(verdict.detail, details[i]);
		for (size_t part = 1; part <= 3; part++) {
			verdict = judge(&urls[i], "abc", 3, part);
			assert_int_equal(verdict.outcome, WEIR_PROBE_PASSED);
			assert_string_equal(verdict.detail, "HTTP 200");
			assert_int_equal(
				judge(&urls[i], "abcd", 4, part).outcome, WEIR_PROBE_FAILED);
		}
	}
}
