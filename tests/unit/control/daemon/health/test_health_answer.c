// SPDX-License-Identifier: BSD-3-Clause
//
// Tests how HTTP probes evaluate answers that arrive in parts of any size.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health_answer.h"
#include "health_state.h"
#include "test.h"

static struct weir_config_health_check check_of(const char *body) {
	struct weir_config_health_check check = {
		.type = WEIR_CHECK_HTTP, .url.status_first = 200, .url.status_last = 399};

	strcpy(check.url.body, body);
	return check;
}

static bool has(
	const struct weir_config_health_check *check, const char *text, size_t bytes, size_t part) {
	struct weir_health_answer answer;
	char detail[96];

	weir_health_answer_init(&answer, check);
	for (size_t at = 0; at < bytes; at += part) {
		size_t n = bytes - at < part ? bytes - at : part;

		// Read from separate memory, so that a sanitizer detects a read beyond the end.
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

TEST(body_is_found_in_parts_of_any_size) {
	static const char letters[] = "ab";
	char body[12], text[24];

	// Search for random words in random texts that have only two different letters. The result
	// must be the same as the result of strstr.
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

TEST(body_may_contain_zeroes) {
	static const char text[] = "a\0b\0ready\0";
	struct weir_config_health_check check = check_of("ready");

	assert_true(has(&check, text, sizeof(text), 3));
}

TEST(body_beyond_64_kib_is_ignored) {
	struct weir_config_health_check check = check_of("ready");
	char *text = malloc(WEIR_HEALTH_BODY_BYTES + 16);

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

TEST(longest_text_is_found) {
	struct weir_config_health_check check = check_of("");
	char text[600];

	memset(check.url.body, 'a', 254);
	check.url.body[254] = 'b';
	check.url.body[255] = '\0';
	memset(text, 'a', sizeof(text));
	assert_false(has(&check, text, sizeof(text), 7));
	text[599] = 'b';
	assert_true(has(&check, text, sizeof(text), 7));
}

// --- announced states ----------------------------------------------------------------------

static struct weir_report report_by(struct weir_config_health_check check,
	const char *const *headers, long status, const char *expected) {
	struct weir_health_answer answer;
	enum weir_probe_outcome outcome;
	char detail[96], text[128];

	weir_health_answer_init(&answer, &check);
	for (int i = 0; headers[i] != NULL; i++) {
		size_t n = strlen(headers[i]);
		char *copy = malloc(n);

		memcpy(copy, headers[i], n);
		weir_health_answer_header(&answer, copy, n);
		free(copy);
	}
	weir_health_answer_body(&answer, "ok", 2);
	outcome = weir_health_answer_judge(&answer, status, detail, sizeof(detail));
	snprintf(text, sizeof(text), "%s: %s", outcome == WEIR_PROBE_PASSED ? "passed" : "failed",
		detail);
	assert_string_equal(text, expected);
	return answer.report;
}

#define REPORT(status, expected, ...) \
	report_by(check_of("ok"), (const char *const[]){__VA_ARGS__, NULL}, status, expected)

TEST(header_gives_the_state) {
	assert_int_equal(REPORT(200, "passed: HTTP 200", "X-Weir-Stat: down\r\n").word,
		WEIR_HEALTH_WORD_NONE);
	assert_int_equal(REPORT(503, "passed: HTTP 503, lame-duck", "HTTP/1.1 503 Gone\r\n",
				 "X-Weir-State: lame-duck\r\n")
				 .word,
		WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(
		REPORT(200, "passed: HTTP 200, lame-duck", "x-weir-state:LAME-Duck \t\r\n").word,
		WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(REPORT(503, "passed: HTTP 503, starting", "X-WEIR-STATE: starting\n").word,
		WEIR_HEALTH_WORD_STARTING);
	assert_int_equal(REPORT(200, "failed: HTTP 200, down", "X-Weir-State: down\r\n").word,
		WEIR_HEALTH_WORD_DOWN);
	// With a failing status the check does not pass, even if the state is ready.
	assert_int_equal(REPORT(503, "failed: HTTP 503", "X-Weir-State: ready\r\n").word,
		WEIR_HEALTH_WORD_READY);
	assert_int_equal(REPORT(200, "passed: HTTP 200", "X-Weir-State: ready\r\n").word,
		WEIR_HEALTH_WORD_READY);
	assert_string_equal(
		REPORT(503, "passed: HTTP 503, lame-duck", "X-Weir-State: lame-duck\r\n").why,
		"HTTP 503, lame-duck");
}

TEST(line_that_is_not_the_header_is_ignored) {
	static const char *const headers[] = {"X-Weir-State\r\n", ": down\r\n",
		"X-Weir-State : down\r\n", "\r\n", "", "HTTP/", "HTT"};

	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		assert_int_equal(
			REPORT(200, "passed: HTTP 200", headers[i]).word, WEIR_HEALTH_WORD_NONE);
	}
}

// An unknown state is ignored, and shown. For a word of an HAProxy agent or of weirctl, the detail
// has the word to use.
TEST(unknown_state_is_ignored_and_shown) {
#define UNKNOWN(state) "passed: HTTP 200; X-Weir-State: unknown state \"" state "\""
	static const struct {
		const char *header, *expected;
	} rows[] = {
		{"X-Weir-State: bogus\r\n", UNKNOWN("bogus")},
		{"X-Weir-State: drain\r\n", UNKNOWN("drain") ", use \"lame-duck\""},
		{"X-Weir-State: Draining\r\n", UNKNOWN("Draining") ", use \"lame-duck\""},
		{"X-Weir-State: maint\r\n", UNKNOWN("maint") ", use \"down\""},
		{"X-Weir-State: up\r\n", UNKNOWN("up") ", use \"ready\""},
		{"X-Weir-State:\r\n", UNKNOWN("")},
		{"X-Weir-State: none\r\n", UNKNOWN("none")},
		{"X-Weir-State: lame\r\n", UNKNOWN("lame")},
		{"X-Weir-State: lame-duckling\r\n", UNKNOWN("lame-duckling")},
		{"X-Weir-State: down down\r\n", UNKNOWN("down down")},
		{"X-Weir-State: \x1b[2J\xc3\x9b\x7f\r\n", UNKNOWN("?[2J???")},
		{"X-Weir-State: 123456789 123456789 123456789\r\n",
			UNKNOWN("123456789 123456789 1234")},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_report report = REPORT(200, rows[i].expected, rows[i].header);

		assert_int_equal(report.word, WEIR_HEALTH_WORD_NONE);
		assert_memory_equal(report.why, "X-Weir-State: unknown state \"", 29);
	}
	// the first unknown state is shown
	REPORT(200, UNKNOWN("one"), "X-Weir-State: one\r\n", "X-Weir-State: two\r\n");
	REPORT(503, "failed: HTTP 503; X-Weir-State: unknown state \"drain\", use \"lame-duck\"",
		"X-Weir-State: drain\r\n");
	assert_string_equal(
		REPORT(503, "passed: HTTP 503, lame-duck; X-Weir-State: unknown state \"off\"",
			"X-Weir-State: lame-duck\r\n", "X-Weir-State: off\r\n")
			.why,
		"HTTP 503, lame-duck");
}

// The detail has room for 95 characters, and the reason of a report for 63.
TEST(detail_with_an_unknown_state_fits) {
	struct weir_config_health_check check = check_of("0123456789 0123456789 0123456789");
	struct weir_report report = report_by(check,
		(const char *const[]){"X-Weir-State: 123456789 123456789 123456789\r\n", NULL}, 200,
		"failed: HTTP 200, body without \"0123456789 0123456789 0123456789\"; "
		"X-Weir-State: unknown state \"1234567");

	assert_string_equal(report.why, "X-Weir-State: unknown state \"123456789 123456789 1234\"");
	check.type = WEIR_CHECK_GRPC;
	report_by(check, (const char *const[]){"X-Weir-State: drain\r\n", NULL}, 503,
		"failed: HTTP 503, not gRPC; X-Weir-State: unknown state \"drain\", use "
		"\"lame-duck\"");
	report_by(check, (const char *const[]){"X-Weir-State: drain\r\n", NULL}, 200,
		"failed: response has no grpc-status; X-Weir-State: unknown state \"drain\", use "
		"\"lame-duck\"");
}

TEST(header_of_an_interim_answer_is_ignored) {
	assert_int_equal(REPORT(200, "passed: HTTP 200", "HTTP/1.1 103 Early Hints\r\n",
				 "X-Weir-State: down\r\n", "\r\n", "HTTP/1.1 200 OK\r\n")
				 .word,
		WEIR_HEALTH_WORD_NONE);
	REPORT(200, "passed: HTTP 200", "HTTP/1.1 103 Early Hints\r\n", "X-Weir-State: bogus\r\n",
		"\r\n", "HTTP/1.1 200 OK\r\n");
}

#define LOAD(orca_, expected, ...) \
	report_by((struct weir_config_health_check){.type = WEIR_CHECK_HTTP, \
			  .url.status_first = 200, \
			  .url.status_last = 399, \
			  .orca = orca_}, \
		(const char *const[]){__VA_ARGS__, NULL}, 200, expected)

TEST(header_gives_the_load) {
	struct weir_report report = LOAD(true, "passed: HTTP 200", "Server: x\r\n",
		"endpoint-load-metrics: TEXT cpu_utilization=0.3,rps_fractional:10,eps=1\r\n",
		"X-Load-Balancing-Endpoint-Weight: 250\r\n", "X-Weir-State: ready\r\n");

	assert_int_equal(report.given, WEIR_REPORT(UTILIZATION) | WEIR_REPORT(REQUESTS) |
					       WEIR_REPORT(ERRORS) | WEIR_REPORT(WEIGHT));
	assert_true(report.utilization == 0.3);
	assert_true(report.requests_per_second == 10);
	assert_true(report.weight == 250);
	assert_int_equal(report.word, WEIR_HEALTH_WORD_READY);
	// The load in an answer is used only if this is configured, so that no weight changes
	// unexpectedly.
	report = LOAD(false, "passed: HTTP 200", "X-Load-Balancing-Endpoint-Weight: 250\r\n");
	assert_int_equal(report.given, 0);
	report = LOAD(true, "passed: HTTP 200", "HTTP/1.1 100 Continue\r\n",
		"X-Load-Balancing-Endpoint-Weight: 250\r\n", "HTTP/1.1 200 OK\r\n");
	assert_int_equal(report.given, 0);
}

TEST(invalid_load_is_refused_and_shown) {
	struct weir_config_health_check check = {.type = WEIR_CHECK_HTTP,
		.url.status_first = 200,
		.url.status_last = 399,
		.orca = true};
	struct weir_health_answer answer;
	static const char line[] = "endpoint-load-metrics: TEXT cpu_utilization=nan\r\n";
	char detail[96];

	weir_health_answer_init(&answer, &check);
	weir_health_answer_header(&answer, line, sizeof(line) - 1);
	assert_int_equal(
		weir_health_answer_judge(&answer, 200, detail, sizeof(detail)), WEIR_PROBE_PASSED);
	assert_int_equal(answer.report.given, 0);
	assert_non_null(strstr(detail, "HTTP 200; invalid load report: "));
}

// vLLM and other servers may report only values that Weir does not use. The detail of the check
// shows this to the operator.
TEST(load_without_a_value_in_use_is_shown) {
	struct weir_report report = LOAD(true,
		"passed: HTTP 200; load report without a value that Weir uses",
		"endpoint-load-metrics: TEXT mem_utilization=0.3,named_metrics.kv_cache=0.5\r\n");

	assert_int_equal(report.given, 0);
	report = LOAD(true, "passed: HTTP 200",
		"endpoint-load-metrics: TEXT mem_utilization=0.3,cpu_utilization=0.5\r\n");
	assert_int_equal(report.given, WEIR_REPORT(UTILIZATION));
	report = LOAD(true, "passed: HTTP 200",
		"endpoint-load-metrics: TEXT mem_utilization=0.3\r\n",
		"X-Load-Balancing-Endpoint-Weight: 250\r\n");
	assert_int_equal(report.given, WEIR_REPORT(WEIGHT));
	report = LOAD(
		false, "passed: HTTP 200", "endpoint-load-metrics: TEXT mem_utilization=0.3\r\n");
	assert_int_equal(report.given, 0);
}

// Mutated header lines of every kind cause no crash and no invalid report.
TEST(mutated_headers_do_no_harm) {
	static const char *const lines[] = {"X-Weir-State: lame-duck\r\n",
		"endpoint-load-metrics: TEXT cpu_utilization=0.3, named_metrics.a=4\r\n",
		"endpoint-load-metrics: JSON {\"cpu_utilization\": 0.3}\r\n",
		"endpoint-load-metrics: BIN CQAAAAAAAOA/\r\n",
		"endpoint-load-metrics-bin: CQAAAAAAAOA/\r\n",
		"X-Load-Balancing-Endpoint-Weight: 250\r\n", "HTTP/1.1 200 OK\r\n"};
	struct weir_config_health_check check = {.type = WEIR_CHECK_HTTP,
		.url.status_first = 200,
		.url.status_last = 399,
		.orca = true};
	int taken = 0;

	strcpy(check.url.body, "aab");
	srandom(11);
	for (int round = 0; round < 100000; round++) {
		const char *line = lines[random() % 7];
		size_t n = strlen(line), keep = random() % 3 ? n : (size_t)random() % n;
		struct weir_health_answer answer;
		char *copy = malloc(keep + 1), detail[96];

		memcpy(copy, line, keep);
		for (long changes = random() % 4; changes > 0 && keep > 0; changes--) {
			copy[(size_t)random() % keep] = (char)random();
		}
		copy = realloc(copy, keep > 0 ? keep : 1);
		weir_health_answer_init(&answer, &check);
		weir_health_answer_header(&answer, copy, keep);
		weir_health_answer_body(&answer, copy, keep);
		weir_health_answer_judge(&answer, random() % 1000, detail, sizeof(detail));
		taken += answer.report.given != 0;
		assert_int_equal(weir_report_check(&answer.report), 0);
		assert_true(strlen(detail) < sizeof(detail));
		free(copy);
	}
	assert_in_range(taken, 10000, 90000);
}

TEST(answer_ends_once_it_is_decided) {
	struct weir_config_health_check check = check_of("ok");
	struct weir_health_answer answer;

	weir_health_answer_init(&answer, &check);
	assert_true(weir_health_answer_body(&answer, "o", 1));
	assert_false(weir_health_answer_body(&answer, "k", 1));
	assert_true(answer.enough);
	check = check_of("");
	weir_health_answer_init(&answer, &check);
	assert_true(weir_health_answer_body(&answer, "anything", 8));
	assert_false(answer.enough);
}
