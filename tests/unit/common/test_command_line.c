// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "test.h"

#define WORDS_MAX 16
#define WHY_BYTES 256

struct options {
	const char *config;
	const char *name;
	bool json, quiet;
	uint32_t count;
	int values; // number of values of --add
};

static int add_value(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	assert_string_equal(option->name, "add");
	if (strcmp(value, "bad") == 0) {
		snprintf(why, why_bytes, "is bad; use another");
		return -EINVAL;
	}
	((struct options *)options)->values++;
	return 0;
}

enum { GROUP_SHOW = 1, GROUP_SET = 2 };
enum { ROW_CONFIG, ROW_NAME, ROW_HEADING, ROW_JSON, ROW_QUIET, ROW_COUNT, ROW_ADD };

static const struct weir_option rows[] = {
	[ROW_CONFIG] = {.name = "config",
		.letter = 'c',
		.kind = WEIR_OPTION_TEXT,
		.required = true,
		.value = "FILE",
		WEIR_OPTION_FIELD(struct options, config)},
	[ROW_NAME] = {.name = "name",
		.kind = WEIR_OPTION_TEXT,
		.value = "NAME",
		WEIR_OPTION_FIELD(struct options, name)},
	[ROW_HEADING] = {.name = "More", .kind = WEIR_OPTION_HEADING},
	[ROW_JSON] = {.name = "json",
		.letter = 'j',
		.groups = GROUP_SHOW,
		WEIR_OPTION_FIELD(struct options, json)},
	[ROW_QUIET] = {.name = "quiet",
		.letter = 'q',
		.groups = GROUP_SHOW | GROUP_SET,
		WEIR_OPTION_FIELD(struct options, quiet)},
	[ROW_COUNT] = {.name = "count",
		.letter = 'n',
		.kind = WEIR_OPTION_NUMBER,
		.value = "N",
		.min = 1,
		.max = 9,
		WEIR_OPTION_FIELD(struct options, count)},
	[ROW_ADD] = {.name = "add",
		.kind = WEIR_OPTION_CUSTOM,
		.value = "THING",
		.take = add_value,
		.groups = GROUP_SET},
};

static const struct weir_option_list list = {
	.row = rows, .count = sizeof(rows) / sizeof(rows[0]), .operands_max = 3};

static int parse(
	char *const *words, struct options *options, struct weir_command_line *line, char *why) {
	int argc = 0;

	while (words[argc] != NULL) {
		argc++;
	}
	why[0] = '\0';
	return weir_command_line_parse(&list, argc, words, options, line, why, WHY_BYTES);
}

#define PARSE(options, line, why, ...) \
	parse((char *[]){(char *)"program", __VA_ARGS__, NULL}, options, line, why)

TEST(line_takes_options_in_every_form) {
	struct options options = {0};
	struct weir_command_line line;
	char why[WHY_BYTES];

	assert_int_equal(PARSE(&options, &line, why, "one", "--config=a=b", "-jq", "-n3", "two",
				 "--add", "-1", "--add=--x", "--name=", "-", "--"),
		0);
	assert_string_equal(options.config, "a=b");
	assert_string_equal(options.name, "");
	assert_true(options.json && options.quiet);
	assert_int_equal(options.count, 3);
	assert_int_equal(options.values, 2);
	assert_int_equal(line.operands, 3);
	assert_string_equal(line.operand[0], "one");
	assert_string_equal(line.operand[1], "two");
	assert_string_equal(line.operand[2], "-");
	assert_true(line.given == (1u << ROW_CONFIG | 1u << ROW_NAME | 1u << ROW_JSON |
					  1u << ROW_QUIET | 1u << ROW_COUNT | 1u << ROW_ADD));
	assert_int_equal(PARSE(&options, &line, why, "-c", "x", "-qn", "4"), 0);
	assert_string_equal(options.config, "x");
	assert_int_equal(options.count, 4);
}

TEST(line_after_two_dashes_has_operands_only) {
	struct options options = {0};
	struct weir_command_line line;
	char why[WHY_BYTES];

	assert_int_equal(PARSE(&options, &line, why, "-c", "--", "--", "--json", "--"), 0);
	assert_string_equal(options.config, "--");
	assert_false(options.json);
	assert_int_equal(line.operands, 2);
	assert_string_equal(line.operand[0], "--json");
	assert_string_equal(line.operand[1], "--");
}

TEST(line_last_one_counts) {
	struct options options = {0};
	struct weir_command_line line;
	char why[WHY_BYTES];

	assert_int_equal(PARSE(&options, &line, why, "--config", "a", "--config", "b"), 0);
	assert_string_equal(options.config, "b");
}

TEST(line_help_and_version_need_nothing_else) {
	static char *const words[] = {"--help", "-h", "--version", "-V"};

	for (size_t i = 0; i < 4; i++) {
		struct options options = {0};
		struct weir_command_line line;
		char why[WHY_BYTES];

		assert_int_equal(PARSE(&options, &line, why, words[i]), 0);
		assert_int_equal(line.help, i < 2);
		assert_int_equal(line.version, i >= 2);
		assert_true(line.given == 0);
	}
}

TEST(line_mistakes_are_reported_with_a_remedy) {
	static const struct {
		char *words[5];
		const char *why;
	} cases[] = {
		{{NULL}, "--config is missing; use --config FILE"},
		{{"--config"}, "--config needs a value; use --config FILE"},
		{{"-c"}, "--config needs a value; use --config FILE"},
		{{"-jc"}, "--config needs a value; use --config FILE"},
		{{"--json=yes"}, "--json takes no value; use --json alone"},
		{{"--json="}, "--json takes no value; use --json alone"},
		{{"--jsn"}, "unknown option --jsn; did you mean --json?"},
		{{"--cont=3"}, "unknown option --cont=3; did you mean --count?"},
		{{"--co"}, "unknown option --co"}, // ambiguous: --config or --count
		{{"--conf", "x"}, "unknown option --conf; did you mean --config?"},
		{{"--vers"}, "unknown option --vers; did you mean --version?"},
		{{"--More"}, "unknown option --More"},
		{{"--frobnicate"}, "unknown option --frobnicate"},
		{{"-json"}, "unknown option -json; did you mean --json?"},
		{{"-x"}, "unknown option -x"},
		{{"-1"}, "unknown option -1; write -- before a negative number"},
		{{"---"}, "unknown option ---"},
		{{"--=x"}, "unknown option --=x"},
		{{"--\x1b[1m"}, "unknown option --\\x1b[1m"},
		{{"--count", "0"}, "--count: \"0\" is out of range; use 1 to 9"},
		{{"--add", "bad"}, "--add: \"bad\" is bad; use another"},
		{{"a", "b", "c", "d"}, "unexpected argument \"d\""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *words[7] = {(char *)"program"};
		struct weir_command_line line = {.operands = 77};
		struct options options = {0};
		char why[WHY_BYTES];

		memcpy(words + 1, cases[i].words, sizeof(cases[i].words));
		assert_int_equal(parse(words, &options, &line, why), -EINVAL);
		assert_string_equal(why, cases[i].why);
		assert_in_range(line.operands, 0, 3); // not 77
	}
}

TEST(line_options_of_other_commands_are_refused) {
	struct options options = {0};
	struct weir_command_line line;
	char why[WHY_BYTES];

	assert_int_equal(PARSE(&options, &line, why, "-c", "f", "-j", "-q"), 0);
	assert_int_equal(
		weir_command_line_check(&list, &line, GROUP_SHOW, "show", why, sizeof(why)), 0);
	assert_int_equal(
		weir_command_line_check(&list, &line, GROUP_SET, "set", why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "--json is not an option of set; leave it out");
}

TEST(line_command_is_found_or_suggested) {
	static const struct weir_option_word commands[] = {
		{"run FILE", 7, "simulate"}, {"list", 8, "list"}, {NULL, 0, NULL}};
	struct weir_command_line line = {.operands = 1};
	char why[WHY_BYTES];
	int command = -1;

	line.operand[0] = "list";
	assert_int_equal(weir_command_line_command(commands, &line, &command, why, WHY_BYTES), 0);
	assert_int_equal(command, 8);
	line.operand[0] = "run";
	assert_int_equal(weir_command_line_command(commands, &line, &command, why, WHY_BYTES), 0);
	assert_int_equal(command, 7);
	line.operand[0] = "run FILE";
	assert_int_equal(
		weir_command_line_command(commands, &line, &command, why, WHY_BYTES), -EINVAL);
	assert_string_equal(why, "unknown command \"run FILE\"; use run or list");
	line.operand[0] = "lisst";
	assert_int_equal(
		weir_command_line_command(commands, &line, &command, why, WHY_BYTES), -EINVAL);
	assert_string_equal(why, "unknown command \"lisst\"; did you mean \"list\"?");
	line.operands = 0;
	assert_int_equal(
		weir_command_line_command(commands, &line, &command, why, WHY_BYTES), -EINVAL);
	assert_string_equal(why, "no command is given; use run or list");
	assert_int_equal(command, 7);
}

TEST(line_without_words_is_empty) {
	static const struct weir_option_list none = {0};
	char *nothing[] = {NULL};
	struct weir_command_line line;
	char why[WHY_BYTES];

	assert_int_equal(weir_command_line_parse(&none, 0, nothing, NULL, &line, why, 8), 0);
	assert_int_equal(line.operands, 0);
	// argc is too high
	assert_int_equal(weir_command_line_parse(&none, 5, nothing, NULL, &line, why, 8), 0);
}

TEST(line_why_is_truncated_to_its_buffer) {
	char *words[] = {"program", "--frobnicate", NULL};
	struct weir_command_line line;
	struct options options;
	char why[16];

	memset(why, 'x', sizeof(why));
	assert_int_equal(
		weir_command_line_parse(&list, 2, words, &options, &line, why, 8), -EINVAL);
	assert_string_equal(why, "unknown");
	assert_int_equal(why[8], 'x');
}

// Pieces of random command lines: parts of options, values, invalid text.
#define LONG_PIECE "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const char *const pieces[] = {"--", "-", "=", "config", "count", "name", "json", "add", "j",
	"q", "n", "h", "V", "help", "version", "3", "0", "99999999999999999999", "-1", "bad",
	"\x1b[2J", "\n", "\xff\xfe", "%s%n", "", " ", LONG_PIECE};

static uint32_t next_random(uint32_t *state) {
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void make_word(uint32_t *state, char *word, size_t bytes) {
	word[0] = '\0';
	for (uint32_t parts = 1 + next_random(state) % 4; parts > 0; parts--) {
		const char *piece =
			pieces[next_random(state) % (sizeof(pieces) / sizeof(pieces[0]))];

		strncat(word, piece, bytes - strlen(word) - 1);
	}
}

static void check_why(const char *why) {
	assert_true(why[0] != '\0');
	for (const char *c = why; *c != '\0'; c++) {
		assert_in_range((unsigned char)*c, ' ', '~');
	}
}

TEST(line_random_words_are_accepted_or_refused_with_a_line) {
	char word[WORDS_MAX][128], *words[WORDS_MAX + 1], *copy[WORDS_MAX + 1];
	uint32_t random = 1, taken = 0;

	for (uint32_t round = 0; round < 200000; round++) {
		struct options options = {.config = "untouched"};
		struct weir_command_line line = {.operands = -1};
		int argc = (int)(next_random(&random) % WORDS_MAX);
		char why[WHY_BYTES];
		int r;

		for (int i = 0; i < argc; i++) {
			make_word(&random, word[i], sizeof(word[i]));
			words[i] = copy[i] = word[i];
		}
		words[argc] = copy[argc] = NULL;
		r = parse(words, &options, &line, why);
		assert_memory_equal(words, copy, ((size_t)argc + 1) * sizeof(words[0]));
		if (r == 0) {
			taken++;
			assert_in_range(line.operands, 0, 3);
			assert_true(line.help || line.version || (line.given & 1) != 0);
		} else {
			assert_int_equal(r, -EINVAL);
			assert_in_range(line.operands, 0, 3);
			check_why(why);
		}
	}
	assert_in_range(taken, 500, 100000);
}
