// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include "help_text.h"
#include "test.h"

enum { GROUP_RUN = 1, GROUP_LIST = 2 };

static const struct weir_option_word formats[] = {
	{.name = "svg"},
	{.name = "png"},
	{.name = NULL},
};
static const struct weir_option_word cases[] = {
	{.name = "new",
		.help = "SYNs of new flows into a full table, so that each evicts an older one"},
	{.name = "established", .help = "packets of flows in the table"},
	{.name = NULL},
};
static const struct weir_option_word commands[] = {
	{.name = "run FILE", .help = "simulate"},
	{.name = "list", .help = "list the scenarios"},
	{.name = NULL},
};

static const struct weir_option rows[] = {
	{.name = "config",
		.letter = 'c',
		.kind = WEIR_OPTION_TEXT,
		.value = "FILE",
		.help = "configuration file that is read by each of the programs when it starts "
			"and "
			"again at SIGHUP",
		.fallback = "/etc/weir.json"},
	{.name = "format",
		.kind = WEIR_OPTION_WORD,
		.value = "F",
		.help = "format of plots",
		.fallback = "svg",
		.words = formats,
		.groups = GROUP_RUN},
	{.name = "case",
		.kind = WEIR_OPTION_WORD,
		.value = "CASE",
		.help = "traffic",
		.words = cases},
	{.name = "a-very-long-name-of-an-option",
		.kind = WEIR_OPTION_CUSTOM,
		.value = "VALUE",
		.help = "rarely used",
		.repeatable = true},
	{.name = "How to measure", .kind = WEIR_OPTION_HEADING, .groups = GROUP_RUN},
	{.name = "json", .help = "print JSON", .groups = GROUP_LIST},
};

static const struct weir_option_list list = {.row = rows, .count = sizeof(rows) / sizeof(rows[0])};

TEST(help_aligns_and_wraps_lines) {
	static const struct weir_help help = {
		.usage = "weir-test run FILE [OPTION]...\nweir-test list",
		.about = "Test what a very long description of a program looks like, when it does "
			 "not "
			 "fit a line.",
		.commands = commands,
		.notes = "Exit status: 0 done.\nAnother paragraph.",
		.examples = "weir-test list\nweir-test run x",
		.groups = GROUP_RUN,
	};
	char text[WEIR_HELP_BYTES];

	assert_string_equal(weir_help_text(&list, &help, text, sizeof(text)),
		"Usage: weir-test run FILE [OPTION]...\n"
		"       weir-test list\n"
		"\n"
		"Test what a very long description of a program looks like, when it does not fit\n"
		"a line.\n"
		"\n"
		"Commands:\n"
		"  run FILE  simulate\n"
		"  list      list the scenarios\n"
		"\n"
		"Options:\n"
		"  -c, --config FILE  configuration file that is read by each of the programs\n"
		"                     when it starts and again at SIGHUP (default:\n"
		"                     /etc/weir.json)\n"
		"      --format F     format of plots: svg or png (default: svg)\n"
		"      --case CASE    traffic\n"
		"                       new          SYNs of new flows into a full table, so that\n"
		"                                    each evicts an older one\n"
		"                       established  packets of flows in the table\n"
		"      --a-very-long-name-of-an-option VALUE\n"
		"                     rarely used; may be repeated\n"
		"\n"
		"How to measure:\n"
		"  -h, --help         print this help\n"
		"  -V, --version      print the version\n"
		"\n"
		"Exit status: 0 done.\n"
		"Another paragraph.\n"
		"\n"
		"Examples: weir-test list\n"
		"          weir-test run x\n");
}

TEST(help_shows_options_of_the_groups) {
	char text[WEIR_HELP_BYTES];

	weir_help_options(&list, GROUP_LIST, text, sizeof(text));
	assert_non_null(strstr(text, "--json"));
	assert_non_null(strstr(text, "--config"));
	assert_null(strstr(text, "--format"));
	assert_null(strstr(text, "How to measure"));
}

TEST(help_without_options_has_the_standard_ones) {
	static const struct weir_option_list none = {0};
	static const struct weir_help help = {
		.usage = "weir-test", .about = "Test.", .examples = "weir-test"};
	char text[WEIR_HELP_BYTES];

	assert_string_equal(weir_help_text(&none, &help, text, sizeof(text)),
		"Usage: weir-test\n\nTest.\n\nOptions:\n"
		"  -h, --help     print this help\n"
		"  -V, --version  print the version\n"
		"\nExample: weir-test\n");
}

TEST(help_is_truncated_to_its_buffer) {
	static const struct weir_help help = {
		.usage = "weir-test", .about = "Test.", .examples = "weir-test"};
	char whole[WEIR_HELP_BYTES], text[WEIR_HELP_BYTES];

	weir_help_text(&list, &help, whole, sizeof(whole));
	for (size_t bytes = 1; bytes <= strlen(whole) + 1; bytes++) {
		memset(text, 'x', sizeof(text));
		weir_help_text(&list, &help, text, bytes);
		assert_int_equal(strlen(text), bytes - 1);
		assert_int_equal(text[bytes], 'x');
		assert_memory_equal(text, whole, bytes - 1);
	}
}
