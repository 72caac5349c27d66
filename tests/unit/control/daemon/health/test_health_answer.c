// SPDX-License-Identifier: BSD-3-Clause
//
// What HTTP probes make of answers, in parts of every size.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "health_answer.h"

static struct weir_config_health_check check_of(const char *body) {
	struct weir_config_health_check check = {
		.type = WEIR_CHECK_HTTP, .status_first = 200, .status_last = 399};

	strcpy(check.body, body);
	return check;
}

static bool has(
	const struct weir_config_health_check *check, const char *text, size_t bytes, size_t part) {
	struct weir_health_answer answer;
	char detail[96];

	weir_health_answer_init(&answer, check);
	for (size_t at = 0; at < bytes; at += part) {
		size_t n = bytes - at < part ? bytes - at : part;

		// In memory of its own, so that a sanitizer sees a read beyond it.
		char *copy = malloc(n);
		memcpy(copy, text + at, n);
		bool more = weir_health_answer_body(&answer, copy, n);
		free(copy);
		if (!more) {
			break;
		}
	}
	return weir_health_answer_judge(&answer, 200, detail, sizeof(detail)) == WEIR_PROBE_PASSED;
}

static void body_is_found_in_parts_of_any_size(void **state) {
	static const char letters[] = "ab";
	char body[12], text[24];

	(void)state;
	// Every word of up to 4 letters in texts of two letters, against strstr.
	srandom(7);
	for (int round = 0; round < 20000; round++) {
		size_t words = 1 + (size_t)random() % 6, bytes = (size_t)random() % 20;
		struct weir_config_health_check check;

		for (size_t i = 0; i < words; i++) {
			body[i] = letters[random() % 2];
		}
		body[words] = '\0';
		for (size_t i = 0; i < bytes; i++) {
			text[i] = letters[random() % 2];
		}
		text[bytes] = '\0';
		check = check_of(body);
		if (has(&check, text, bytes, 1 + (size_t)random() % 8) !=
			(strstr(text, body) != NULL)) {
			fail_msg("\"%s\" in \"%s\"", body, text);
		}
	}
}

static void body_may_contain_zeroes(void **state) {
	static const char text[] = "a\0b\0ready\0";
	struct weir_config_health_check check = check_of("ready");

	(void)state;
	assert_true(has(&check, text, sizeof(text), 3));
}

static void body_beyond_64_kib_is_not_looked_at(void **state) {
	struct weir_config_health_check check = check_of("ready");
	char *text = malloc(WEIR_HEALTH_BODY_BYTES + 16);

	(void)state;
	memset(text, ' ', WEIR_HEALTH_BODY_BYTES + 16);
	memcpy(text + WEIR_HEALTH_BODY_BYTES - 5, "ready", 5);
	assert_true(has(&check, text, WEIR_HEALTH_BODY_BYTES + 16, 4096));
	assert_true(has(&check, text, WEIR_HEALTH_BODY_BYTES, WEIR_HEALTH_BODY_BYTES));
	memset(text, ' ', WEIR_HEALTH_BODY_BYTES + 16);
	memcpy(text + WEIR_HEALTH_BODY_BYTES - 4, "ready", 5);
	assert_false(has(&check, text, WEIR_HEALTH_BODY_BYTES + 16, 4096));
	assert_false(has(&check, text, WEIR_HEALTH_BODY_BYTES + 16, WEIR_HEALTH_BODY_BYTES + 16));
	free(text);
}

static void longest_text_is_found(void **state) {
	struct weir_config_health_check check = check_of("");
	char text[600];

	(void)state;
	memset(check.body, 'a', 254);
	check.body[254] = 'b';
	check.body[255] = '\0';
	memset(text, 'a', sizeof(text));
	assert_false(has(&check, text, sizeof(text), 7));
	text[599] = 'b';
	assert_true(has(&check, text, sizeof(text), 7));
}

static void answer_ends_once_nothing_more_matters(void **state) {
	struct weir_config_health_check check = check_of("ok");
	struct weir_health_answer answer;

	(void)state;
	weir_health_answer_init(&answer, &check);
	assert_true(weir_health_answer_body(&answer, "o", 1));
	assert_false(weir_health_answer_body(&answer, "k", 1));
	assert_true(answer.enough);
	check = check_of("");
	weir_health_answer_init(&answer, &check);
	assert_true(weir_health_answer_body(&answer, "anything", 8));
	assert_false(answer.enough);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(body_is_found_in_parts_of_any_size),
		cmocka_unit_test(body_may_contain_zeroes),
		cmocka_unit_test(body_beyond_64_kib_is_not_looked_at),
		cmocka_unit_test(longest_text_is_found),
		cmocka_unit_test(answer_ends_once_nothing_more_matters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
