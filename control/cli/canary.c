// SPDX-License-Identifier: BSD-3-Clause
#include "canary.h"

#include <errno.h>
#include <string.h>

#include "duration.h"
#include "plural.h"
#include "show.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))
#define CELL 256

// --- requests -------------------------------------------------------------------------------

static int set_names(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	static const char *const keys[] = {"service", "backend"};

	for (int i = 0; i < cli->count && i < 2; i++) {
		if (json_object_set_new(request, keys[i], json_string(cli->words[i]))) {
			snprintf(why, n, "the %s name is not valid UTF-8", keys[i]);
			return -EINVAL;
		}
	}
	return 0;
}

// Set a number in the request. value: 0 = the option was not given; the key is then left out, and
// weir-control uses its default.
static void set_real(json_t *request, const char *key, double value) {
	if (value > 0) {
		json_object_set_new(request, key, json_real(value));
	}
}

int weir_canary_build_start(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	const struct weir_cli_canary *canary = &cli->options->canary;

	if (canary->step_count > 0) {
		json_t *steps = json_array();

		for (int i = 0; i < canary->step_count; i++) {
			json_array_append_new(steps, json_real(canary->steps[i]));
		}
		json_object_set_new(request, "steps", steps);
	}
	set_real(request, "every_ms", canary->every_ms);
	set_real(request, "max_error_ratio", canary->error_ratio);
	set_real(request, "max_latency_ratio", canary->latency_ratio);
	set_real(request, "min_requests", canary->min_requests);
	return set_names(cli, request, why, n);
}

int weir_canary_build_stop(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	const struct weir_cli_canary *canary = &cli->options->canary;

	if (canary->promote && canary->rollback) {
		snprintf(why, n, "--promote and --rollback exclude each other");
		return -EINVAL;
	}
	if (canary->promote || canary->rollback) {
		json_object_set_new(
			request, "outcome", json_string(canary->promote ? "promote" : "rollback"));
	}
	return set_names(cli, request, why, n);
}

// --- text -----------------------------------------------------------------------------------

static const char *text(
	const json_t *object, const char *key, enum weir_show_kind kind, char buffer[CELL]) {
	return weir_show_value(json_object_get(object, key), kind, buffer, CELL);
}

static json_int_t integer(const json_t *object, const char *key) {
	return json_integer_value(json_object_get(object, key));
}

static double real(const json_t *object, const char *key) {
	return json_number_value(json_object_get(object, key));
}

// Print the percentages of the steps, such as "1, 5, 20 and 50 %".
static void print_steps(FILE *out, const json_t *steps) {
	const size_t count = json_array_size(steps);

	for (size_t i = 0; i < count; i++) {
		fprintf(out, "%s%g",
			i == 0           ? ""
			: i + 1 == count ? " and "
					 : ", ",
			json_number_value(json_array_get(steps, i)));
	}
	fprintf(out, " %%");
}

// Print a table with the requests, errors and latency in the current step: one row for the canary,
// and one for the other backends.
static void print_sides(FILE *out, const json_t *canary, json_t *rows) {
	const char *by = json_string_value(json_object_get(canary, "judged_by"));
	const bool flows = by != NULL && strcmp(by, "flows") == 0;
	const struct weir_show_column columns[] = {
		{"SIDE", "side", WEIR_SHOW_TEXT},
		{flows ? "NEW-FLOWS" : "REQUESTS", "requests", WEIR_SHOW_NUMBER},
		{"ERRORS", "errors", WEIR_SHOW_NUMBER},
		{"ERROR-%", "error_percent", WEIR_SHOW_PERCENT},
		{"LATENCY-MS", "latency_ms", WEIR_SHOW_PERCENT},
	};
	static const char *const sides[] = {"canary", "others"};

	for (size_t i = 0; i < COUNT(sides); i++) {
		json_t *row = json_deep_copy(json_object_get(canary, sides[i]));

		if (row != NULL) {
			json_object_set_new(row, "side", json_string(sides[i]));
			json_array_append_new(rows, row);
		}
	}
	weir_show_table(out, rows, columns, COUNT(columns), "");
}

static void print_running(FILE *out, const json_t *canary) {
	char left[CELL];
	json_t *rows = json_array();

	fprintf(out, "step %lld of %zu: %g %% of the new flows, weight %lld",
		(long long)integer(canary, "step"),
		json_array_size(json_object_get(canary, "steps")), real(canary, "percent"),
		(long long)integer(canary, "effective_weight"));
	if (json_is_true(json_object_get(canary, "prolonged"))) {
		const char *why = json_string_value(json_object_get(canary, "why"));

		fprintf(out, "; prolonged: %s", why != NULL ? why : "too few requests");
	} else if (json_is_integer(json_object_get(canary, "left_ms"))) {
		fprintf(out, "; %s left", text(canary, "left_ms", WEIR_SHOW_DURATION, left));
	}
	fputc('\n', out);
	print_sides(out, canary, rows);
	json_decref(rows);
}

// Print where the error counts come from, and whether HTTP errors are counted.
static void print_figures(FILE *out, const json_t *canary) {
	static const struct {
		const char *figures, *text;
	} texts[] = {
		{"passive",
			"flows without a response (HTTP errors are not counted, because no error "
			"rate is reported; see ORCA)"},
		{"agent", "connections that the servers reset (HTTP errors are not counted, unless "
			  "weir-agent reads ORCA)"},
		{"report", "reported by weirctl backend report"},
		{"orca", "reported by the servers (ORCA)"},
	};
	const char *figures = json_string_value(json_object_get(canary, "figures"));

	if (figures == NULL) {
		if (json_is_null(json_object_get(canary, "ended_ms"))) {
			fprintf(out, "errors: HTTP errors are counted only through ORCA or weirctl "
				     "backend report\n");
		}
		return;
	}
	for (size_t i = 0; i < COUNT(texts); i++) {
		if (strcmp(texts[i].figures, figures) == 0) {
			fprintf(out, "errors: %s\n", texts[i].text);
		}
	}
}

static void print_plan(FILE *out, const json_t *canary) {
	char every[WEIR_DURATION_BYTES];

	print_steps(out, json_object_get(canary, "steps"));
	fprintf(out,
		" for %s each; rollback above %g times the error rate or %g times\n"
		"the latency of the other backends, if the canary and the others each have at "
		"least %g requests\n",
		weir_duration_text((uint64_t)real(canary, "every_ms"), every),
		real(canary, "max_error_ratio"), real(canary, "max_latency_ratio"),
		real(canary, "min_requests"));
}

void weir_canary_show_one(const struct weir_cli *cli, json_t *canary) {
	char service[CELL], backend[CELL], state[CELL], why[CELL];
	const bool running = json_is_null(json_object_get(canary, "ended_ms"));
	FILE *out = cli->out;

	fprintf(out, "%s/%s: %s", text(canary, "service", WEIR_SHOW_TEXT, service),
		text(canary, "backend", WEIR_SHOW_TEXT, backend),
		text(canary, "state", WEIR_SHOW_TEXT, state));
	if (json_is_string(json_object_get(canary, "why"))) {
		fprintf(out, ": %s", text(canary, "why", WEIR_SHOW_TEXT, why));
	}
	fputc('\n', out);
	if (running) {
		print_running(out, canary);
	} else {
		fprintf(out, "ended in step %lld of %zu; weight %lld\n",
			(long long)integer(canary, "step"),
			json_array_size(json_object_get(canary, "steps")),
			(long long)integer(canary, "effective_weight"));
	}
	print_figures(out, canary);
	print_plan(out, canary);
	weir_show_warnings(out, canary);
}

void weir_canary_show_all(const struct weir_cli *cli, json_t *result) {
	json_t *canary;
	size_t i;

	json_array_foreach (result, i, canary) {
		weir_canary_show_one(cli, canary);
	}
}

void weir_canary_show_list(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_column columns[] = {
		{"SERVICE", "service", WEIR_SHOW_TEXT},
		{"BACKEND", "backend", WEIR_SHOW_TEXT},
		{"STATE", "state", WEIR_SHOW_TEXT},
		{"STEP", "of", WEIR_SHOW_TEXT},
		{"SHARE-%", "percent", WEIR_SHOW_PERCENT},
		{"WEIGHT", "effective_weight", WEIR_SHOW_NUMBER},
		{"LEFT", "left_ms", WEIR_SHOW_DURATION},
		{"WHY", "why", WEIR_SHOW_TEXT},
	};
	json_t *row;
	size_t i;

	json_array_foreach (result, i, row) {
		char of[48];

		snprintf(of, sizeof(of), "%lld of %zu", (long long)integer(row, "step"),
			json_array_size(json_object_get(row, "steps")));
		json_object_set_new(row, "of", json_string(of));
		if (!json_is_null(json_object_get(row, "ended_ms"))) {
			// The canary has ended, so the share of its last step no longer applies.
			json_object_del(row, "percent");
		}
	}
	weir_show_table(cli->out, result, columns, COUNT(columns), "no canaries");
}

static void show_plan(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_column columns[] = {
		{"STEP", "step", WEIR_SHOW_NUMBER},
		{"WANTED-%", "percent", WEIR_SHOW_PERCENT},
		{"WEIGHT", "weight", WEIR_SHOW_NUMBER},
		{"SHARE-%", "share_percent", WEIR_SHOW_PERCENT},
		{"FLOWS", "flows", WEIR_SHOW_NUMBER},
	};
	char service[CELL], backend[CELL], policy[CELL];
	const json_int_t weight = integer(result, "configured_weight");
	FILE *out = cli->out;

	fprintf(out,
		"%s/%s, policy %s: configured weight %lld, sum of the weights of the other "
		"backends %lld\n",
		text(result, "service", WEIR_SHOW_TEXT, service),
		text(result, "backend", WEIR_SHOW_TEXT, backend),
		text(result, "policy", WEIR_SHOW_TEXT, policy), (long long)weight,
		(long long)integer(result, "others_weight"));
	weir_show_table(out, json_object_get(result, "steps"), columns, COUNT(columns), "no steps");
	fprintf(out,
		"FLOWS: expected new flows per minute of this backend; the service had %lld new "
		"flow%s in the last minute.\n"
		"Errors and latency of the backend are unknown until it has flows.\n",
		(long long)integer(result, "flows"),
		weir_plural((uint64_t)integer(result, "flows")));
	if (weight == 0) {
		fprintf(out,
			"The configured weight is 0: a promoted backend keeps the weight of the "
			"last step.\n");
	}
}

int weir_canary_run_start(struct weir_cli *cli, const struct weir_cli_command *command) {
	struct weir_cli_command plan = *command;
	json_t *request, *result;
	int r;

	plan.request = "canary.plan";
	plan.show = show_plan;
	command = cli->options->dry_run ? &plan : command;
	request = weir_cli_build(cli, command);
	if (request == NULL) {
		return WEIR_CLI_REFUSED;
	}
	r = (cli->options->dry_run ? weir_cli_request : weir_cli_change)(cli, request, &result);
	json_decref(request);
	if (r == WEIR_CLI_DONE) {
		weir_cli_show(cli, command, result);
	}
	return r;
}
