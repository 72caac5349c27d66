// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <string.h>

#include "option.h"
#include "test.h"

#define WHY_BYTES 256

enum colour { RED = 7, GREEN, BLUE };

struct options {
	uint8_t before;
	uint8_t byte;
	uint8_t after;
	uint16_t port;
	uint32_t flows;
	uint64_t packets;
	int interval_ms;
	double share;
	enum colour colour;
	const char *dir;
	bool json;
};

static const struct weir_option_word colours[] = {
	{.name = "red", .number = RED},
	{.name = "green", .number = GREEN},
	{.name = "blue", .number = BLUE},
	{.name = NULL},
};

#define FIELD(member) WEIR_OPTION_FIELD(struct options, member)

static const struct weir_option byte_row = {
	.name = "byte", .kind = WEIR_OPTION_NUMBER, .max = 255, FIELD(byte)};
static const struct weir_option port_row = {
	.name = "port", .kind = WEIR_OPTION_NUMBER, .min = 1, .max = 65535, FIELD(port)};
static const struct weir_option packets_row = {
	.name = "packets", .kind = WEIR_OPTION_NUMBER, .max = UINT64_MAX, FIELD(packets)};
static const struct weir_option flows_row = {
	.name = "flows", .kind = WEIR_OPTION_SCALED, .min = 1, .max = 1u << 28, FIELD(flows)};
static const struct weir_option interval_row = {.name = "interval",
	.kind = WEIR_OPTION_SECONDS,
	.min = 100,
	.max = 3600000,
	FIELD(interval_ms)};
static const struct weir_option share_row = {
	.name = "share", .kind = WEIR_OPTION_REAL, .least = 0.5, .most = 100, FIELD(share)};
static const struct weir_option colour_row = {
	.name = "colour", .kind = WEIR_OPTION_WORD, .words = colours, FIELD(colour)};
static const struct weir_option dir_row = {
	.name = "dir", .kind = WEIR_OPTION_TEXT, .value = "DIR", .min = 1, .max = 4, FIELD(dir)};
static const struct weir_option json_row = {.name = "json", FIELD(json)};
static const struct weir_option blue_row = {
	.name = "blue", .kind = WEIR_OPTION_CONSTANT, .constant = BLUE, FIELD(colour)};

static void set(const struct weir_option *option, const char *value, struct options *options) {
	char why[WHY_BYTES];

	assert_int_equal(weir_option_set(option, value, options, why, sizeof(why)), 0);
}

TEST(option_values_go_to_fields_of_their_size) {
	struct options options = {0};

	set(&byte_row, "255", &options);
	assert_int_equal(options.byte, 255);
	assert_int_equal(options.before | options.after, 0);
	set(&port_row, "65535", &options);
	assert_int_equal(options.port, 65535);
	set(&packets_row, "18446744073709551615", &options);
	assert_true(options.packets == UINT64_MAX);
	set(&flows_row, "1.5M", &options);
	assert_int_equal(options.flows, 1500000);
	set(&flows_row, "4.1M", &options); // in binary floating point, 4.1 * 1e6 < 4100000
	assert_int_equal(options.flows, 4100000);
	set(&flows_row, "1.001k", &options);
	assert_int_equal(options.flows, 1001);
	set(&flows_row, "128k", &options);
	assert_int_equal(options.flows, 128000);
	set(&flows_row, "007", &options);
	assert_int_equal(options.flows, 7);
	set(&interval_row, "0.25", &options);
	assert_int_equal(options.interval_ms, 250);
	set(&interval_row, "3600", &options);
	assert_int_equal(options.interval_ms, 3600000);
	set(&interval_row, "500ms", &options);
	assert_int_equal(options.interval_ms, 500);
	set(&interval_row, "60s", &options);
	assert_int_equal(options.interval_ms, 60000);
	set(&interval_row, "1.5m", &options);
	assert_int_equal(options.interval_ms, 90000);
	set(&interval_row, "1h", &options);
	assert_int_equal(options.interval_ms, 3600000);
	set(&share_row, "0.5", &options);
	assert_true(options.share == 0.5);
	set(&colour_row, "green", &options);
	assert_int_equal(options.colour, GREEN);
	set(&dir_row, "/tmp", &options);
	assert_string_equal(options.dir, "/tmp");
	set(&json_row, NULL, &options);
	assert_true(options.json);
	set(&blue_row, NULL, &options);
	assert_int_equal(options.colour, BLUE);
}

TEST(option_mistakes_are_named_with_a_remedy) {
	static const struct {
		const struct weir_option *row;
		const char *value, *why;
	} cases[] = {
		{&byte_row, "256", "--byte: \"256\" is out of range; use 0 to 255"},
		{&byte_row, "", "--byte: \"\" is not a whole number; use 0 to 255"},
		{&port_row, "0", "--port: \"0\" is out of range; use 1 to 65535"},
		{&port_row, "-1", "--port: \"-1\" is not a whole number; use 1 to 65535"},
		{&port_row, "+1", "--port: \"+1\" is not a whole number; use 1 to 65535"},
		{&port_row, " 1", "--port: \" 1\" is not a whole number; use 1 to 65535"},
		{&port_row, "1 ", "--port: \"1 \" is not a whole number; use 1 to 65535"},
		{&port_row, "0x10", "--port: \"0x10\" is not a whole number; use 1 to 65535"},
		{&port_row, "1e3", "--port: \"1e3\" is not a whole number; use 1 to 65535"},
		{&port_row, "1k", "--port: \"1k\" is not a whole number; use 1 to 65535"},
		{&port_row, "80\x1b[2J",
			"--port: \"80\\x1b[2J\" is not a whole number; use 1 to 65535"},
		{&packets_row, "18446744073709551616",
			"--packets: \"18446744073709551616\" is out of range; use 0 to "
			"18446744073709551615"},
		{&flows_row, "10kk",
			"--flows: \"10kk\" is not a whole number such as 500, 64k or 2M; use 1 to "
			"268435456"},
		{&flows_row, "1.5",
			"--flows: \"1.5\" is not a whole number such as 500, 64k or 2M; use 1 to "
			"268435456"},
		{&flows_row, "1.0001k",
			"--flows: \"1.0001k\" is not a whole number such as 500, 64k or 2M; use 1 "
			"to 268435456"},
		{&flows_row, "0x10",
			"--flows: \"0x10\" is not a whole number such as 500, 64k or 2M; use 1 to "
			"268435456"},
		{&flows_row, "nan",
			"--flows: \"nan\" is not a whole number such as 500, 64k or 2M; use 1 to "
			"268435456"},
		{&flows_row, "inf",
			"--flows: \"inf\" is not a whole number such as 500, 64k or 2M; use 1 to "
			"268435456"},
		{&flows_row, "-1",
			"--flows: \"-1\" is not a whole number such as 500, 64k or 2M; use 1 to "
			"268435456"},
		{&flows_row, ".",
			"--flows: \".\" is not a whole number such as 500, 64k or 2M; use 1 to "
			"268435456"},
		{&flows_row, "M",
			"--flows: \"M\" is not a whole number such as 500, 64k or 2M; use 1 to "
			"268435456"},
		{&flows_row, "300M", "--flows: \"300M\" is out of range; use 1 to 268435456"},
		{&interval_row, "0.05",
			"--interval: \"0.05\" is out of range; use 0.1 to 3600 seconds"},
		{&interval_row, "1k",
			"--interval: \"1k\" is not a duration such as 500ms, 30s, 5m or 2h; use "
			"0.1 to 3600 seconds"},
		{&interval_row, "1d",
			"--interval: \"1d\" is not a duration such as 500ms, 30s, 5m or 2h; use "
			"0.1 to 3600 seconds"},
		{&interval_row, "1s5",
			"--interval: \"1s5\" is not a duration such as 500ms, 30s, 5m or 2h; use "
			"0.1 to 3600 seconds"},
		{&interval_row, "99ms",
			"--interval: \"99ms\" is out of range; use 0.1 to 3600 seconds"},
		{&interval_row, "61m",
			"--interval: \"61m\" is out of range; use 0.1 to 3600 seconds"},
		{&interval_row, "nan",
			"--interval: \"nan\" is not a duration such as 500ms, 30s, 5m or 2h; use "
			"0.1 to 3600 seconds"},
		{&interval_row, "1e9",
			"--interval: \"1e9\" is not a duration such as 500ms, 30s, 5m or 2h; use "
			"0.1 to 3600 seconds"},
		{&interval_row, "1.2.3",
			"--interval: \"1.2.3\" is not a duration such as 500ms, 30s, 5m or 2h; use "
			"0.1 to 3600 seconds"},
		{&share_row, "0.4", "--share: \"0.4\" is out of range; use 0.5 to 100"},
		{&share_row, "x", "--share: \"x\" is not a number; use 0.5 to 100"},
		{&colour_row, "grean", "--colour: \"grean\" is not known; did you mean \"green\"?"},
		{&colour_row, "Orange",
			"--colour: \"Orange\" is not known; use red, green or blue"},
		{&colour_row, "", "--colour: \"\" is not known; use red, green or blue"},
		{&dir_row, "", "--dir: is empty; use --dir DIR"},
		{&dir_row, "/tmp/", "--dir: has 5 bytes; use 1 to 4 bytes"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct options options, before;
		char why[WHY_BYTES] = "";

		memset(&options, 0x55, sizeof(options));
		memcpy(&before, &options, sizeof(before));
		assert_int_equal(
			weir_option_set(cases[i].row, cases[i].value, &options, why, sizeof(why)),
			-EINVAL);
		assert_string_equal(why, cases[i].why);
		assert_memory_equal(&options, &before, sizeof(before));
	}
}

TEST(option_number_with_hundreds_of_digits_is_out_of_range) {
	struct options options;
	char value[512], why[WHY_BYTES];

	memset(value, '9', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (const struct weir_option *const *row = (const struct weir_option *const[]){&port_row,
		     &flows_row, &interval_row, &share_row, NULL};
		*row != NULL; row++) {
		assert_int_equal(weir_option_set(*row, value, &options, why, sizeof(why)), -EINVAL);
		assert_non_null(strstr(why, "999...\" is out of range; use "));
	}
}

TEST(option_words_are_listed_in_readable_form) {
	char text[32];

	assert_string_equal(weir_option_words(colours, text, sizeof(text)), "red, green or blue");
	assert_string_equal(weir_option_words(colours + 1, text, sizeof(text)), "green or blue");
	assert_string_equal(weir_option_words(colours + 2, text, sizeof(text)), "blue");
	assert_string_equal(weir_option_words(colours + 3, text, sizeof(text)), "");
	assert_string_equal(weir_option_words(colours, text, 8), "red, gr");
}
