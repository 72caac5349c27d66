// SPDX-License-Identifier: BSD-3-Clause
#include "shed.h"

#include <errno.h>
#include <string.h>

#include "duration.h"
#include "plural.h"
#include "show.h"

#define CELL 256
// Limits of --rate in connections per second; weir-control has the same limits.
#define RATE_LEAST 0.2
#define RATE_MOST 1000

// --- requests -------------------------------------------------------------------------------

// Add the backend "[SERVICE/]NAME" to the request. Returns 0, or -EINVAL and one line in why.
static int set_backend(const char *word, json_t *request, char *why, size_t n) {
	if (weir_cli_set_backend(request, word) || json_object_get(request, "backend") == NULL) {
		snprintf(why, n, "expected one backend as NAME or SERVICE/NAME");
		return -EINVAL;
	}
	return 0;
}

static void set_number(json_t *request, const char *key, double value) {
	if (value > 0) {
		json_object_set_new(request, key, json_real(value));
	}
}

int weir_shed_build(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	const struct weir_cli_options *options = cli->options;

	if (options->shed.stop == options->shed.to_mean) {
		snprintf(why, n, "give either --to-mean, to start a shed, or --stop");
		return -EINVAL;
	}
	if (options->shed.stop && (options->rate >= 0 || options->shed.idle_ms > 0 ||
					  options->for_ms > 0 || options->dry_run)) {
		snprintf(why, n, "--stop cannot be used with other options of backend shed");
		return -EINVAL;
	}
	if (options->rate >= 0 && (options->rate < RATE_LEAST || options->rate > RATE_MOST)) {
		snprintf(why, n, "--rate: use %g to %d connections per second", RATE_LEAST,
			RATE_MOST);
		return -EINVAL;
	}
	set_number(request, "rate", options->rate);
	set_number(request, "idle_ms", options->shed.idle_ms);
	set_number(request, "for_ms", options->for_ms);
	return set_backend(cli->words[0], request, why, n);
}

// --- text -----------------------------------------------------------------------------------

static json_int_t integer(const json_t *object, const char *key) {
	return json_integer_value(json_object_get(object, key));
}

static bool is(const json_t *object, const char *key, const char *text) {
	const char *value = json_string_value(json_object_get(object, key));

	return value != NULL && strcmp(value, text) == 0;
}

static const char *text(const json_t *object, const char *key, char buffer[CELL]) {
	return weir_show_value(json_object_get(object, key), WEIR_SHOW_TEXT, buffer, CELL);
}

const char *weir_shed_text(const json_t *shed, char *buffer, size_t bytes) {
	char state[CELL], why[CELL];
	const json_int_t ended = integer(shed, "ended");

	snprintf(buffer, bytes, "%s, %lld connection%s ended%s, %lld still above the mean%s%s",
		text(shed, "state", state), (long long)ended, weir_plural((uint64_t)ended),
		is(shed, "method", "hook") ? " by the hook" : "", (long long)integer(shed, "above"),
		json_is_string(json_object_get(shed, "why")) ? ": " : "",
		json_is_string(json_object_get(shed, "why")) ? text(shed, "why", why) : "");
	return buffer;
}

// Prints how many connections the agent can end.
static void print_agent(FILE *out, const json_t *shed) {
	const json_int_t connections = integer(shed, "connections");
	const json_int_t candidates = integer(shed, "candidates");
	const double idle_s = json_number_value(json_object_get(shed, "idle_ms")) / 1000;

	if (is(shed, "method", "idle")) {
		fprintf(out,
			"weir-agent ends idle connections: of %lld established connection%s, %lld "
			"had no data for %g s\n",
			(long long)connections, weir_plural((uint64_t)connections),
			(long long)candidates, idle_s);
	} else if (is(shed, "method", "hook")) {
		fprintf(out,
			"weir-agent runs its hook: of %lld established connection%s, %lld have not "
			"been passed to the hook\n",
			(long long)connections, weir_plural((uint64_t)connections),
			(long long)candidates);
	}
}

// Print the number of flows, the mean and the limits of a shed.
static void print_plan(FILE *out, const json_t *shed) {
	const double rate = json_number_value(json_object_get(shed, "rate"));
	const double for_ms = json_number_value(json_object_get(shed, "for_ms"));
	const json_int_t flows = integer(shed, "flows"), most = integer(shed, "most");
	char duration[WEIR_DURATION_BYTES];

	fprintf(out,
		"%lld open flow%s, %lld above the mean for the backend's weight (%lld)\n"
		"limits: %g connections ended per second, %lld in total, within %s\n",
		(long long)flows, weir_plural((uint64_t)flows), (long long)integer(shed, "above"),
		(long long)integer(shed, "mean"), rate, (long long)most,
		weir_duration_text((uint64_t)for_ms, duration));
}

static void print_shed(const struct weir_cli *cli, const json_t *shed, const char *line) {
	char service[CELL], backend[CELL];

	fprintf(cli->out, "%s/%s: %s\n", text(shed, "service", service),
		text(shed, "backend", backend), line);
	print_plan(cli->out, shed);
	print_agent(cli->out, shed);
}

void weir_shed_show(const struct weir_cli *cli, json_t *shed) {
	char line[CELL * 2];

	print_shed(cli, shed, weir_shed_text(shed, line, sizeof(line)));
}

static void show_plan(const struct weir_cli *cli, json_t *shed) {
	print_shed(cli, shed, "dry run, no connection was ended");
}

int weir_shed_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	struct weir_cli_command chosen = *command;
	json_t *request, *result;
	int r;

	if (cli->options->shed.stop) {
		chosen.request = "shed.stop";
	} else if (cli->options->dry_run) {
		chosen.request = "shed.plan";
		chosen.show = show_plan;
	}
	request = weir_cli_build(cli, &chosen);
	if (request == NULL) {
		return WEIR_CLI_REFUSED;
	}
	r = (cli->options->dry_run ? weir_cli_request : weir_cli_change)(cli, request, &result);
	json_decref(request);
	if (r == WEIR_CLI_DONE) {
		weir_cli_show(cli, &chosen, result);
	}
	return r;
}
