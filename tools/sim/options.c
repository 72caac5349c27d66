// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option_value {
	OPTION_SEED = 256,
	OPTION_SEEDS,
	OPTION_JOBS,
	OPTION_JSON,
	OPTION_OUT,
	OPTION_FORMAT,
	OPTION_NO_PLOTS,
	OPTION_QUIET,
	OPTION_DIRECTORY,
};

static const struct option long_options[] = {
	{"seed", required_argument, NULL, OPTION_SEED},
	{"seeds", required_argument, NULL, OPTION_SEEDS},
	{"jobs", required_argument, NULL, OPTION_JOBS},
	{"json", no_argument, NULL, OPTION_JSON},
	{"out", required_argument, NULL, OPTION_OUT},
	{"format", required_argument, NULL, OPTION_FORMAT},
	{"no-plots", no_argument, NULL, OPTION_NO_PLOTS},
	{"quiet", no_argument, NULL, OPTION_QUIET},
	{"dir", required_argument, NULL, OPTION_DIRECTORY},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

#define RUNS_AND_LISTS (1u << WEIR_SIM_COMMAND_RUN | 1u << WEIR_SIM_COMMAND_LIST)

static const struct {
	const char *name;
	uint32_t operands;
} commands[] = {
#define X(name, key, operands) {key, operands},
	WEIR_SIM_COMMANDS(X)
#undef X
};

const char *weir_sim_usage(enum weir_sim_command command) {
	switch (command) {
	case WEIR_SIM_COMMAND_RUN:
		return "Usage: weir-sim run SCENARIO [OPTION]...\n"
		       "Simulate every variant of a scenario and print a table of the results.\n"
		       "SCENARIO is a file, or the name of one that weir-sim list shows.\n"
		       "\n"
		       "  --seed N       only this seed (default: 1, 2 ... as many as the "
		       "scenario\n"
		       "                 says)\n"
		       "  --seeds N      this many seeds\n"
		       "  --jobs N       runs at a time (default: the number of CPUs)\n"
		       "  --json         one JSON object instead of the table\n"
		       "  --out DIR      also write summary.csv, backends.csv, series.csv and the\n"
		       "                 scenario's plots to DIR, which is made if need be\n"
		       "  --format F     of plots: svg (default), png\n"
		       "  --no-plots     CSV files only; no gnuplot is needed\n"
		       "  --quiet        no progress bar (there is none either when standard "
		       "error\n"
		       "                 is no terminal)\n"
		       "  --dir DIR      look for scenarios there\n"
		       "\n"
		       "Examples: weir-sim run sre20\n"
		       "          weir-sim run sinkhole --seed 7 --out results\n"
		       "          weir-sim run mine.json --json | jq .variants[].name\n";
	case WEIR_SIM_COMMAND_LIST:
		return "Usage: weir-sim list [--dir DIR]\n"
		       "Name the scenarios that come with Weir, or those of DIR.\n"
		       "\n"
		       "Example: weir-sim list\n";
	case WEIR_SIM_COMMAND_CHECK:
		return "Usage: weir-sim check FILE\n"
		       "Say what is wrong with a scenario: line, path, reason.\n"
		       "\n"
		       "Example: weir-sim check mine.json\n";
	case WEIR_SIM_COMMAND_KEYS:
		return "Usage: weir-sim keys\n"
		       "Print every key of a scenario: path, range, default, meaning.\n"
		       "\n"
		       "Example: weir-sim keys | grep subset\n";
	default:
		return "Usage: weir-sim COMMAND [OPTION]...\n"
		       "Simulate clients and backends at fleet scale, with the policies of the\n"
		       "dataplane.\n"
		       "\n"
		       "  run SCENARIO   simulate, print a table, write CSV files and plots\n"
		       "  list           the scenarios that come with Weir\n"
		       "  check FILE     what is wrong with a scenario\n"
		       "  keys           every key of a scenario\n"
		       "  --help, --version\n"
		       "\n"
		       "weir-sim COMMAND --help tells more.\n"
		       "Exit status: 0 done, 1 refused or failed, 2 wrong usage.\n"
		       "\n"
		       "Examples: weir-sim list\n"
		       "          weir-sim run sre20 --out results\n";
	}
}

static int read_number(const char *option, const char *text, uint64_t most, uint64_t *ret,
	char *why, size_t why_bytes) {
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || errno != 0 || *end != '\0' || value == 0 ||
		value > most) {
		snprintf(why, why_bytes, "--%s %s: expected a number from 1 to %llu", option, text,
			(unsigned long long)most);
		return -EINVAL;
	}
	*ret = value;
	return 0;
}

static int read_format(
	struct weir_sim_options *options, const char *text, char *why, size_t why_bytes) {
	if (strcmp(text, "svg") != 0 && strcmp(text, "png") != 0) {
		snprintf(why, why_bytes, "--format %s: expected svg or png", text);
		return -EINVAL;
	}
	options->format = text;
	return 0;
}

static int read_option(struct weir_sim_options *options, int option, char *why, size_t why_bytes) {
	uint64_t number = 0;
	int error = 0;

	switch (option) {
	case OPTION_SEED:
		return read_number("seed", optarg, UINT64_MAX, &options->seed, why, why_bytes);
	case OPTION_SEEDS:
		error = read_number("seeds", optarg, 1000, &number, why, why_bytes);
		options->seeds = (uint32_t)number;
		return error;
	case OPTION_JOBS:
		error = read_number("jobs", optarg, 256, &number, why, why_bytes);
		options->jobs = (uint32_t)number;
		return error;
	case OPTION_FORMAT:
		return read_format(options, optarg, why, why_bytes);
	case OPTION_JSON:
		options->json = true;
		return 0;
	case OPTION_OUT:
		options->out = optarg;
		return 0;
	case OPTION_NO_PLOTS:
		options->no_plots = true;
		return 0;
	case OPTION_QUIET:
		options->quiet = true;
		return 0;
	case OPTION_DIRECTORY:
		options->directory = optarg;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	default:
		options->version = true;
		return 0;
	}
}

static int read_operands(
	struct weir_sim_options *options, int count, char **operand, char *why, size_t why_bytes) {
	int i = 0;

	while (count > 0 && i < WEIR_SIM_COMMAND_COUNT &&
		strcmp(operand[0], commands[i].name) != 0) {
		i++;
	}
	options->command = count > 0 ? (enum weir_sim_command)i : WEIR_SIM_COMMAND_COUNT;
	if (count > 0 && i == WEIR_SIM_COMMAND_COUNT) {
		snprintf(why, why_bytes, "there is no command \"%s\"", operand[0]);
		return -EINVAL;
	}
	if (options->help || options->version) {
		return 0;
	}
	if (count == 0) {
		snprintf(why, why_bytes, "which command?");
		return -EINVAL;
	}
	if ((uint32_t)count - 1 != commands[i].operands) {
		snprintf(why, why_bytes, "%s expects %u operand%s, got %d", commands[i].name,
			commands[i].operands, commands[i].operands == 1 ? "" : "s", count - 1);
		return -EINVAL;
	}
	options->operand = count > 1 ? operand[1] : NULL;
	return 0;
}

// An option that a command would not look at is a mistake.
static int check_options(const struct weir_sim_options *options, char *why, size_t why_bytes) {
	bool of_run = options->seed > 0 || options->seeds > 0 || options->jobs > 0 ||
		      options->json || options->out != NULL || options->format != NULL ||
		      options->no_plots || options->quiet;

	if (options->help || options->version) {
		return 0;
	}
	if (of_run && options->command != WEIR_SIM_COMMAND_RUN) {
		snprintf(why, why_bytes, "%s has no such option; see weir-sim %s --help",
			commands[options->command].name, commands[options->command].name);
		return -EINVAL;
	}
	if (options->directory != NULL && (RUNS_AND_LISTS >> options->command & 1) == 0) {
		snprintf(why, why_bytes, "--dir is for run and list");
		return -EINVAL;
	}
	if (options->out == NULL && (options->format != NULL || options->no_plots)) {
		snprintf(why, why_bytes, "--format and --no-plots need --out DIR");
		return -EINVAL;
	}
	return 0;
}

int weir_sim_options_read(
	int argc, char **argv, struct weir_sim_options *ret, char *why, size_t why_bytes) {
	struct weir_sim_options options = {0};
	int option, error = 0;

	optind = 0; // start anew, whoever used getopt before
	opterr = 0;
	while (error == 0 && (option = getopt_long(argc, argv, ":hV", long_options, NULL)) != -1) {
		if (option == ':') {
			snprintf(why, why_bytes, "%s needs an argument", argv[optind - 1]);
			error = -EINVAL;
		} else if (option == '?') {
			snprintf(why, why_bytes, "unknown option %s", argv[optind - 1]);
			error = -EINVAL;
		} else {
			error = read_option(&options, option, why, why_bytes);
		}
	}
	if (error == 0) {
		error = read_operands(&options, argc - optind, argv + optind, why, why_bytes);
	}
	if (error == 0) {
		error = check_options(&options, why, why_bytes);
	}
	if (error == 0) {
		*ret = options;
	}
	return error;
}
