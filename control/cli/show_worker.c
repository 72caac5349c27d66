// SPDX-License-Identifier: BSD-3-Clause
//
// Prints workers, the state of bucket stealing between workers, and ports.
#include "show_narrow.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

// Print "stealing on" or "stealing off", with the reason if there is one. Prints nothing if this
// version of weir-control does not report the state of stealing.
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
	static const struct weir_show_choice choices[] = {
		{{"WORKER", "worker", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"CORE", "core", WEIR_SHOW_NUMBER}, NULL, 12},
		{{"ALIVE", "alive", WEIR_SHOW_FLAG}, NULL, 0},
		{{"BUSY-%", "busy_percent", WEIR_SHOW_PERCENT}, NULL, 0},
		{{"BUCKETS", "buckets", WEIR_SHOW_NUMBER}, "-", 10},
		{{"TAKEN", "buckets_taken", WEIR_SHOW_NUMBER}, "-", 3},
		{{"GIVEN", "buckets_given", WEIR_SHOW_NUMBER}, "-", 2},
		{{"REFUSED", "refusals", WEIR_SHOW_NUMBER}, "-", 1},
		{{"HOTTEST-%", "hottest_percent", WEIR_SHOW_PERCENT}, "-", 4},
		{{"RX-PACKETS", "rx_packets", WEIR_SHOW_NUMBER}, NULL, 14},
		{{"TX-PACKETS", "tx_packets", WEIR_SHOW_NUMBER}, NULL, 9},
		{{"FORWARDED", "forwarded", WEIR_SHOW_NUMBER}, NULL, 13},
		{{"REPLIED", "replied", WEIR_SHOW_NUMBER}, "0", 5},
		{{"TO-KERNEL", "to_kernel", WEIR_SHOW_NUMBER}, "0", 8},
		{{"HANDED-OVER", "handed_over", WEIR_SHOW_NUMBER}, "0", 7},
		{{"DROPPED", "dropped", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"FLOWS", "flows", WEIR_SHOW_NUMBER}, NULL, 15},
		{{"HALF-OPEN", "flows_half_open", WEIR_SHOW_NUMBER}, NULL, 11},
		{{"UNTRACKED", "flow_untracked", WEIR_SHOW_NUMBER}, "0", 6},
	};

	weir_show_list(cli->out, result, choices, COUNT(choices), "no workers");
	show_state(cli->out, json_array_get(result, 0));
}

// Print the workers. Returns WEIR_CLI_REFUSED if a worker is stalled, so that scripts detect that
// packets are lost.
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

void weir_show_ports(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_choice choices[] = {
		{{"PORT", "port", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"NAME", "name", WEIR_SHOW_TEXT}, NULL, 0},
		{{"MAC", "mac", WEIR_SHOW_TEXT}, NULL, 1},
		{{"MTU-BYTES", "mtu", WEIR_SHOW_NUMBER}, NULL, 3},
		{{"VLAN", "vlan", WEIR_SHOW_NUMBER}, "-", 4},
		{{"KERNEL-INTERFACE", "kernel_interface", WEIR_SHOW_TEXT}, NULL, 5},
		{{"LINK", "link", WEIR_SHOW_TEXT}, "-", 0},
		{{"STEERED", "steered", WEIR_SHOW_FLAG}, NULL, 2},
		{{"RX-PACKETS", "ipackets", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"LOST", "lost", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"TX-PACKETS", "opackets", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"TX-ERRORS", "oerrors", WEIR_SHOW_NUMBER}, "0", 0},
	};

	if (weir_show_is_single(cli, result)) {
		weir_show_fields(cli->out, json_array_get(result, 0));
		return;
	}
	weir_show_list(cli->out, result, choices, COUNT(choices), "no ports");
}
