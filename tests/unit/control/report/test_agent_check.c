// SPDX-License-Identifier: BSD-3-Clause
//
// Tests lines of agent-check that tests/vectors/load_reports.json does not cover: several lines of
// one agent, limits, and unterminated lines. Comments contain the result of HAProxy 2.6.12.
#include <errno.h>
#include <string.h>

#include "agent_check.h"
#include "document.h"
#include "health_state.h"
#include "test.h"

#define NOTHING WEIR_HEALTH_WORD_NONE
#define READY WEIR_HEALTH_WORD_READY
#define LAME_DUCK WEIR_HEALTH_WORD_LAME_DUCK
#define DOWN WEIR_HEALTH_WORD_DOWN

static struct weir_agent_check agent;
static struct weir_report report;
static char complaint[WEIR_AGENT_CHECK_COMPLAINT_BYTES];

static int set_up(void **state) {
	(void)state;
	memset(&agent, 0, sizeof(agent));
	return 0;
}

static uint8_t say(const char *line) {
	memset(&report, 0x5a, sizeof(report));
	assert_int_equal(weir_agent_check_read(&agent, line, strlen(line), &report, complaint), 0);
	return report.word;
}

TEST_EACH(set_up);

TEST(every_word_has_its_meaning) {
	static const struct {
		const char *line;
		uint8_t word;
	} cases[] = {
		{"up\n", READY},
		{"ready\n", READY},
		{"down\n", DOWN},
		{"fail\n", DOWN},
		{"stopped\n", DOWN},
		{"maint\n", DOWN},
		{"drain\n", LAME_DUCK},
		{"Ready,UP\r\n", READY},
		{"\n", NOTHING},
		{"50%\n", NOTHING},
		{"upp\n", NOTHING},
		{"u\n", NOTHING},
		{"# down\n", NOTHING},
		// a line may have a word for the administrative state and a word for health; the
		// worse state counts
		{"up drain\n", LAME_DUCK},
		{"drain down\n", DOWN},
		{"ready down\n", DOWN},
		{"up maint\n", DOWN},
		{"up ready\n", READY},
		// if several words belong to one class, the last word counts; HAProxy: MAINT,
		// DRAIN, DOWN, up
		{"drain maint\n", DOWN},
		{"maint drain\n", LAME_DUCK},
		{"up down\n", DOWN},
		{"down up\n", READY},
		// the line ends at the first CR or LF: up
		{"up\rdown\n", READY},
		{"up\ndown\n", READY},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&agent, 0, sizeof(agent));
		assert_int_equal(say(cases[i].line), cases[i].word);
	}
}

TEST(each_class_remains_until_its_own_word) {
	assert_int_equal(say("drain\n"), LAME_DUCK); // HAProxy: DRAIN
	assert_int_equal(say("up\n"), LAME_DUCK); // HAProxy: DRAIN
	assert_int_equal(say("20%\n"), NOTHING); // HAProxy: DRAIN, no change
	assert_int_equal(say("down\n"), DOWN); // HAProxy: DOWN
	assert_int_equal(say("ready\n"), DOWN); // HAProxy: DOWN
	assert_int_equal(say("up\n"), READY); // HAProxy: up
	assert_int_equal(say("maint\n"), DOWN); // HAProxy: MAINT
	assert_int_equal(say("up\n"), DOWN); // HAProxy: MAINT
	assert_int_equal(say("drain\n"), LAME_DUCK); // HAProxy: DRAIN
	assert_int_equal(say("ready\n"), READY); // HAProxy: up
}

TEST(numbers_have_limits) {
	static const struct {
		const char *line;
		uint32_t given;
		const char *complaint;
		double value;
	} cases[] = {
		{"0%\n", WEIR_REPORT(WEIGHT_PERCENT), "", 0},
		{"1000000%\n", WEIR_REPORT(WEIGHT_PERCENT), "", 1e6},
		{"1000001%\n", 0, "1000001%: too large", 0},
		{"99999999999999999999999999999999999999%\n", 0,
			"99999999999999999999999999999999999999%: too large", 0},
		{"weight:0\n", WEIR_REPORT(WEIGHT), "", 0},
		{"weight:256\n", WEIR_REPORT(WEIGHT), "", 256},
		{"weight:257\n", 0, "weight:257: too large", 0},
		{"WEIGHT:50%\n", WEIR_REPORT(WEIGHT_PERCENT), "", 50},
		{"weight:\n", 0, "weight:: not a number", 0},
		{"weight:-1\n", 0, "weight:-1: not a number", 0},
		{"weight:5%%\n", 0, "weight:5%%: trailing garbage", 0},
		{"-5%\n", 0, "unknown word -5%", 0},
		{"12.5%\n", 0, "12.5%: trailing garbage", 0},
		{"7%5\n", 0, "7%5: trailing garbage", 0},
		{"up 40%#50%\n", 0, "40%#50%: trailing garbage", 0},
		{"40% 7%5\n", 0, "7%5: trailing garbage", 0}, // HAProxy: weight 100
		{"40% weight:7\n", WEIR_REPORT(WEIGHT), "", 7},
		{"weight:7 40%\n", WEIR_REPORT(WEIGHT_PERCENT), "", 40},
		// HAProxy: weight 40
		{"40% x%\n", WEIR_REPORT(WEIGHT_PERCENT), "unknown word x%", 40},
		{"maxconn:0\n", WEIR_REPORT(MAX_ACTIVE), "", 0},
		{"maxconn:4294967295\n", WEIR_REPORT(MAX_ACTIVE), "", 4294967295},
		{"maxconn:4294967296\n", 0, "maxconn:4294967296: too large", 0},
		{"maxconn:5x\n", 0, "maxconn:5x: trailing garbage", 0},
		{"maxconn:5 maxconn:x\n", 0, "maxconn:x: not a number", 0},
		{"maxconn:-1\n", 0, "maxconn:-1: not a number", 0},
		{"inf%\n", 0, "unknown word inf%", 0},
		{"one two\n", 0, "unknown word one", 0}, // the first unknown word is reported
		{"\x1b[2J\n", 0, "unknown word ?[2J", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		say(cases[i].line);
		assert_int_equal(report.given, cases[i].given);
		assert_string_equal(complaint, cases[i].complaint);
		assert_true(report.weight + report.weight_percent + report.max_active_flows ==
			    cases[i].value);
	}
}

TEST(description_belongs_to_the_word_that_determines_the_result) {
	say("down # disk full\n");
	assert_string_equal(report.why, "down: disk full");
	say("up #disk\tis\x07 fine\n");
	assert_string_equal(report.why, "up: disk?is? fine");
	say("stopped\n");
	assert_string_equal(report.why, "stopped");
	say("up drain\n");
	assert_string_equal(report.why, "drain");
	say("75% # hot\n");
	assert_string_equal(report.why, "hot");
	say("up#x\n"); // up#x is not a word
	assert_string_equal(report.why, "");
	assert_string_equal(complaint, "unknown word up#x");
	say("#\n");
	assert_string_equal(report.why, "");
}

TEST(line_without_end_is_ignored) {
	struct weir_report untouched;

	memset(&report, 0x5a, sizeof(report));
	untouched = report;
	assert_int_equal(weir_agent_check_read(&agent, "down", 4, &report, complaint), -ENODATA);
	assert_int_equal(weir_agent_check_read(&agent, "down\n", 4, &report, complaint), -ENODATA);
	assert_int_equal(weir_agent_check_read(&agent, "", 0, &report, complaint), -ENODATA);
	assert_memory_equal(&report, &untouched, sizeof(report));
	assert_int_equal(agent.health, NOTHING);
}

TEST(long_lines_and_nuls) {
	char line[4 * WEIR_AGENT_CHECK_LINE_BYTES];

	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	assert_int_equal(weir_agent_check_read(&agent, line, sizeof(line), &report, complaint), 0);
	assert_int_equal(strlen(complaint), WEIR_AGENT_CHECK_COMPLAINT_BYTES - 1);
	line[0] = '#';
	assert_int_equal(weir_agent_check_read(&agent, line, sizeof(line), &report, complaint), 0);
	assert_int_equal(strlen(report.why), WEIR_REPORT_WHY_BYTES - 1);
	assert_int_equal(weir_agent_check_read(&agent, "down\0up\n", 8, &report, complaint), 0);
	assert_int_equal(report.word, NOTHING);
	assert_int_equal(weir_agent_check_read(&agent, "up\0 down\n", 9, &report, complaint), 0);
	assert_int_equal(report.word, DOWN);
}

// The document's description of each word matches the code.
TEST(document_has_every_word) {
	static const char *const words[] = {
		"up", "down", "fail", "stopped", "ready", "drain", "maint"};
	static const char *const numbers[] = {"N%", "weight:N%", "weight:N", "maxconn:N"};
	char line[128];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		memset(&agent, 0, sizeof(agent));
		snprintf(line, sizeof(line), "%s\n", words[i]);
		say(line);
		snprintf(line, sizeof(line), "\n| `%s` | %s | %s |", words[i],
			agent.administration != NOTHING ? "administration" : "health",
			weir_health_word_name((enum weir_health_word)report.word));
		assert_documented(line);
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		int field = -1;

		snprintf(line, sizeof(line), "%s\n", numbers[i]);
		*strchr(line, 'N') = '7';
		say(line);
		while (report.given >> ++field != 1) {
		}
		snprintf(line, sizeof(line), "\n| `%s` | %s | `%s`", numbers[i],
			field == WEIR_REPORT_BIT_MAX_ACTIVE ? "limit" : "weight",
			weir_report_field_name((enum weir_report_field)field));
		assert_documented(line);
	}
}
