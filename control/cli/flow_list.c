// SPDX-License-Identifier: BSD-3-Clause
#include "flow_list.h"

#include <errno.h>
#include <string.h>

#include "flow_state.h"
#include "show.h"

#define CELL 128
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

static const struct weir_show_column columns[] = {
	{"PROTOCOL", "protocol", WEIR_SHOW_TEXT},
	{"CLIENT", "source", WEIR_SHOW_TEXT},
	{"VIP", "destination", WEIR_SHOW_TEXT},
	{"SERVICE", "service", WEIR_SHOW_TEXT},
	{"BACKEND", "backend", WEIR_SHOW_TEXT},
	{"STATE", "state", WEIR_SHOW_TEXT},
	{"IDLE", "idle_ms", WEIR_SHOW_DURATION},
	{"WORKER", "worker", WEIR_SHOW_NUMBER},
};

static const char *const states[] = {
#define X(name, key) key,
	WEIR_FLOW_STATES(X)
#undef X
};

// State of a list that is being printed.
struct list {
	struct weir_cli *cli;
	json_int_t left; // flows left to print until --limit; -1 = no limit
	bool incomplete; // a worker did not answer
	bool headed; // the header line was printed
	int width[COLUMNS]; // widths of the columns of the first page
};

// --- request --------------------------------------------------------------------------------

static int set_state(json_t *request, const char *text, char *why, size_t n) {
	for (size_t i = 0; text != NULL && i < WEIR_FLOW_STATE_COUNT; i++) {
		if (strcmp(text, states[i]) == 0) {
			return weir_cli_set_text(request, "state", "state", text, why, n);
		}
	}
	if (text == NULL) {
		return 0;
	}
	return weir_cli_unknown("state", text, NULL, states, WEIR_FLOW_STATE_COUNT, why, n);
}

int weir_flow_list_build(const struct weir_cli *cli, json_t *request, char *why, size_t n) {
	const struct weir_cli_options *options = cli->options;
	int r = weir_cli_set_owner(options, request, why, n);

	r = r ? r : weir_cli_set_text(request, "client", "client", options->client, why, n);
	r = r ? r : set_state(request, options->state, why, n);
	if (options->worker >= 0) {
		json_object_set_new(request, "worker", json_integer(options->worker));
	}
	return r;
}

// --- output ---------------------------------------------------------------------------------

static void add_endpoint(json_t *flow, const char *key, const char *port_key) {
	const char *address = json_string_value(json_object_get(flow, key));
	const json_t *port = json_object_get(flow, port_key);

	if (address != NULL) {
		json_object_set_new(flow, key,
			json_sprintf(strchr(address, ':') != NULL ? "[%s]:%" JSON_INTEGER_FORMAT
								  : "%s:%" JSON_INTEGER_FORMAT,
				address, json_integer_value(port)));
	}
}

// Print a row. Columns keep the width of the first page; a wider cell only makes its own line
// longer.
static void print_row(struct list *list, const char cells[COLUMNS][CELL]) {
	FILE *out = list->cli->out;

	for (size_t i = 0; i < COLUMNS; i++) {
		if (columns[i].kind == WEIR_SHOW_NUMBER) {
			fprintf(out, "%s%*s", i > 0 ? "  " : "", list->width[i], cells[i]);
		} else {
			fprintf(out, "%s%-*s", i > 0 ? "  " : "", list->width[i], cells[i]);
		}
	}
	fputc('\n', out);
}

static void print_head(struct list *list, json_t *flows) {
	char cells[COLUMNS][CELL];
	json_t *flow;
	size_t at;

	for (size_t i = 0; i < COLUMNS; i++) {
		snprintf(cells[i], CELL, "%s", columns[i].header);
		list->width[i] = (int)strlen(cells[i]);
	}
	json_array_foreach (flows, at, flow) {
		for (size_t i = 0; i < COLUMNS; i++) {
			char cell[CELL];
			int width = (int)strlen(weir_show_cell(flow, &columns[i], cell, CELL));

			list->width[i] = width > list->width[i] ? width : list->width[i];
		}
	}
	print_row(list, cells);
	list->headed = true;
}

static void print_table(struct list *list, json_t *flows) {
	char cells[COLUMNS][CELL];
	json_t *flow;
	size_t at;

	json_array_foreach (flows, at, flow) {
		add_endpoint(flow, "source", "source_port");
		add_endpoint(flow, "destination", "destination_port");
	}
	if (!list->headed && json_array_size(flows) > 0) {
		print_head(list, flows);
	}
	json_array_foreach (flows, at, flow) {
		for (size_t i = 0; i < COLUMNS; i++) {
			weir_show_cell(flow, &columns[i], cells[i], CELL);
		}
		print_row(list, cells);
	}
}

static void print_lines(struct list *list, const json_t *flows) {
	json_t *flow;
	size_t at;

	json_array_foreach (flows, at, flow) {
		json_dumpf(flow, list->cli->out, JSON_COMPACT | JSON_ENSURE_ASCII);
		fputc('\n', list->cli->out);
	}
}

// Print a page of flows, up to the limit.
static void print_page(struct list *list, const json_t *page) {
	json_t *flows = json_object_get(page, "flows");

	list->incomplete |= json_is_true(json_object_get(page, "incomplete"));
	while (list->left >= 0 && json_array_size(flows) > (size_t)list->left) {
		json_array_remove(flows, json_array_size(flows) - 1);
	}
	if (list->left >= 0) {
		list->left -= (json_int_t)json_array_size(flows);
	}
	if (list->cli->options->json) {
		print_lines(list, flows);
	} else {
		print_table(list, flows);
	}
	fflush(list->cli->out);
}

int weir_flow_list_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	json_t *request = weir_cli_build(cli, command);
	struct list list = {.cli = cli, .left = cli->options->limit > 0 ? cli->options->limit : -1};
	json_t *page;
	bool more = request != NULL;
	int r = more ? WEIR_CLI_DONE : WEIR_CLI_REFUSED;

	while (more) {
		r = weir_cli_request(cli, request, &page);
		if (r != WEIR_CLI_DONE) {
			break;
		}
		print_page(&list, page);
		json_object_set(request, "next", json_object_get(page, "next"));
		more = json_is_integer(json_object_get(page, "next")) && list.left != 0 &&
		       !ferror(cli->out);
		json_decref(page);
	}
	json_decref(request);
	if (r == WEIR_CLI_DONE && !list.headed && !list.incomplete && !cli->options->json) {
		fprintf(cli->out, "no flows\n");
	}
	if (list.incomplete) {
		fprintf(cli->err,
			"weirctl: the output is incomplete: a worker did not answer in time\n");
		r = r == WEIR_CLI_DONE ? WEIR_CLI_REFUSED : r;
	}
	return r;
}

void weir_flow_delete_show(const struct weir_cli *cli, json_t *result) {
	weir_show_removed(cli->out, result, "flow", "deleted");
}
