// SPDX-License-Identifier: BSD-3-Clause
//
// Tests reports: invalid values are removed, whichever source reports them.
#include <math.h>
#include <netinet/in.h>
#include <string.h>

#include "health_state.h"
#include "report.h"
#include "test.h"

TEST(every_field_has_its_bounds) {
	for (uint32_t field = 0; field < WEIR_REPORT_FIELD_COUNT; field++) {
		double most = weir_report_field_largest(field);
		const double bad[] = {
			-1, -1e-300, nextafter(most, INFINITY), 1e300, INFINITY, -INFINITY, NAN};
		struct weir_report report = {0};

		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			assert_false(weir_report_set(&report, field, bad[i]));
			assert_int_equal(report.given, 0);
		}
		assert_true(weir_report_set(&report, field, 0));
		assert_true(weir_report_set(&report, field, most));
		assert_int_equal(report.given, 1u << field);
		assert_true(weir_report_value(&report, field) == most);
		assert_int_equal(weir_report_check(&report), 0);
		assert_int_equal(report.given, 1u << field);
	}
}

TEST(names_and_fields_are_those_of_the_struct) {
	struct weir_report report = {0};

	assert_string_equal(weir_report_field_name(WEIR_REPORT_BIT_UTILIZATION), "utilization");
	assert_true(weir_report_set(&report, WEIR_REPORT_BIT_UTILIZATION, 0.5));
	assert_true(weir_report_set(&report, WEIR_REPORT_BIT_WEIGHT, 7));
	assert_true(report.utilization == 0.5);
	assert_true(report.weight == 7);
}

TEST(check_removes_invalid_values) {
	struct weir_report report = {
		.given = UINT32_MAX & ~WEIR_REPORT(CPUS),
		.word = WEIR_HEALTH_WORD_COUNT,
		.service_time_ms = NAN,
		.requests_per_second = 1e300,
		.errors_per_second = -1,
		.utilization = 0.25,
		.cpus = 4,
	};

	assert_int_equal(weir_report_check(&report), ~WEIR_REPORT_ALL | WEIR_REPORT(SERVICE_TIME) |
							     WEIR_REPORT(REQUESTS) |
							     WEIR_REPORT(ERRORS));
	assert_int_equal(report.given,
		WEIR_REPORT_ALL & ~(WEIR_REPORT(CPUS) | WEIR_REPORT(SERVICE_TIME) |
					  WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS)));
	assert_int_equal(report.word, WEIR_HEALTH_WORD_NONE);
	// Omitted fields are 0, even if they had another value before.
	assert_true(report.service_time_ms == 0);
	assert_true(report.cpus == 0);
	assert_true(report.utilization == 0.25);
}

TEST(check_removes_invalid_words_of_ports) {
	struct weir_report report = {
		.port_word_count = 2,
		.port_words = {{80, IPPROTO_TCP, WEIR_HEALTH_WORD_DOWN, 0},
			{80, IPPROTO_UDP, WEIR_HEALTH_WORD_DOWN, 0}},
	};

	weir_report_check(&report);
	assert_int_equal(report.port_word_count, 2);
	report.port_words[1].protocol = IPPROTO_TCP;
	weir_report_check(&report);
	assert_int_equal(report.port_word_count, 0);
	report.port_word_count = WEIR_PORT_WORDS_MOST + 1;
	weir_report_check(&report);
	assert_int_equal(report.port_word_count, 0);
}

TEST(reasons_of_ports_have_a_text) {
	assert_string_equal(weir_port_reason_text(WEIR_PORT_REASON_NONE), "");
	assert_string_equal(
		weir_port_reason_text(WEIR_PORT_REASON_NO_LISTENER), "no listening socket");
	// a reason of a later version of the agent
	assert_string_equal(weir_port_reason_text(15), "");
}

TEST(words_are_printable_and_terminated) {
	struct weir_report report = {0};
	char text[200];

	weir_report_set_why(&report, "disk\x1b[2J\xc3\xa4\x7f full\n", 17);
	assert_string_equal(report.why, "disk?[2J??? full?");
	weir_report_set_why(&report, "disk full", 4);
	assert_string_equal(report.why, "disk");
	weir_report_set_why(&report, "a\0b", 3);
	assert_string_equal(report.why, "a");
	memset(text, 'x', sizeof(text));
	weir_report_set_why(&report, text, sizeof(text));
	assert_int_equal(strlen(report.why), WEIR_REPORT_WHY_BYTES - 1);
	weir_report_set_why(&report, text, WEIR_REPORT_WHY_BYTES - 1);
	assert_int_equal(strlen(report.why), WEIR_REPORT_WHY_BYTES - 1);
	memset(report.why, '\t', sizeof(report.why)); // a text without a NUL
	weir_report_check(&report);
	assert_int_equal(strlen(report.why), WEIR_REPORT_WHY_BYTES - 1);
	assert_int_equal(strspn(report.why, "?"), WEIR_REPORT_WHY_BYTES - 1);
	weir_report_set_why(&report, "", 0);
	assert_string_equal(report.why, "");
}

TEST(weight_is_that_of_the_report_or_the_configured_one) {
	struct weir_report report = {.weight_percent = 50, .weight = 7};

	assert_true(weir_report_weight(&report, 100) == 100);
	report.given = WEIR_REPORT(WEIGHT_PERCENT);
	assert_true(weir_report_weight(&report, 100) == 50);
	// The maximum is the larger of 256 and the configured weight.
	assert_true(weir_report_weight(&report, 1000) == 500);
	report.weight_percent = 0;
	assert_true(weir_report_weight(&report, 100) == 0);
	report.weight_percent = 300;
	assert_true(weir_report_weight(&report, 100) == 256);
	assert_true(weir_report_weight(&report, 1000) == 1000);
	report.given = WEIR_REPORT(WEIGHT);
	assert_true(weir_report_weight(&report, 1000) == 7);
}
