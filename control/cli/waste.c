// SPDX-License-Identifier: BSD-3-Clause
#include "waste.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "duration.h"
#include "plural.h"
#include "show_narrow.h"
#include "terminal.h"

// Maximum number of backends shown. If there are more, the 12 most used and the 12 least used are
// shown.
#define SHOWN 24u
#define NAME_MOST 32
#define BAR_LEAST 10
#define WIDTH 80
#define CELL 80
#define WAIT_MOST_MS 5000 // maximum time to wait for reports of agents that start to measure

static double value(const json_t *row, const char *key) {
	return json_number_value(json_object_get(row, key));
}

static int compare_used(const void *one, const void *other) {
	double a = value(*(json_t *const *)one, "utilization");
	double b = value(*(json_t *const *)other, "utilization");

	return a > b ? -1 : a < b;
}

static const char *name_of(const json_t *row, char *buffer) {
	return weir_show_value(json_object_get(row, "backend"), WEIR_SHOW_TEXT, buffer, CELL);
}

static void repeat(FILE *out, char what, int times) {
	for (int i = 0; i < times; i++) {
		fputc(what, out);
	}
}

// Print a bar: '#' is used capacity, '.' is wasted capacity. most: utilization of the most used
// backend. bar: width of the whole bar.
static void print_bar(
	FILE *out, const json_t *row, double most, int name_width, int bar, bool colour) {
	double used = value(row, "utilization");
	int filled = most > 0 ? (int)lround(bar * used / most) : 0;
	char name[CELL];

	filled = filled < 0 ? 0 : filled > bar ? bar : filled;
	fprintf(out, "%-*.*s  %6.1f  %6.1f  ", name_width, name_width, name_of(row, name),
		100 * used, 100 * value(row, "wasted"));
	fputs(colour ? "\033[32m" : "", out);
	repeat(out, '#', filled);
	fputs(colour ? "\033[0m\033[31m" : "", out);
	repeat(out, '.', bar - filled);
	fputs(colour ? "\033[0m" : "", out);
	fputc('\n', out);
}

static void print_rest(FILE *out, json_t *const *rest, size_t count) {
	double wasted = 0;

	for (size_t i = 0; i < count; i++) {
		wasted += value(rest[i], "wasted");
	}
	fprintf(out, "... %zu more: utilization %.1f to %.1f %%, wasted %.1f %% in total\n", count,
		100 * value(rest[count - 1], "utilization"), 100 * value(rest[0], "utilization"),
		100 * wasted);
}

static void print_chart(
	FILE *out, json_t *const *rows, size_t count, double most, int width, bool colour) {
	size_t head = count > SHOWN ? SHOWN / 2 : count;
	int name_width = (int)strlen("BACKEND"), bar;
	char name[CELL];

	for (size_t i = 0; i < count; i++) {
		int own = (int)strlen(name_of(rows[i], name));

		if (i < head ||
			i >= count - (count - head < SHOWN / 2 ? count - head : SHOWN / 2)) {
			name_width = own > name_width ? own : name_width;
		}
	}
	name_width = name_width < NAME_MOST ? name_width : NAME_MOST;
	bar = width - 1 - (name_width + 2 + 6 + 2 + 6 + 2);
	bar = bar > BAR_LEAST ? bar : BAR_LEAST;
	fprintf(out, "%-*s  USED-%%  WASTE%%\n", name_width, "BACKEND");
	for (size_t i = 0; i < head; i++) {
		print_bar(out, rows[i], most, name_width, bar, colour);
	}
	if (count > SHOWN) {
		print_rest(out, rows + head, count - SHOWN);
	}
	for (size_t i = count > SHOWN ? count - SHOWN / 2 : count; i < count; i++) {
		print_bar(out, rows[i], most, name_width, bar, colour);
	}
}

static void print_nothing(FILE *out, const json_t *result, const char *service, size_t backends) {
	double again_ms = value(result, "again_ms");
	char again[WEIR_DURATION_BYTES];

	fprintf(out, "%s: no utilization reported (0 of %zu backend%s)", service, backends,
		weir_plural(backends));
	if (again_ms > 0) {
		fprintf(out, "; weirctl has just requested it from the agents: try again in %s\n",
			weir_duration_text((uint64_t)(ceil(again_ms / 1000) * 1000), again));
	} else {
		fprintf(out, "; report it through weir-agent, health checks or weirctl backend "
			     "report\n");
	}
}

void weir_waste_print(FILE *out, const json_t *result, int width, bool colour) {
	const json_t *backends = json_object_get(result, "backends");
	json_t **known = calloc(json_array_size(backends) + 1, sizeof(*known));
	double most = value(result, "most");
	char service[CELL];
	size_t count = 0, i;
	json_t *row;

	if (known == NULL) {
		return;
	}
	json_array_foreach (backends, i, row) {
		if (json_is_number(json_object_get(row, "utilization"))) {
			known[count++] = row;
		}
	}
	weir_show_value(json_object_get(result, "service"), WEIR_SHOW_TEXT, service, CELL);
	if (count == 0) {
		print_nothing(out, result, service, json_array_size(backends));
		free(known);
		return;
	}
	qsort(known, count, sizeof(*known), compare_used);
	fprintf(out,
		"%s: %zu of %zu backend%s report%s utilization: mean %.1f %%, maximum %.1f %%\n",
		service, count, json_array_size(backends), weir_plural(json_array_size(backends)),
		count == 1 ? "s" : "", 100 * value(result, "mean"), 100 * most);
	fprintf(out,
		"wasted: %.1f %% of the capacity of one backend; this is %.1f %% of the total "
		"usage if every backend uses %.1f %%\n\n",
		100 * value(result, "wasted"),
		most > 0 ? 100 * value(result, "wasted") / (most * (double)count) : 0, 100 * most);
	print_chart(out, known, count, most, width, colour);
	free(known);
}

void weir_waste_show(const struct weir_cli *cli, json_t *result) {
	int width = (int)weir_show_width(cli->out); // width of the terminal; 0 = not a terminal

	weir_waste_print(cli->out, result, width > 0 ? width : WIDTH, width > 0);
}

// Send the request, and send it again if the reply says that agents have just begun to measure
// utilization, and will report within WAIT_MOST_MS. *ret: the last reply. Returns enum
// weir_cli_exit.
static int request_twice(struct weir_cli *cli, const json_t *request, json_t **ret) {
	int r = weir_cli_request(cli, request, ret);
	json_int_t again_ms;

	if (r != WEIR_CLI_DONE) {
		return r;
	}
	again_ms = json_integer_value(json_object_get(*ret, "again_ms"));
	if (again_ms <= 0 || again_ms > WAIT_MOST_MS) {
		return r;
	}
	if (isatty(fileno(cli->err))) {
		char text[WEIR_DURATION_BYTES];

		fprintf(cli->err, "weirctl: requesting reports from the agents of %s for %s\n",
			cli->words[0], weir_duration_text((uint64_t)again_ms, text));
	}
	json_decref(*ret);
	weir_cli_wait_ms((int)again_ms);
	return weir_cli_request(cli, request, ret);
}

int weir_waste_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	json_t *request = weir_cli_build(cli, command), *result;
	int r;

	if (request == NULL) {
		return WEIR_CLI_REFUSED;
	}
	r = request_twice(cli, request, &result);
	json_decref(request);
	if (r == WEIR_CLI_DONE) {
		weir_cli_show(cli, command, result);
	}
	return r;
}
