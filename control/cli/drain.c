// SPDX-License-Identifier: BSD-3-Clause
#include "drain.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clocks.h"
#include "drain_former.h"
#include "duration.h"
#include "plural.h"
#include "show.h"
#include "terminal.h"

#define POLL_MS 500
// Time from the deadline of a drain to the next poll. weir-control ends the drain in its next tick
// after the deadline; until then, polls have this interval.
#define DEADLINE_TURN_MS 20
#define FLOWS_BYTES 24
#define LINE_BYTES 1024

// State of the wait for the end of a drain.
struct wait {
	struct weir_cli *cli;
	json_t *request; // request to poll: backend.show, host.show or bind.show
	char name[192]; // SERVICE/BACKEND, a service, or the address of a host or VIP
	bool terminal; // output goes to a terminal, where each line overwrites the line before
	uint64_t began_ms;
	json_int_t first; // open flows at the start of the drain
	json_int_t shown; // open flows in the last printed line; -1 = no line yet
	char reason[16]; // value of "waits_for" in the last printed line
	int looks;
	int poll_ms; // time until the next poll
	// The last reply, if a reload has removed all backends of the host; otherwise NULL. Without
	// backends, weir-control reports the host only while it has flows.
	json_t *removed;
};

static json_int_t flows_of(const json_t *row) {
	return json_integer_value(json_object_get(row, "open_flows"));
}

// --- output ---------------------------------------------------------------------------------

// Print a line over the previous line. The line is truncated to the width of the terminal, because
// a wrapped line could not be overwritten.
static void rewrite(FILE *out, const char *line) {
	struct winsize size = {0};

	if (ioctl(fileno(out), TIOCGWINSZ, &size) || size.ws_col == 0) {
		size.ws_col = 80;
	}
	fprintf(out, "\r%.*s\033[K", size.ws_col - 1, line);
}

// Write the reason if a drained backend still gets new flows; otherwise "". Returns text.
static const char *used_text(const json_t *row, char *text, size_t bytes) {
	const json_t *in_use = json_object_get(row, "in_use");
	char names[128];

	text[0] = '\0';
	if (json_is_true(json_object_get(row, "in_selection"))) {
		snprintf(text, bytes,
			"; still gets new flows, because no backend of the service is ready");
	} else if (json_array_size(in_use) > 0) {
		snprintf(text, bytes,
			"; new flows still go to %s, because no backend of the service is ready",
			weir_show_value(in_use, WEIR_SHOW_TEXT, names, sizeof(names)));
	}
	return text;
}

static const char *waits_for(const json_t *drain) {
	const char *what = json_string_value(json_object_get(drain, "waits_for"));

	return what != NULL ? what : "flows";
}

// Write why a drain continues although no open flows are counted; "" if the drain waits for counted
// flows. Returns text.
static const char *reason_text(const json_t *drain, char *text, size_t bytes) {
	const json_t *recount = json_object_get(drain, "recount_ms");
	const json_t *deadline = json_object_get(drain, "left_ms");
	char left[32];

	text[0] = '\0';
	if (strcmp(waits_for(drain), "dataplane") == 0) {
		snprintf(text, bytes, "; waits for weir-dataplane, which is not running");
	} else if (json_is_integer(recount)) {
		const json_t *most =
			json_is_integer(deadline) &&
					json_integer_value(deadline) < json_integer_value(recount)
				? deadline
				: recount;

		snprintf(text, bytes,
			"; waits at most %s for the recount of flows after the restart of "
			"weir-dataplane",
			weir_show_value(most, WEIR_SHOW_DURATION, left, sizeof(left)));
	}
	return text;
}

static json_int_t number(const json_t *object, const char *key) {
	return json_integer_value(json_object_get(object, key));
}

// Write a number of flows; "-" if the number is unknown, because weir-dataplane is not running.
// Returns text.
static const char *flows_text(const json_t *row, const char *key, char text[static FLOWS_BYTES]) {
	return weir_show_value(json_object_get(row, key), WEIR_SHOW_NUMBER, text, FLOWS_BYTES);
}

// Write how many open flows of a backend, host or VIP belong to removed backends or services; "" if
// there are no such flows. Returns text.
static const char *removed_text(const json_t *row, char *text, size_t bytes) {
	json_int_t backends = number(row, "removed"), services = number(row, "removed_services");
	char names[256];

	text[0] = '\0';
	if (number(row, "former_open_flows") > 0) {
		snprintf(text, bytes, "; includes %s",
			weir_drain_former_text(row, names, sizeof(names)));
	} else if (backends > 0) {
		snprintf(text, bytes,
			"; includes the flows of %" JSON_INTEGER_FORMAT " removed backend%s",
			backends, weir_plural((uint64_t)backends));
	} else if (services > 0) {
		snprintf(text, bytes,
			"; includes the flows of %s, which a reload removed from this VIP",
			weir_show_value(json_object_get(row, "removed_from"), WEIR_SHOW_TEXT, names,
				sizeof(names)));
	}
	return text;
}

static void show_progress(struct wait *wait, const json_t *row) {
	const json_t *drain = json_object_get(row, "drain");
	const json_t *left = json_object_get(drain, "left_ms");
	json_int_t flows = flows_of(row);
	char line[LINE_BYTES], deadline[64] = "", used[256], reason[128], removed[320];
	char open[64];
	const json_int_t most = wait->first > flows ? wait->first : flows;
	bool changed = flows != wait->shown || strcmp(waits_for(drain), wait->reason) != 0;

	if (wait->cli->options->json) {
		return;
	}
	if (json_is_integer(left)) {
		snprintf(deadline, sizeof(deadline), ", %s left",
			weir_show_value(left, WEIR_SHOW_DURATION, used, sizeof(used)));
	}
	if (json_is_null(json_object_get(row, "open_flows"))) {
		snprintf(open, sizeof(open), "open flows unknown");
	} else if (strcmp(waits_for(drain), "recount") == 0) {
		snprintf(open, sizeof(open), "%" JSON_INTEGER_FORMAT " open flow%s counted so far",
			flows, weir_plural((uint64_t)flows));
	} else {
		snprintf(open, sizeof(open),
			"%" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " open flow%s", flows,
			most, weir_plural((uint64_t)most));
	}
	snprintf(line, sizeof(line), "%s: draining, %s%s%s%s%s", wait->name, open, deadline,
		removed_text(row, removed, sizeof(removed)),
		reason_text(drain, reason, sizeof(reason)), used_text(row, used, sizeof(used)));
	if (wait->terminal) {
		rewrite(wait->cli->out, line);
	} else if (changed && wait->looks % 2 == 0) { // prints a line at most in every second poll
		fprintf(wait->cli->out, "%s\n", line);
		wait->shown = flows;
		snprintf(wait->reason, sizeof(wait->reason), "%s", waits_for(drain));
	}
	wait->looks++;
	fflush(wait->cli->out);
}

// Returns whether the number of flows includes flows of other binds of the service (drained or
// not), or can include flows of binds that a reload took away from the service.
static bool shares_flows(const json_t *row) {
	return number(row, "other_binds") + number(row, "other_drained_binds") +
			       number(row, "other_removed_binds") +
			       number(row, "removed_services") >
		       0 ||
	       json_is_true(json_object_get(row, "lost_binds"));
}

// Print how many flows were kept or dropped at the deadline. weir-control counts these flows at the
// deadline, because dropped flows are not open afterwards. what: "kept" or "dropped". If the
// number is 0, prints nothing unless `what` is the state of the drain. of: names of the backends of
// a host; NULL for other drains.
static void show_left(
	const struct wait *wait, const json_t *row, const char *what, const json_t *of) {
	const json_t *drain = json_object_get(row, "drain");
	bool is_state = strcmp(json_string_value(json_object_get(drain, "state")), what) == 0;
	bool out_of_use =
		strcmp(what, "dropped") == 0 && json_object_get(row, "drained_binds") == NULL;
	const json_t *flows;
	char key[32], names[256] = "", count[24] = "an unknown number of ";
	json_int_t n;

	snprintf(key, sizeof(key), "%s_flows", what);
	flows = json_object_get(drain, key);
	n = json_integer_value(flows);
	if (n == 0 && !json_is_null(flows) && !is_state) {
		return;
	}
	if (json_is_integer(flows)) {
		snprintf(count, sizeof(count), "%" JSON_INTEGER_FORMAT " ", n);
	}
	if (json_array_size(of) > 0) {
		weir_show_value(of, WEIR_SHOW_TEXT, names, sizeof(names));
	}
	fprintf(wait->cli->out, ", %sopen flow%s %s%s%s%s%s%s%s", count, n == 1 ? "" : "s", what,
		out_of_use || names[0] != '\0' ? " (" : "", out_of_use ? "maintenance" : "",
		out_of_use && names[0] != '\0' ? ": " : "", names,
		out_of_use || names[0] != '\0' ? ")" : "",
		shares_flows(row) ? ", counted together with flows of other binds" : "");
}

static void show_end(const struct wait *wait, const json_t *row, const char *state) {
	const char *admin = json_string_value(json_object_get(row, "admin"));
	char took[WEIR_DURATION_BYTES], former[256], removed[320];
	FILE *out = wait->cli->out;

	if (wait->cli->options->json) {
		weir_cli_print_json(out, row);
		return;
	}
	weir_duration_text(weir_monotonic_ms() - wait->began_ms, took);
	fputs(wait->terminal ? "\r\033[K" : "", out);
	if (state == NULL) {
		weir_drain_former_text(row, former, sizeof(former));
		fprintf(wait->cli->err, "weirctl: %s: drain cancelled, state set to %s%s%s\n",
			wait->name, admin != NULL ? admin : "ready", former[0] != '\0' ? "; " : "",
			former);
	} else if (strcmp(state, "drained") == 0) {
		fprintf(out, "%s: drained after %s\n", wait->name, took);
	} else {
		fprintf(out, "%s: deadline after %s", wait->name, took);
		show_left(wait, row, "kept", json_object_get(row, "open"));
		show_left(wait, row, "dropped", json_object_get(row, "dropped_from"));
		fprintf(out, "%s\n",
			json_object_get(row, "former_open_flows") != NULL
				? removed_text(row, removed, sizeof(removed))
				: "");
	}
}

// --- waiting --------------------------------------------------------------------------------

// Returns whether some backends of the host, or some binds, are ready: they were set to ready, or
// added by a reload. If so, prints a message, because the host or VIP is only partly drained, and a
// script must not continue.
static bool is_partly_ready(const struct wait *wait, const json_t *row) {
	bool binds = json_object_get(row, "drained_binds") != NULL;
	json_int_t all = number(row, binds ? "binds" : "backends");
	json_int_t ready = binds ? all - number(row, "drained_binds") : number(row, "ready");

	if (ready <= 0) {
		return false;
	}
	if (wait->cli->options->json) {
		weir_cli_print_json(wait->cli->out, row);
		return true;
	}
	fputs(wait->terminal ? "\r\033[K" : "", wait->cli->out);
	fflush(wait->cli->out);
	fprintf(wait->cli->err,
		"weirctl: %s: only partly drained: %" JSON_INTEGER_FORMAT
		" of %" JSON_INTEGER_FORMAT " %s still %s new flows\n",
		wait->name, ready, all, binds ? "binds" : "backends",
		ready == 1 ? "accepts" : "accept");
	return true;
}

// Find the row of the configured backend, and add the flows of removed backends with the same name
// to it. Returns NULL if there is no configured backend.
static const json_t *find_row(json_t *rows) {
	json_t *row;
	size_t i;

	if (json_is_object(rows)) { // a host, or binds
		return rows;
	}
	json_array_foreach (rows, i, row) {
		if (!json_is_true(json_object_get(row, "leaving"))) {
			weir_drain_add_former(row, rows);
			return row;
		}
	}
	return NULL;
}

// Print that a reload has removed the backend from the configuration.
static void show_removed(const struct wait *wait, const json_t *rows) {
	json_t *row = json_object();
	char addresses[200];
	json_int_t flows;

	weir_drain_add_former(row, rows);
	flows = number(row, "former_open_flows");
	fprintf(wait->cli->err, "weirctl: %s was removed from the configuration", wait->name);
	if (flows > 0) {
		fprintf(wait->cli->err, "; %" JSON_INTEGER_FORMAT " open flow%s left at %s", flows,
			weir_plural((uint64_t)flows),
			weir_show_value(json_object_get(row, "former_addresses"), WEIR_SHOW_TEXT,
				addresses, sizeof(addresses)));
	}
	fputc('\n', wait->cli->err);
	json_decref(row);
}

// Returns whether flows were kept at the deadline. Also returns true if the number is unknown,
// without weir-dataplane or before it has counted all flows.
static bool are_kept(const json_t *row) {
	const json_t *kept = json_object_get(json_object_get(row, "drain"), "kept_flows");

	return !json_is_integer(kept) || json_integer_value(kept) > 0;
}

// Returns the time until the next poll. If the deadline comes first, the poll is just after the
// deadline, so that the end of the drain is printed in time.
static int next_poll_ms(const json_t *row) {
	const json_t *left = json_object_get(json_object_get(row, "drain"), "left_ms");

	return json_is_integer(left) && json_integer_value(left) < POLL_MS
		       ? (int)json_integer_value(left) + DEADLINE_TURN_MS
		       : POLL_MS;
}

// Returns whether all backends of a host are in maintenance. There is then nothing to drain.
static bool is_out_of_use(const json_t *row) {
	return number(row, "maintenance") > 0 &&
	       number(row, "maintenance") == number(row, "backends");
}

// Returns whether a reload has removed all backends of a host. weir-control reports such a host
// while removed backends still have flows.
static bool is_removed(const json_t *host) {
	const json_t *backends = json_object_get(host, "backends");

	return json_is_integer(backends) && json_integer_value(backends) == 0;
}

// Request the state of the drain. weir-control no longer reports a host whose backends were all
// removed and have no flows left; *ret is then the last reply, with the state "drained", unless not
// all flows were counted. Returns enum weir_cli_exit.
static int look_up(struct wait *wait, json_t **ret) {
	json_t *rows;
	int r = wait->removed != NULL ? weir_cli_request_if_any(wait->cli, wait->request, &rows)
				      : weir_cli_request(wait->cli, wait->request, &rows);

	if (r != WEIR_CLI_DONE) {
		return r;
	}
	if (rows == NULL &&
		strcmp(waits_for(json_object_get(wait->removed, "drain")), "recount") == 0) {
		fprintf(wait->cli->err,
			"weirctl: %s was removed from the configuration before all of its flows "
			"were counted\n",
			wait->name);
		return WEIR_CLI_REFUSED;
	}
	if (rows == NULL) {
		json_object_set_new(wait->removed, "open_flows", json_integer(0));
		json_object_set_new(
			json_object_get(wait->removed, "drain"), "state", json_string("drained"));
		rows = json_incref(wait->removed);
	}
	json_decref(wait->removed);
	wait->removed = is_removed(rows) ? json_incref(rows) : NULL;
	*ret = rows;
	return r;
}

// Poll once. Returns true when the wait has ended; *ret is then the exit status of weirctl.
static bool look(struct wait *wait, int *ret) {
	const char *state;
	const json_t *row;
	json_t *rows;
	bool over = true;

	*ret = look_up(wait, &rows);
	if (*ret != WEIR_CLI_DONE) {
		return true;
	}
	row = find_row(rows);
	state = json_string_value(json_object_get(json_object_get(row, "drain"), "state"));
	if (row == NULL) {
		show_removed(wait, rows);
		*ret = WEIR_CLI_REFUSED;
	} else if (state == NULL && is_out_of_use(row)) {
		if (wait->cli->options->json) {
			weir_cli_print_json(wait->cli->out, row);
		}
	} else if (state != NULL && is_partly_ready(wait, row)) {
		*ret = WEIR_CLI_REFUSED;
	} else if (state != NULL && strcmp(state, "draining") == 0) {
		show_progress(wait, row);
		wait->poll_ms = next_poll_ms(row);
		over = false;
	} else {
		show_end(wait, row, state);
		*ret = state == NULL                                 ? WEIR_CLI_REFUSED
		       : strcmp(state, "kept") == 0 && are_kept(row) ? WEIR_CLI_FLOWS_LEFT
								     : WEIR_CLI_DONE;
	}
	json_decref(rows);
	return over;
}

// Set the name, and the request that each poll sends. begun: reply to the request that started the
// drain. Returns false if out of memory.
static bool prepare(struct wait *wait, const json_t *begun) {
	const char *service = json_string_value(json_object_get(begun, "service"));
	const char *backend = json_string_value(json_object_get(begun, "backend"));
	const char *address = json_string_value(json_object_get(begun, "address"));

	if (json_object_get(begun, "drained_binds") != NULL) {
		snprintf(wait->name, sizeof(wait->name), "%s", address != NULL ? address : service);
		wait->request = json_pack("{s:s, s:s*, s:s*}", "command", "bind.show", "service",
			service, "address", address);
	} else if (address != NULL) {
		snprintf(wait->name, sizeof(wait->name), "%s", address);
		wait->request = json_pack("{s:s, s:s}", "command", "host.show", "address", address);
	} else if (service != NULL && backend != NULL) {
		snprintf(wait->name, sizeof(wait->name), "%s/%s", service, backend);
		wait->request = json_pack("{s:s, s:s, s:s}", "command", "backend.show", "service",
			service, "backend", backend);
	}
	return wait->request != NULL;
}

static int wait_for_end(struct weir_cli *cli, const char *object, const json_t *begun) {
	struct wait wait = {.cli = cli,
		.terminal = isatty(fileno(cli->out)) && !cli->options->json,
		.began_ms = weir_monotonic_ms(),
		.first = flows_of(begun),
		.shown = -1};
	int r;

	if (!prepare(&wait, begun)) {
		fprintf(cli->err, "weirctl: out of memory\n");
		return WEIR_CLI_REFUSED;
	}
	wait.removed = is_removed(begun) ? json_deep_copy(begun) : NULL;
	while (!look(&wait, &r) && !ferror(cli->out)) {
		weir_cli_wait_ms(wait.poll_ms);
	}
	json_decref(wait.removed);
	json_decref(wait.request);
	if (r == WEIR_CLI_UNREACHABLE) {
		fprintf(cli->err,
			"weirctl: the drain continues without weirctl; see \"weirctl %s show "
			"%s\"\n",
			object, wait.name);
	}
	return r;
}

int weir_drain_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	json_t *request = weir_cli_build(cli, command), *begun;
	int r;

	if (request == NULL) {
		return WEIR_CLI_REFUSED;
	}
	r = weir_cli_change(cli, request, &begun);
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
		r = wait_for_end(cli, command->object, begun);
	}
	json_decref(begun);
	return r;
}

// --- hosts ----------------------------------------------------------------------------------

void weir_drain_show_host(const struct weir_cli *cli, json_t *host) {
	const json_t *drain = json_object_get(host, "drain");
	const json_t *left = json_object_get(drain, "left_ms");
	const char *then = json_string_value(json_object_get(drain, "at_deadline"));
	json_int_t out_of_use = number(host, "maintenance"), services = number(host, "services");
	json_int_t backends = number(host, "backends");
	const json_t *in_use = json_object_get(host, "in_use");
	char names[256], removed[320], flows[FLOWS_BYTES];

	fprintf(cli->out,
		"%s: %s, %" JSON_INTEGER_FORMAT " backend%s in %" JSON_INTEGER_FORMAT
		" service%s, %s active flow%s",
		json_string_value(json_object_get(host, "address")),
		is_out_of_use(host)   ? "maintenance"
		: json_is_null(drain) ? "ready"
				      : "drain",
		backends, weir_plural((uint64_t)backends), services,
		weir_plural((uint64_t)services), flows_text(host, "active_flows", flows),
		weir_plural((uint64_t)number(host, "active_flows")));
	if (json_is_number(left)) {
		fprintf(cli->out, ", deadline in %s (%s)",
			weir_show_value(left, WEIR_SHOW_DURATION, names, sizeof(names)),
			then != NULL ? then : "keep or drop, depending on the service");
	}
	if (out_of_use > 0 && out_of_use < backends) {
		fprintf(cli->out, "; %" JSON_INTEGER_FORMAT " of the backends in maintenance",
			out_of_use);
	}
	fprintf(cli->out, "%s\n", removed_text(host, removed, sizeof(removed)));
	if (json_object_get(host, "warnings") != NULL) { // only results of "host drain" have them
		weir_show_warnings(cli->out, host);
	} else if (json_array_size(in_use) > 0) {
		fprintf(cli->out,
			"warning: new flows still go to %s, because no backend of the service is "
			"ready\n",
			weir_show_value(in_use, WEIR_SHOW_TEXT, names, sizeof(names)));
	}
}

// --- binds ----------------------------------------------------------------------------------

// Print that the numbers of flows include flows of other binds, because flows are counted per
// service.
static void show_shared(FILE *out, const json_t *result) {
	json_int_t others = number(result, "other_binds") + number(result, "other_drained_binds");
	json_int_t removed = number(result, "other_removed_binds");

	if (others + removed == 0) {
		fputs(json_is_true(json_object_get(result, "lost_binds"))
				? "; may include flows of binds that a reload took away from the "
				  "service"
				: "",
			out);
		return;
	}
	fputs("; includes the flows of ", out);
	if (others > 0) {
		fprintf(out, "%" JSON_INTEGER_FORMAT " other", others);
	}
	if (removed > 0) {
		fprintf(out, "%s%" JSON_INTEGER_FORMAT " removed", others > 0 ? " and " : "",
			removed);
	}
	fprintf(out, " bind%s", weir_plural((uint64_t)(removed > 0 ? removed : others)));
}

void weir_drain_show_binds(const struct weir_cli *cli, json_t *result) {
	const char *service = json_string_value(json_object_get(result, "service"));
	const char *address = json_string_value(json_object_get(result, "address"));
	const json_t *drain = json_object_get(result, "drain");
	const json_t *left = json_object_get(drain, "left_ms");
	const char *then = json_string_value(json_object_get(drain, "at_deadline"));
	json_int_t binds = number(result, "binds");
	json_int_t along = number(result, "other_drained_binds");
	char shown[80], duration[WEIR_DURATION_BYTES], removed[320], flows[FLOWS_BYTES];

	fprintf(cli->out, "%s: %s, %" JSON_INTEGER_FORMAT " bind%s, %s active flow%s",
		weir_terminal_text(address != NULL ? address : service, shown, sizeof(shown)),
		number(result, "drained_binds") > 0 ? "drain" : "ready", binds,
		weir_plural((uint64_t)binds), flows_text(result, "active_flows", flows),
		weir_plural((uint64_t)number(result, "active_flows")));
	if (json_is_number(left)) {
		fprintf(cli->out, ", deadline in %s (%s)",
			weir_duration_text((uint64_t)json_integer_value(left), duration),
			then != NULL ? then : "keep or drop, depending on the service");
	}
	if (along > 0 && number(result, "drained_binds") > 0) {
		fprintf(cli->out,
			"; this deadline also applies to %" JSON_INTEGER_FORMAT
			" drained bind%s with another address: a service has one deadline",
			along, weir_plural((uint64_t)along));
	}
	show_shared(cli->out, result);
	fprintf(cli->out, "%s\n", removed_text(result, removed, sizeof(removed)));
}
