// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "help_text.h"

#define SEEDS_MAX 1000
#define JOBS_MAX 256

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_sim_options, member)

enum { GROUP_RUN = 1 << WEIR_SIM_COMMAND_RUN, GROUP_LIST = 1 << WEIR_SIM_COMMAND_LIST };

// --- tables -------------------------------------------------------------------------------

#define X(name, key) {key, WEIR_SIM_FORMAT_##name, NULL},
static const struct weir_option_word formats[] = {WEIR_SIM_FORMATS(X){NULL, 0, NULL}};
#undef X

// The commands, in the order of enum weir_sim_command.
static const struct weir_option_word commands[] = {
	{"run SCENARIO", WEIR_SIM_COMMAND_RUN,
		"simulate a scenario, print a table, write CSV files and plots"},
	{"list", WEIR_SIM_COMMAND_LIST, "list the scenarios that come with Weir"},
	{"check FILE", WEIR_SIM_COMMAND_CHECK, "check a scenario file, and report errors"},
	{"keys", WEIR_SIM_COMMAND_KEYS, "list every key of a scenario"},
	{NULL, 0, NULL},
};

static const uint32_t operands_of[] = {
#define X(name, key, operands) operands,
	WEIR_SIM_COMMANDS(X)
#undef X
};

enum { ROW_OUT = 4, ROW_FORMAT, ROW_NO_PLOTS };

static const struct weir_option rows[] = {
	WEIR_OPTION_ROW(NUMBER, "seed", "N",
		"simulate only this seed; with --seeds, the first seed", FIELD(seed),
		.fallback = "1, 2 ..., one for each run of the scenario", .min = 1,
		.max = UINT64_MAX, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(NUMBER, "seeds", "N", "number of seeds", FIELD(seeds), .min = 1,
		.max = SEEDS_MAX, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(NUMBER, "jobs", "N", "number of parallel runs", FIELD(jobs),
		.fallback = "number of CPUs", .min = 1, .max = JOBS_MAX, .groups = GROUP_RUN),
	WEIR_OPTION_ROW(FLAG, "json", NULL, "print one JSON object instead of the table",
		FIELD(json), .groups = GROUP_RUN),
	[ROW_OUT] = WEIR_OPTION_ROW(TEXT, "out", "DIR",
		"also write summary.csv, backends.csv, series.csv and the scenario's plots to DIR, "
		"which is created if it does not exist",
		FIELD(out), .groups = GROUP_RUN),
	[ROW_FORMAT] = WEIR_OPTION_ROW(WORD, "format", "FORMAT", "format of plots", FIELD(format),
		.fallback = "svg", .words = formats, .groups = GROUP_RUN),
	[ROW_NO_PLOTS] = WEIR_OPTION_ROW(FLAG, "no-plots", NULL,
		"write only the CSV files (does not need gnuplot)", FIELD(no_plots),
		.groups = GROUP_RUN),
	WEIR_OPTION_ROW(FLAG, "quiet", NULL,
		"do not show a progress bar (it is shown only if standard error is a terminal)",
		FIELD(quiet), .groups = GROUP_RUN),
	WEIR_OPTION_ROW(TEXT, "dir", "DIR", "directory of the scenarios", FIELD(directory),
		.fallback = "installed directory", .groups = GROUP_RUN | GROUP_LIST),
};

static const struct weir_option_list list = {
	.row = rows, .count = sizeof(rows) / sizeof(rows[0]), .operands_max = WEIR_OPERANDS_MAX};

#define NO_GROUP (1u << WEIR_SIM_COMMAND_COUNT)

static const struct weir_help helps[] = {
	[WEIR_SIM_COMMAND_RUN] = {.usage = "weir-sim run SCENARIO [OPTION]...",
		.about = "Simulate every variant of a scenario and print a table of the results. "
			 "SCENARIO is a file, or a name that weir-sim list shows.",
		.examples = "weir-sim run sre20\n"
			    "weir-sim run sinkhole --seed 7 --out results\n"
			    "weir-sim run mine.json --json | jq .variants[].name",
		.groups = GROUP_RUN},
	[WEIR_SIM_COMMAND_LIST] = {.usage = "weir-sim list [--dir DIR]",
		.about = "List the scenarios that come with Weir, or the scenarios in DIR.",
		.examples = "weir-sim list",
		.groups = GROUP_LIST},
	[WEIR_SIM_COMMAND_CHECK] = {.usage = "weir-sim check FILE",
		.about = "Report the errors in a scenario file: line, path of the key, reason.",
		.examples = "weir-sim check mine.json",
		.groups = NO_GROUP},
	[WEIR_SIM_COMMAND_KEYS] = {.usage = "weir-sim keys",
		.about = "List every key of a scenario: path, range, default, meaning.",
		.examples = "weir-sim keys | grep subset",
		.groups = NO_GROUP},
	[WEIR_SIM_COMMAND_COUNT] = {.usage = "weir-sim COMMAND [OPTION]...",
		.about = "Simulate clients and backends at fleet scale, with the policies of the "
			 "dataplane.",
		.commands = commands,
		.notes = "\"weir-sim COMMAND --help\" shows the options of a command.\n"
			 "Exit status: 0 success, 1 invalid scenario or failure, 2 invalid usage.",
		.examples = "weir-sim list\nweir-sim run sre20 --out results",
		.groups = NO_GROUP},
};

const char *weir_sim_help(enum weir_sim_command command, char *buffer, size_t bytes) {
	return weir_help_text(&list, &helps[command], buffer, bytes);
}

const char *weir_sim_help_words(enum weir_sim_command command, char *buffer, size_t bytes) {
	return weir_help_words("weir-sim",
		command < WEIR_SIM_COMMAND_COUNT ? commands[command].name : NULL, buffer, bytes);
}

const char *weir_sim_format_name(enum weir_sim_format format) {
	return formats[format].name;
}

// --- parsing ------------------------------------------------------------------------------

static int check_operands(struct weir_sim_options *options, const struct weir_command_line *line,
	char *why, size_t why_bytes) {
	int wanted = (int)operands_of[options->command];

	if (line->operands - 1 < wanted) {
		snprintf(why, why_bytes, "an argument is missing; use weir-sim %s",
			commands[options->command].name);
		return -EINVAL;
	}
	if (line->operands - 1 > wanted) {
		snprintf(why, why_bytes, "too many arguments; use weir-sim %s",
			commands[options->command].name);
		return -EINVAL;
	}
	options->operand = wanted > 0 ? line->operand[1] : NULL;
	return 0;
}

static int check(struct weir_sim_options *options, const struct weir_command_line *line, char *why,
	size_t why_bytes) {
	int r = check_operands(options, line, why, why_bytes);

	if (r == 0) {
		r = weir_command_line_check(
			&list, line, 1u << options->command, line->operand[0], why, why_bytes);
	}
	if (r == 0 && (line->given >> ROW_OUT & 1) == 0 &&
		(line->given & (1u << ROW_FORMAT | 1u << ROW_NO_PLOTS)) != 0) {
		snprintf(why, why_bytes, "--format and --no-plots need --out DIR");
		r = -EINVAL;
	}
	return r;
}

int weir_sim_options_parse(
	int argc, char **argv, struct weir_sim_options *ret, char *why, size_t why_bytes) {
	struct weir_sim_options options = {0};
	struct weir_command_line line;
	int command = WEIR_SIM_COMMAND_COUNT;
	int r = weir_command_line_parse(&list, argc, argv, &options, &line, why, why_bytes);
	char ignored[128];

	if (r < 0) { // the operands before the error name the command
		(void)weir_command_line_command(
			commands, &line, &command, ignored, sizeof(ignored));
		ret->command = (enum weir_sim_command)command;
		return r;
	}
	options.help = line.help;
	options.version = line.version;
	if (line.operands > 0 || !(line.help || line.version)) {
		r = weir_command_line_command(commands, &line, &command, why, why_bytes);
	}
	options.command = ret->command = (enum weir_sim_command)command;
	if (r == 0 && !line.help && !line.version) {
		r = check(&options, &line, why, why_bytes);
	}
	if (r == 0) {
		*ret = options;
	}
	return r;
}
