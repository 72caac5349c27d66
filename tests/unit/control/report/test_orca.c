// SPDX-License-Identifier: BSD-3-Clause
//
// Tests cases of ORCA that tests/vectors/load_reports.json does not cover: the meaning of fields,
// and all kinds of invalid input. An invalid value changes nothing.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "document.h"
#include "orca.h"
#include "test.h"

static struct weir_report report;
static char why[WEIR_ORCA_WHY_BYTES];

static int take_bytes(const char *line, size_t bytes) {
	// memory of exactly this size, so that ASan detects a read beyond the end
	char *exact = malloc(bytes > 0 ? bytes : 1);
	int r;

	assert_non_null(exact);
	memcpy(exact, line, bytes);
	r = weir_orca_header(exact, bytes, &report, why);
	free(exact);
	return r;
}

static int take(const char *line) {
	memset(&report, 0, sizeof(report));
	return take_bytes(line, strlen(line));
}

static void expect_refused(const char *line, const char *reason) {
	struct weir_report before;

	memset(&report, 0x5a, sizeof(report));
	before = report;
	if (take_bytes(line, strlen(line)) != -EINVAL) {
		fail_msg("taken: %s", line);
	}
	assert_string_equal(why, reason);
	assert_memory_equal(&report, &before, sizeof(before));
}

#define HEADER "endpoint-load-metrics: "

static int start_crypto(__attribute__((unused)) void **state) {
	return sodium_init() < 0 ? -1 : 0;
}

TEST_GROUP(start_crypto);

TEST(fields_have_their_meanings) {
	assert_int_equal(
		take(HEADER "TEXT cpu_utilization=0.5,rps=7,eps=1.5,mem_utilization=0.9"), 1);
	assert_int_equal(report.given,
		WEIR_REPORT(UTILIZATION) | WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS));
	assert_true(report.utilization == 0.5);
	assert_true(report.requests_per_second == 7);
	assert_true(report.errors_per_second == 1.5);
	// rps_fractional and application_utilization have precedence over the other two fields.
	assert_int_equal(take(HEADER "TEXT rps=7,rps_fractional=7.25,application_utilization=0.75,"
				     "cpu_utilization=0.5"),
		1);
	assert_true(report.requests_per_second == 7.25);
	assert_true(report.utilization == 0.75);
	assert_int_equal(take(HEADER "TEXT application_utilization=0,cpu_utilization=0.5"), 1);
	assert_true(report.utilization == 0.5);
	assert_int_equal(take(HEADER "TEXT application_utilization=0"), 1);
	assert_int_equal(report.given, WEIR_REPORT(UTILIZATION));
	assert_true(report.utilization == 0);
	assert_int_equal(take(HEADER "TEXT mem_utilization=0.9"), 1);
	assert_int_equal(report.given, 0);
}

TEST(named_metrics_may_be_fields_of_a_report) {
	assert_int_equal(take(HEADER "TEXT named_metrics.active_requests=12,"
				     "named_metrics.max_active_flows=200,named_metrics.queue=-3,"
				     "utilization.active_requests=3,request_cost.cpus=4,"
				     "named_metrics.weight=9,named_metrics.utilization=0.1"),
		1);
	assert_int_equal(report.given, WEIR_REPORT(ACTIVE) | WEIR_REPORT(MAX_ACTIVE));
	assert_true(report.active_requests == 12);
	assert_true(report.max_active_flows == 200);
	expect_refused(
		HEADER "TEXT named_metrics.active_requests=-1", "bad number active_requests");
	expect_refused(HEADER "TEXT named_metrics.cpus=1e300", "bad number cpus");
}

TEST(headers_add_to_a_report) {
	report = (struct weir_report){.given = WEIR_REPORT(UTILIZATION) | WEIR_REPORT(WEIGHT),
		.utilization = 0.1,
		.weight = 3};
	assert_int_equal(take_bytes(HEADER "TEXT rps_fractional=5,cpu_utilization=0.2",
				 sizeof(HEADER "TEXT rps_fractional=5,cpu_utilization=0.2") - 1),
		1);
	assert_int_equal(report.given,
		WEIR_REPORT(UTILIZATION) | WEIR_REPORT(WEIGHT) | WEIR_REPORT(REQUESTS));
	assert_true(report.utilization == 0.2);
	assert_true(report.weight == 3);
}

TEST(names_of_headers) {
	static const char *const others[] = {"", "\r\n", "endpoint-load-metrics",
		"endpoint-load-metrics-text: TEXT rps=1", "X-endpoint-load-metrics: TEXT rps=1",
		"HTTP/1.1 200 OK\r\n", "endpoint-load-metrics : TEXT rps=1"};

	assert_int_equal(take("Endpoint-Load-METRICS:TEXT rps=1\r\n"), 1);
	assert_int_equal(take("endpoint-load-metrics: \t TEXT  rps=1 \t\n"), 1);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(take(others[i]), 0);
		assert_int_equal(report.given, 0);
	}
}

TEST(invalid_text_is_refused) {
	static const char *const numbers[] = {"nan", "NaN", "-nan", "inf", "-inf", "infinity",
		"1e999", "-1e999", "-1", "-1e-300", "0x1p3", "0x10", "1e", "1e+", ".", "1.", "-",
		"+", "1 2", "1,5x", "1a", "--1", "1e5e5"};
	char line[512];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		const char *const reason =
			strcmp(numbers[i], "1,5x") == 0 ? "empty name or value" : "bad number rps";

		snprintf(line, sizeof(line), HEADER "TEXT rps=%s", numbers[i]);
		expect_refused(line, reason);
	}
	expect_refused(HEADER "TEXT rps=1e300", "bad number rps");
	expect_refused(HEADER "TEXT eps=1000000000001", "bad number eps");
	expect_refused(HEADER "TEXT cpu_utilization=1000001", "bad number cpu_utilization");
	snprintf(line, sizeof(line), HEADER "TEXT rps=%0100d", 1);
	expect_refused(line, "bad number rps");
	expect_refused(HEADER "TEXT", "empty name or value");
	expect_refused(HEADER "TEXT ", "empty name or value");
	expect_refused(HEADER "TEXT rps=1,", "empty name or value");
	expect_refused(HEADER "TEXT ,rps=1", "empty name or value");
	expect_refused(HEADER "TEXT =1", "empty name or value");
	expect_refused(HEADER "TEXT rps", "empty name or value");
	expect_refused(HEADER "TEXT rps=1,rps:1", "duplicate rps");
	expect_refused(
		HEADER "TEXT named_metrics.a=1,named_metrics.a=1", "duplicate named_metrics.a");
	expect_refused(HEADER "TEXT named_metrics.a=inf", "bad number named_metrics.a");
	expect_refused(HEADER "TEXT named_metrics.a=1e999", "bad number named_metrics.a");
	expect_refused(HEADER "TEXT other.a=1", "unsupported other.a");
	expect_refused(HEADER "TEXT named_metrics=1", "unsupported named_metrics");
	expect_refused(HEADER "text rps=1", "unsupported format text");
	expect_refused(HEADER, "unsupported format ");
	expect_refused(HEADER "TEXT \x1b=1", "unsupported ?");
}

TEST(same_name_in_two_maps) {
	assert_int_equal(take(HEADER "TEXT named_metrics.a=1,utilization.a=1,request_cost.a=1,"
				     "named_metrics.a.b=1"),
		1);
}

TEST(numbers_of_names_and_bytes_are_limited) {
	char *line = calloc(1, 2 * WEIR_ORCA_BYTES_MOST);

	assert_non_null(line);
	strcpy(line, HEADER "TEXT rps=1");
	for (uint32_t i = 0; i < WEIR_ORCA_NAMES_MOST; i++) {
		sprintf(line + strlen(line), ",named_metrics.a%u=1", i);
	}
	assert_int_equal(take(line), 1);
	strcat(line, ",utilization.a=1");
	expect_refused(line, "more than 64 names");
	strcpy(line, "endpoint-load-metrics:TEXT rps=1");
	memset(line + strlen(line), ' ', WEIR_ORCA_BYTES_MOST);
	strcat(line, "x");
	expect_refused(line, "longer than 16384 bytes");
	free(line);
}

TEST(json_in_both_forms) {
	assert_int_equal(take(HEADER "JSON {\"cpuUtilization\": 1e-1, \"rps\": \"12\","
				     " \"memUtilization\": null, \"requestCost\": {\"a\": 1},"
				     " \"namedMetrics\": {\"active_requests\": \"4\"}}"),
		1);
	assert_true(report.utilization == 0.1);
	assert_true(report.requests_per_second == 12);
	assert_true(report.active_requests == 4);
	expect_refused(HEADER "JSON {\"cpuUtilization\": 1, \"cpu_utilization\": 1}",
		"duplicate cpu_utilization");
}

TEST(invalid_json_is_refused) {
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{"", "bad JSON: "},
		{"{", "bad JSON: "},
		{"[1]", "bad JSON: not an object"},
		{"{\"rps\": 1} x", "bad JSON: "},
		{"{\"rps\": 1, \"rps\": 1}", "bad JSON: duplicate object key"},
		{"{\"rps\": NaN}", "bad JSON: "},
		{"{\"rps\": Infinity}", "bad JSON: "},
		{"{\"rps\": \"NaN\"}", "bad number rps"},
		{"{\"rps\": 1e999}", "bad JSON: "},
		{"{\"rps\": 1e300}", "bad number rps"},
		{"{\"rps\": -1}", "bad number rps"},
		{"{\"rps\": true}", "bad number rps"},
		{"{\"rps\": {}}", "bad number rps"},
		{"{\"bogus\": 1}", "unsupported bogus"},
		{"{\"Rps\": 1}", "unsupported Rps"},
		{"{\"cpu_Utilization\": 1}", "unsupported cpu_Utilization"},
		{"{\"\": 1}", "unsupported "},
		{"{\"named_metrics\": 1}", "named_metrics is not an object"},
		{"{\"named_metrics\": {\"\": 1}}", "empty name in named_metrics"},
		{"{\"named_metrics\": {\"a\": []}}", "bad number named_metrics.a"},
		{"{\"named_metrics\": {\"a\": 1, \"a\": 1}}", "bad JSON: duplicate object key"},
		{"{\"named_metrics\": {\"a\\u0000\": 1}}", "bad JSON: "},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_report before;

		memset(&report, 0x5a, sizeof(report));
		before = report;
		assert_int_equal(weir_orca_json(cases[i].text, strlen(cases[i].text), &report, why),
			-EINVAL);
		if (strncmp(why, cases[i].reason, strlen(cases[i].reason)) != 0) {
			fail_msg("%s: %s", cases[i].text, why);
		}
		assert_memory_equal(&report, &before, sizeof(before));
	}
}

// --- the protocol buffer ---

static int take_binary(const char *bytes, size_t count) {
	char line[4096] = "endpoint-load-metrics-bin: ";

	sodium_bin2base64(line + strlen(line), sizeof(line) - strlen(line), (const uint8_t *)bytes,
		count, sodium_base64_VARIANT_ORIGINAL);
	return take(line);
}

// Take a string literal, which may contain NUL bytes.
#define BINARY(literal) take_binary(literal, sizeof(literal) - 1)
#define ONE "\x00\x00\x00\x00\x00\x00\xf0\x3f"
#define INF "\x00\x00\x00\x00\x00\x00\xf0\x7f"
#define MINUS_ONE "\x00\x00\x00\x00\x00\x00\xf0\xbf"
#define QUIET_NAN "\x01\x00\x00\x00\x00\x00\xf8\x7f"

TEST(binary_fields) {
	assert_int_equal(BINARY("\x09" ONE "\x11" ONE "\x18\xac\x02\x39" ONE), 1);
	assert_true(report.utilization == 1);
	assert_true(report.requests_per_second == 300);
	assert_true(report.errors_per_second == 1);
	assert_int_equal(BINARY("\x31" ONE "\x18\x07"), 1);
	assert_true(report.requests_per_second == 1);
	assert_int_equal(BINARY("\x49" ONE), 1);
	assert_true(report.utilization == 1);
	assert_int_equal(BINARY("\x42\x0f\x0a\x04"
				"cpus\x11" ONE),
		1);
	assert_true(report.cpus == 1);
	// An entry may have its value before its name, or no value (0). Entries of the other maps
	// are accepted, too.
	assert_int_equal(BINARY("\x42\x0f\x11" ONE "\x0a\x04"
				"cpus\x42\x05\x0a\x03"
				"foo\x22\x03\x0a\x01"
				"a\x2a\x03\x0a\x01"
				"a"),
		1);
	assert_true(report.cpus == 1);
	assert_int_equal(BINARY(""), 1);
	assert_int_equal(report.given, 0);
	// Unknown fields of every type.
	assert_int_equal(BINARY("\x50\x01\x59" ONE "\x62\x02zz\x6d\x01\x02\x03\x04"
				"\xf8\xff\xff\xff\x0f\x05\x09" ONE),
		1);
	assert_true(report.utilization == 1);
}

static void expect_broken(const char *bytes, size_t count, const char *reason) {
	assert_int_equal(take_binary(bytes, count), -EINVAL);
	assert_string_equal(why, reason);
	assert_int_equal(report.given, 0);
}
#define BROKEN(literal, reason) expect_broken(literal, sizeof(literal) - 1, reason)

TEST(invalid_binary_is_refused) {
	static const char cut[] = "\x09" ONE "\x18\xac\x02\x42\x0f\x0a\x04"
				  "cpus\x11" ONE;
	const size_t ends[] = {9, 12, sizeof(cut) - 1}; // lengths that end after a field

	for (size_t n = 1, next = 0; n < sizeof(cut); n++) {
		int r = take_binary(cut, n);

		assert_int_equal(r, n == ends[next] ? 1 : -EINVAL);
		next += n == ends[next];
	}
	BROKEN("\x09" INF, "bad number cpu_utilization");
	BROKEN("\x09" QUIET_NAN, "bad number cpu_utilization");
	BROKEN("\x09" MINUS_ONE, "bad number cpu_utilization");
	BROKEN("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "bad number rps"); // 2^64 - 1
	BROKEN("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "broken protocol buffer");
	BROKEN("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "broken protocol buffer");
	BROKEN("\x09" ONE "\x09" ONE, "duplicate cpu_utilization");
	BROKEN("\x42\x05\x0a\x03"
	       "foo\x42\x05\x0a\x03"
	       "foo",
		"duplicate named_metrics.foo");
	BROKEN("\x42\x00", "empty name in named_metrics");
	BROKEN("\x42\x09\x11" ONE, "empty name in named_metrics");
	BROKEN("\x42\x0c\x0a\x01"
	       "a\x11" INF,
		"bad number named_metrics.a");
	BROKEN("\x42\x06\x0a\x01"
	       "a\x0a\x01"
	       "b",
		"malformed entry in named_metrics"); // an entry with two names
	BROKEN("\x42\x05\x0a\x01"
	       "a\x18\x01",
		"malformed entry in named_metrics"); // an entry with a third field
	BROKEN("\x42\x03\x0a\x05"
	       "aaaaa",
		"malformed entry in named_metrics"); // longer than the enclosing message
	BROKEN("\x42\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "broken protocol buffer");
	BROKEN("\x08\x01", "cpu_utilization has the wrong type");
	BROKEN("\x19" ONE, "rps has the wrong type");
	BROKEN("\x41" ONE, "named_metrics has the wrong type");
	BROKEN("\x01" ONE, "broken protocol buffer"); // field 0
	BROKEN("\x0b\x0c", "broken protocol buffer"); // a group (wire type 3)
	BROKEN("\x0e", "broken protocol buffer"); // an undefined wire type
	BROKEN("\x80\x80\x80\x80\x10\x01", "broken protocol buffer"); // field 2^29
}

TEST(base64_with_and_without_padding) {
	assert_int_equal(take("endpoint-load-metrics-bin: GAc="), 1); // rps 7
	assert_true(report.requests_per_second == 7);
	assert_int_equal(take(HEADER "BIN GAc"), 1);
	assert_true(report.requests_per_second == 7);
	expect_refused("endpoint-load-metrics-bin: GAc==", "bad base64");
	expect_refused("endpoint-load-metrics-bin: GAc=GAc=", "bad base64");
	expect_refused("endpoint-load-metrics-bin: G", "bad base64");
	expect_refused("endpoint-load-metrics-bin: GA d", "bad base64");
	// nonzero unused bits in the last character
	expect_refused("endpoint-load-metrics-bin: GAd", "bad base64");
}

// --- Google Cloud's weight ---

TEST(google_weight) {
	static const char *const bad[] = {"", "-1", "1001", "99999999999999999999999999999", "1.5",
		"1 2", "0x10", "five", "+1"};
	char line[128];

	assert_int_equal(take("X-Load-Balancing-Endpoint-Weight: 0\r\n"), 1);
	assert_int_equal(report.given, WEIR_REPORT(WEIGHT));
	assert_true(report.weight == 0);
	assert_int_equal(take("x-load-balancing-endpoint-weight:1000"), 1);
	assert_true(report.weight == 1000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char reason[128];

		snprintf(line, sizeof(line), "X-Load-Balancing-Endpoint-Weight: %s", bad[i]);
		snprintf(reason, sizeof(reason), "bad weight %s", bad[i]);
		expect_refused(line, reason);
	}
}

// The document's description of each field matches the code.
TEST(document_has_every_field) {
	static const char *const fields[] = {"application_utilization", "cpu_utilization",
		"mem_utilization", "rps_fractional", "rps", "eps", "named_metrics.NAME",
		"utilization.NAME", "request_cost.NAME"};
	char line[128];

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		int field = -1;

		snprintf(line, sizeof(line), HEADER "TEXT %s=0.5", fields[i]);
		assert_int_equal(take(line), 1);
		while (report.given != 0 && report.given >> ++field != 1) {
		}
		snprintf(line, sizeof(line), field < 0 ? "\n| `%s` | -" : "\n| `%s` | `%s` |",
			fields[i],
			field < 0 ? "" : weir_report_field_name((enum weir_report_field)field));
		assert_documented(line);
	}
	// Named metrics that are fields of a report.
	for (int field = 0; field < WEIR_REPORT_FIELD_COUNT; field++) {
		const char *name = weir_report_field_name((enum weir_report_field)field);

		snprintf(line, sizeof(line), HEADER "TEXT named_metrics.%s=0.5", name);
		assert_int_equal(take(line), 1);
		if (report.given != 0) {
			assert_int_equal(report.given, 1u << field);
			snprintf(line, sizeof(line), "`named_metrics.%s`", name);
			assert_documented(line);
		}
	}
}
