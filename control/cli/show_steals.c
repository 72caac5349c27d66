// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the counters of steals by service, and the last steal requests.
#include <string.h>

#include "show.h"

#define CELL 512 // enough for all reasons with the largest possible counts

// Add to a row, as text, the refusal reasons whose count is not 0, such as "running 3, changed 1".
static void add_refusals(json_t *row) {
	const json_t *refused = json_object_get(row, "refused");
	char text[CELL] = "", number[32];
	const char *name;
	json_t *count;

	json_object_foreach ((json_t *)refused, name, count) {
		size_t used = strlen(text);

		if (json_integer_value(count) > 0) {
			weir_show_value(count, WEIR_SHOW_NUMBER, number, sizeof(number));
			snprintf(text + used, sizeof(text) - used, "%s%.32s %s",
				used > 0 ? ", " : "", name, number);
		}
	}
	json_object_set_new(row, "reasons", json_string(text[0] != '\0' ? text : "-"));
}

// Add to a row, as text, the backends that had to be relieved in the last round, each with the
// reason: "web-1 accept-queue, web-3 half-open".
static void add_relieved(json_t *row) {
	char text[CELL] = "";
	const json_t *backend;
	size_t i;

	json_array_foreach (json_object_get(row, "relieved"), i, backend) {
		const char *name = json_string_value(json_object_get(backend, "backend"));
		const char *reason = json_string_value(json_object_get(backend, "reason"));
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "%s%.64s %.32s", used > 0 ? ", " : "",
			name != NULL ? name : "?", reason != NULL ? reason : "?");
	}
	json_object_set_new(row, "relieves", json_string(text[0] != '\0' ? text : "-"));
}

static void add_endpoint(json_t *row, const char *key, const char *port_key) {
	const char *address = json_string_value(json_object_get(row, key));
	const json_t *port = json_object_get(row, port_key);
	char text[80];

	if (address != NULL && json_is_integer(port)) {
		snprintf(text, sizeof(text),
			strchr(address, ':') != NULL ? "[%.50s]:%" JSON_INTEGER_FORMAT
						     : "%.50s:%" JSON_INTEGER_FORMAT,
			address, json_integer_value(port));
		json_object_set_new(row, key, json_string(text));
	}
}

void weir_show_steals(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_column services[] = {
		{"SERVICE", "service", WEIR_SHOW_TEXT},
		{"ENABLED", "enabled", WEIR_SHOW_FLAG},
		{"RELIEVED", "relieves", WEIR_SHOW_TEXT},
		{"ASKED", "asked", WEIR_SHOW_NUMBER},
		{"MOVED", "moved", WEIR_SHOW_NUMBER},
		{"SILENT", "silent", WEIR_SHOW_NUMBER},
		{"REFUSED", "reasons", WEIR_SHOW_TEXT},
	};
	static const struct weir_show_column recent[] = {
		{"TIME", "time", WEIR_SHOW_TEXT},
		{"SERVICE", "service", WEIR_SHOW_TEXT},
		{"CLIENT", "client", WEIR_SHOW_TEXT},
		{"VIP", "vip", WEIR_SHOW_TEXT},
		{"FROM", "from", WEIR_SHOW_TEXT},
		{"TO", "to", WEIR_SHOW_TEXT},
		{"REASON", "reason", WEIR_SHOW_TEXT},
		{"OUTCOME", "outcome", WEIR_SHOW_TEXT},
		{"TOOK-MS", "took_ms", WEIR_SHOW_NUMBER},
	};
	const json_t *events = json_object_get(result, "recent");
	json_t *row;
	size_t i;

	json_array_foreach (json_object_get(result, "services"), i, row) {
		add_relieved(row);
		add_refusals(row);
	}
	json_array_foreach (events, i, row) {
		weir_show_add_time(row);
		add_endpoint(row, "client", "client_port");
		add_endpoint(row, "vip", "vip_port");
	}
	weir_show_table(cli->out, json_object_get(result, "services"), services,
		sizeof(services) / sizeof(services[0]),
		"no service has \"steal\" in its configuration");
	if (json_array_size(events) > 0) {
		fputc('\n', cli->out);
		weir_show_table(cli->out, events, recent, sizeof(recent) / sizeof(recent[0]), "");
	}
	if (json_is_false(json_object_get(result, "supported"))) {
		fprintf(cli->err, "weir-dataplane is older than weir-control and cannot move "
				  "connections: restart weir-dataplane\n");
	}
}
