// SPDX-License-Identifier: BSD-3-Clause
//
// Output for workers, and for bucket stealing between them.
#include "show.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

// "stealing on", or off, with the reason if given. Prints nothing if the daemon does not support
// it.
static void show_state(FILE *out, const json_t *object) {
	const json_t *stealing = json_object_get(object, "stealing");
	const json_t *why = json_object_get(object, "stealing_why");
	char state[32], reason[160];

	if (!json_is_string(stealing)) {
		return;
	}
	fprintf(out, "stealing %s",
		weir_show_value(stealing, WEIR_SHOW_TEXT, state, sizeof(state)));
	if (json_is_string(why)) {
		fprintf(out, ": %s", weir_show_value(why, WEIR_SHOW_TEXT, reason, sizeof(reason)));
	}
	fputc('\n', out);
}

void weir_show_workers(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_column columns[] = {
		{"WORKER", "worker", WEIR_SHOW_NUMBER},
		{"CORE", "core", WEIR_SHOW_NUMBER},
		{"ALIVE", "alive", WEIR_SHOW_FLAG},
		{"BUSY-%", "busy_percent", WEIR_SHOW_PERCENT},
		{"BUCKETS", "buckets", WEIR_SHOW_NUMBER},
		{"TAKEN", "buckets_taken", WEIR_SHOW_NUMBER},
		{"GIVEN", "buckets_given", WEIR_SHOW_NUMBER},
		{"REFUSED", "refusals", WEIR_SHOW_NUMBER},
		{"HOTTEST-%", "hottest_percent", WEIR_SHOW_PERCENT},
		{"RX-PACKETS", "rx_packets", WEIR_SHOW_NUMBER},
		{"TX-PACKETS", "tx_packets", WEIR_SHOW_NUMBER},
		{"FORWARDED", "forwarded", WEIR_SHOW_NUMBER},
		{"REPLIED", "replied", WEIR_SHOW_NUMBER},
		{"TO-KERNEL", "to_kernel", WEIR_SHOW_NUMBER},
		{"HANDED-OVER", "handed_over", WEIR_SHOW_NUMBER},
		{"DROPPED", "dropped", WEIR_SHOW_NUMBER},
		{"FLOWS", "flows", WEIR_SHOW_NUMBER},
		{"HALF-OPEN", "flows_half_open", WEIR_SHOW_NUMBER},
		{"UNTRACKED", "flow_untracked", WEIR_SHOW_NUMBER},
	};

	weir_show_table(cli->out, result, columns, COUNT(columns), "no workers");
	show_state(cli->out, json_array_get(result, 0));
}

// A stalled worker loses packets, so a script must notice it.
int weir_worker_show_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	json_t *request = weir_cli_build(cli, command), *result = NULL, *row;
	int r = request != NULL ? weir_cli_request(cli, request, &result) : WEIR_CLI_REFUSED;
	size_t i, stalled = 0, workers = json_array_size(result);

	json_decref(request);
	if (r != WEIR_CLI_DONE) {
		return r;
	}
	json_array_foreach (result, i, row) {
		stalled += json_is_false(json_object_get(row, "alive"));
	}
	weir_cli_show(cli, command, result);
	if (stalled > 0) {
		fprintf(cli->err, "weirctl: %zu of %zu worker%s stalled: see weirctl status\n",
			stalled, workers, workers == 1 ? "" : "s");
	}
	return stalled > 0 ? WEIR_CLI_REFUSED : WEIR_CLI_DONE;
}

void weir_show_stealing(const struct weir_cli *cli, json_t *result) {
	show_state(cli->out, result);
}
