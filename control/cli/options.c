// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "nearest.h"
#include "terminal.h"

#define HOUR_MS 3600000

enum option_id { RUN_DIR, JSON, TIMEOUT, HELP, VERSION, SERVICE, WATCH, INTERVAL, COUNT, SUBSET };

static const struct option_name {
	const char *name;
	enum option_id id;
	bool value;
} option_names[] = {
	{"--run-dir", RUN_DIR, true},
	{"--json", JSON, false},
	{"--timeout", TIMEOUT, true},
	{"--help", HELP, false},
	{"--version", VERSION, false},
	{"--service", SERVICE, true},
	{"--watch", WATCH, false},
	{"--interval", INTERVAL, true},
	{"--count", COUNT, true},
	{"--clients", SUBSET, true},
	{"--backends", SUBSET, true},
	{"--size", SUBSET, true},
	{"--algorithm", SUBSET, true},
	{"--mode", SUBSET, true},
	{"--salt", SUBSET, true},
};

#define OPTIONS (sizeof(option_names) / sizeof(option_names[0]))

static const struct option_name *find_option(const char *text, size_t bytes) {
	for (size_t i = 0; i < OPTIONS; i++) {
		if (strlen(option_names[i].name) == bytes &&
			memcmp(option_names[i].name, text, bytes) == 0) {
			return &option_names[i];
		}
	}
	return NULL;
}

static int unknown_option(const char *text, char *why, size_t why_bytes) {
	const char *names[OPTIONS];
	const char *nearest;
	char shown[64];

	for (size_t i = 0; i < OPTIONS; i++) {
		names[i] = option_names[i].name;
	}
	nearest = weir_nearest(text, names, OPTIONS);
	snprintf(why, why_bytes, "unknown option %s%s%s%s",
		weir_terminal_text(text, shown, sizeof(shown)), nearest ? "; did you mean " : "",
		nearest ? nearest : "", nearest ? "?" : "");
	return -EINVAL;
}

static int parse_number(const char *option, const char *text, long least, long most, int *ret,
	char *why, size_t n) {
	char *end, shown[64];
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most) {
		snprintf(why, n, "%s: \"%s\" is not a number from %ld to %ld", option,
			weir_terminal_text(text, shown, sizeof(shown)), least, most);
		return -EINVAL;
	}
	*ret = (int)value;
	return 0;
}

static int parse_seconds(const char *option, const char *text, int *ret_ms, char *why, size_t n) {
	char *end, shown[64];
	double value = strtod(text, &end);

	if (end == text || *end || !isfinite(value) || value < 0.1 || value > HOUR_MS / 1000.0) {
		snprintf(why, n, "%s: \"%s\" is not a number of seconds from 0.1 to %d", option,
			weir_terminal_text(text, shown, sizeof(shown)), HOUR_MS / 1000);
		return -EINVAL;
	}
	*ret_ms = (int)lround(value * 1000);
	return 0;
}

static int set_option(struct weir_cli_options *options, const struct option_name *option,
	const char *value, char *why, size_t n) {
	switch (option->id) {
	case RUN_DIR:
		options->run_dir = value;
		if (!value[0]) {
			snprintf(why, n, "--run-dir: is empty");
			return -EINVAL;
		}
		return 0;
	case JSON:
		options->json = true;
		return 0;
	case TIMEOUT:
		return parse_number(option->name, value, 1, HOUR_MS, &options->timeout_ms, why, n);
	case HELP:
		options->help = true;
		return 0;
	case VERSION:
		options->version = true;
		return 0;
	case SERVICE:
		options->service = value;
		options->used |= WEIR_CLI_SERVICE;
		return 0;
	case WATCH:
		options->watch = true;
		options->used |= WEIR_CLI_WATCH;
		return 0;
	case INTERVAL:
		options->used |= WEIR_CLI_WATCH;
		return parse_seconds(option->name, value, &options->interval_ms, why, n);
	case SUBSET:
		options->used |= WEIR_CLI_SUBSET;
		return weir_subset_preview_option(&options->subset, option->name, value, why, n);
	default: // COUNT
		options->used |= WEIR_CLI_WATCH;
		return parse_number(option->name, value, 1, 1000000000, &options->count, why, n);
	}
}

// One argument, and its value when that is the next argument. *i is the argument's index.
static int parse_option(struct weir_cli_options *options, int argc, char **argv, int *i, char *why,
	size_t why_bytes) {
	const char *text = argv[*i];
	const char *equals = strchr(text, '=');
	const struct option_name *option =
		find_option(text, equals ? (size_t)(equals - text) : strlen(text));

	if (!option && strcmp(text, "-h") == 0) {
		options->help = true;
		return 0;
	}
	if (!option) {
		return unknown_option(text, why, why_bytes);
	}
	if (!option->value && equals) {
		snprintf(why, why_bytes, "%s takes no value", option->name);
		return -EINVAL;
	}
	if (option->value && !equals && *i + 1 >= argc) {
		snprintf(why, why_bytes, "%s needs a value", option->name);
		return -EINVAL;
	}
	if (option->value && !equals) {
		(*i)++;
		return set_option(options, option, argv[*i], why, why_bytes);
	}
	return set_option(options, option, equals ? equals + 1 : "", why, why_bytes);
}

int weir_cli_options_parse(int argc, char **argv, const char *environment_run_dir,
	struct weir_cli_options *ret, char *why, size_t why_bytes) {
	struct weir_cli_options options = {
		.run_dir = environment_run_dir && environment_run_dir[0] ? environment_run_dir
									 : WEIR_CLI_RUN_DIR,
		.timeout_ms = WEIR_CLI_TIMEOUT_MS,
		.interval_ms = 1000,
	};
	bool only_words = false;

	for (int i = 1; i < argc; i++) {
		if (!only_words && strcmp(argv[i], "--") == 0) {
			only_words = true;
		} else if (!only_words && argv[i][0] == '-' && argv[i][1]) {
			int rc = parse_option(&options, argc, argv, &i, why, why_bytes);

			if (rc) {
				return rc;
			}
		} else if (options.words == WEIR_CLI_WORDS) {
			snprintf(why, why_bytes, "too many arguments");
			return -EINVAL;
		} else {
			options.word[options.words++] = argv[i];
		}
	}
	*ret = options;
	return 0;
}

int weir_cli_endpoint_parse(const char *text, char *address, size_t bytes, uint16_t *ret_port) {
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;
	struct weir_address parsed;
	char copy[64], *end;
	bool brackets;
	long port;

	if (!colon || length >= sizeof(copy)) {
		return -EINVAL;
	}
	brackets = length > 2 && text[0] == '[' && text[length - 1] == ']';
	memcpy(copy, text + brackets, length - 2 * brackets);
	copy[length - 2 * brackets] = '\0';
	// Without brackets the last part of an IPv6 address would pass for a port.
	if (weir_address_parse(copy, &parsed) || (parsed.family == 6) != brackets) {
		return -EINVAL;
	}
	port = strtol(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || port < 0 || port > 65535 ||
		strlen(copy) >= bytes) {
		return -EINVAL;
	}
	memcpy(address, copy, strlen(copy) + 1);
	*ret_port = (uint16_t)port;
	return 0;
}
