// SPDX-License-Identifier: BSD-3-Clause
#include "drain.h"

#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 500
#define LINE_BYTES 512

// A drain whose end weirctl waits for.
struct wait {
	struct weir_cli *cli;
	json_t *request; // of backend.show
	char name[192]; // SERVICE/BACKEND
	bool terminal; // on a terminal: the line is overwritten
	double began_s;
	json_int_t first; // open flows at its start
	json_int_t shown; // open flows shown last; -1 = none shown yet
	int looks;
};

static double now_s(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static json_int_t flows_of(const json_t *row) {
	return json_integer_value(json_object_get(row, "open_flows"));
}

// --- output ---------------------------------------------------------------------------------

// Print a line that the next one overwrites. It is cut to the terminal's width, because wrapped
// lines cannot be overwritten.
static void rewrite(FILE *out, const char *line) {
	struct winsize size = {0};

	if (ioctl(fileno(out), TIOCGWINSZ, &size) || size.ws_col == 0) {
		size.ws_col = 80;
	}
	fprintf(out, "\r%.*s\033[K", size.ws_col - 1, line);
}

static void show_progress(struct wait *wait, const json_t *row) {
	const json_t *left = json_object_get(json_object_get(row, "drain"), "left_ms");
	bool used = json_is_true(json_object_get(row, "in_selection"));
	json_int_t flows = flows_of(row);
	char line[LINE_BYTES], deadline[64] = "";

	if (wait->cli->options->json) {
		return;
	}
	if (json_is_integer(left)) {
		snprintf(deadline, sizeof(deadline), ", %" JSON_INTEGER_FORMAT " s left",
			(json_integer_value(left) + 999) / 1000);
	}
	snprintf(line, sizeof(line),
		"%s: draining, %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " open flows%s%s",
		wait->name, flows, wait->first > flows ? wait->first : flows, deadline,
		used ? "; still gets new flows, because no backend of the service is ready" : "");
	if (wait->terminal) {
		rewrite(wait->cli->out, line);
	} else if (flows != wait->shown && wait->looks % 2 == 0) { // at most once a second
		fprintf(wait->cli->out, "%s\n", line);
		wait->shown = flows;
	}
	wait->looks++;
	fflush(wait->cli->out);
}

static void show_end(const struct wait *wait, const json_t *row, const char *state) {
	const char *admin = json_string_value(json_object_get(row, "admin"));
	double took_s = now_s() - wait->began_s;
	json_int_t flows = flows_of(row);
	FILE *out = wait->cli->out;

	if (wait->cli->options->json) {
		weir_cli_print_json(out, row);
		return;
	}
	fputs(wait->terminal ? "\r\033[K" : "", out);
	if (state == NULL) {
		fprintf(wait->cli->err, "weirctl: %s: the drain was ended: %s\n", wait->name,
			admin != NULL ? admin : "-");
	} else if (strcmp(state, "drained") == 0) {
		fprintf(out, "%s: drained after %.1f s\n", wait->name, took_s);
	} else {
		fprintf(out, "%s: deadline after %.1f s, %" JSON_INTEGER_FORMAT " open flow%s %s\n",
			wait->name, took_s, flows, flows == 1 ? "" : "s",
			strcmp(state, "dropped") == 0 ? "dropped (maintenance)" : "kept");
	}
}

// --- waiting --------------------------------------------------------------------------------

// The backend in the configuration, not a removed one of the same name. NULL: none.
static const json_t *find_row(const json_t *rows) {
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		if (!json_is_true(json_object_get(row, "leaving"))) {
			return row;
		}
	}
	return NULL;
}

// Poll once. Returns true when the wait is over, with its exit status.
static bool look(struct wait *wait, int *ret) {
	const char *state;
	const json_t *row;
	json_t *rows;
	bool over = true;

	*ret = weir_cli_request(wait->cli, wait->request, &rows);
	if (*ret != WEIR_CLI_DONE) {
		return true;
	}
	row = find_row(rows);
	state = json_string_value(json_object_get(json_object_get(row, "drain"), "state"));
	if (row == NULL) {
		fprintf(wait->cli->err, "weirctl: %s was removed from the configuration\n",
			wait->name);
		*ret = WEIR_CLI_REFUSED;
	} else if (state != NULL && strcmp(state, "draining") == 0) {
		show_progress(wait, row);
		over = false;
	} else {
		show_end(wait, row, state);
		*ret = state == NULL                                     ? WEIR_CLI_REFUSED
		       : strcmp(state, "kept") == 0 && flows_of(row) > 0 ? WEIR_CLI_FLOWS_LEFT
									 : WEIR_CLI_DONE;
	}
	json_decref(rows);
	return over;
}

static int wait_for_end(struct weir_cli *cli, const json_t *begun) {
	const char *service = json_string_value(json_object_get(begun, "service"));
	const char *backend = json_string_value(json_object_get(begun, "backend"));
	struct wait wait = {.cli = cli,
		.terminal = isatty(fileno(cli->out)) && !cli->options->json,
		.began_s = now_s(),
		.first = flows_of(begun),
		.shown = -1};
	int r;

	wait.request = json_pack("{s:s, s:s*, s:s*}", "command", "backend.show", "service", service,
		"backend", backend);
	if (wait.request == NULL || service == NULL || backend == NULL) {
		fprintf(cli->err, "weirctl: out of memory\n");
		json_decref(wait.request);
		return WEIR_CLI_REFUSED;
	}
	snprintf(wait.name, sizeof(wait.name), "%s/%s", service, backend);
	while (!look(&wait, &r) && !ferror(cli->out)) {
		weir_cli_wait_ms(POLL_MS);
	}
	json_decref(wait.request);
	if (r == WEIR_CLI_UNREACHABLE) {
		fprintf(cli->err,
			"weirctl: the drain continues without weirctl; see \"weirctl backend show "
			"%s\"\n",
			wait.name);
	}
	return r;
}

int weir_drain_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	json_t *request = weir_cli_build(cli, command), *begun;
	int r;

	if (request == NULL) {
		return WEIR_CLI_REFUSED;
	}
	r = weir_cli_request(cli, request, &begun);
	json_decref(request);
	if (r != WEIR_CLI_DONE) {
		return r;
	}
	if (!cli->options->json) {
		command->show(cli, begun);
		fflush(cli->out);
	} else if (!cli->options->wait) {
		weir_cli_print_json(cli->out, begun);
	}
	if (cli->options->wait) {
		r = wait_for_end(cli, begun);
	}
	json_decref(begun);
	return r;
}
