// SPDX-License-Identifier: BSD-3-Clause
//
// Prints backends: one line for each backend, or all details of a single backend.
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "plural.h"
#include "shed.h"
#include "show_narrow.h"
#include "show_tcp.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))
#define NOTES 320

__attribute__((format(printf, 3, 4))) static void add(
	char *notes, size_t *used, const char *format, ...) {
	va_list args;
	int n;

	if (*used > 0 && *used + 2 < NOTES) {
		memcpy(notes + *used, ", ", 3);
		*used += 2;
	}
	va_start(args, format);
	n = vsnprintf(notes + *used, NOTES - *used, format, args);
	va_end(args);
	*used += n < 0 ? 0 : (size_t)n < NOTES - *used ? (size_t)n : NOTES - *used - 1;
}

static void add_drain(char *notes, size_t *used, const json_t *drain) {
	const char *state = json_string_value(json_object_get(drain, "state"));
	const json_t *left = json_object_get(drain, "left_ms");
	const json_t *recount = json_object_get(drain, "recount_ms");
	char text[32];

	if (state == NULL) {
		return;
	}
	if (json_is_integer(left)) {
		add(notes, used, "%s, %s left", state,
			weir_show_value(left, WEIR_SHOW_DURATION, text, sizeof(text)));
	} else {
		add(notes, used, "%s", state);
	}
	if (json_is_integer(recount)) {
		add(notes, used, "flows are recounted for another %s",
			weir_show_value(recount, WEIR_SHOW_DURATION, text, sizeof(text)));
	}
}

// Add a note if the agent does not answer, or is not probed because weir-control has no keys: the
// load and the state of the server are then unknown.
static void add_agent(char *notes, size_t *used, const json_t *row) {
	const char *state = json_string_value(json_object_get(row, "agent"));
	const json_t *age = json_object_get(row, "agent_age_ms");

	if (state != NULL && strcmp(state, "no-keys") == 0) {
		add(notes, used, "agent not probed: no keys");
	}
	if (state == NULL || strcmp(state, "silent") != 0) {
		return;
	}
	if (json_is_integer(age)) {
		char text[32];

		add(notes, used, "agent has not answered for %s",
			weir_show_value(age, WEIR_SHOW_DURATION, text, sizeof(text)));
	} else {
		add(notes, used, "agent does not answer");
	}
}

// Add a note if health checks have no result, because the health state then does not change.
static void add_unchecked(char *notes, size_t *used, const json_t *row) {
	const json_t *since = json_object_get(row, "unchecked_ms");
	const char *why = json_string_value(json_object_get(row, "unchecked_why"));
	char text[32];

	if (json_is_integer(since)) {
		add(notes, used, "no result of health checks for %s: %s",
			weir_show_value(since, WEIR_SHOW_DURATION, text, sizeof(text)),
			why != NULL ? why : "");
	}
}

static void add_weight_notes(char *notes, size_t *used, const json_t *row) {
	const json_t *set = json_object_get(row, "runtime_weight");
	const json_t *own = json_object_get(row, "own_weight");
	const json_t *automatic = json_object_get(row, "auto_weight");
	const json_t *slow = json_object_get(row, "slow_start_percent");
	const char *canary = json_string_value(json_object_get(row, "canary"));

	if (json_is_integer(automatic) && json_integer_value(automatic) == 0) {
		add(notes, used, "CPUs not reported");
	}
	if (json_is_integer(set)) {
		add(notes, used, "weight set to %" JSON_INTEGER_FORMAT "%s",
			json_integer_value(set),
			canary == NULL ? ""
			: strcmp(canary, "rolled-back") == 0
				? " by the canary, which was rolled back"
			: strcmp(canary, "paused") == 0 ? " by the canary, which is paused"
							: " by the canary");
	} else if (json_is_integer(own)) {
		add(notes, used, "reports weight %" JSON_INTEGER_FORMAT, json_integer_value(own));
	}
	if (json_is_number(slow)) {
		add(notes, used, "slow start %.0f %%", json_number_value(slow));
	}
}

static void add_leaving(char *notes, size_t *used, const json_t *row) {
	const json_t *refuse = json_object_get(row, "binds_refuse_ms");
	const json_t *flows = json_object_get(row, "open_flows");
	char text[32];

	if (!json_is_true(json_object_get(row, "leaving"))) {
		return;
	}
	add(notes, used, "leaving");
	if (!json_is_integer(refuse)) {
		return;
	}
	if (json_is_integer(flows)) {
		add(notes, used, "%s",
			json_integer_value(flows) == 0 ? "no open flow" : "open flows are reset");
	}
	add(notes, used, "removed binds refuse packets for another %s",
		weir_show_value(refuse, WEIR_SHOW_DURATION, text, sizeof(text)));
}

static void add_limit(char *notes, size_t *used, const json_t *row) {
	const json_t *limit = json_object_get(row, "max_active_flows");
	const json_t *flows = json_object_get(row, "counted_flows");

	if (json_is_integer(limit) && json_is_integer(flows) &&
		json_integer_value(flows) >= json_integer_value(limit)) {
		add(notes, used, "at the limit of %lld active flow%s",
			(long long)json_integer_value(limit),
			weir_plural((uint64_t)json_integer_value(limit)));
	}
}

static void add_shed(char *notes, size_t *used, const json_t *row) {
	const json_t *shed = json_object_get(row, "shed");
	char text[NOTES];

	if (json_is_object(shed) && json_is_null(json_object_get(shed, "ended_ms"))) {
		add(notes, used, "shed %s", weir_shed_text(shed, text, sizeof(text)));
	}
}

static bool is_other_text(const json_t *value, const char *text) {
	return json_is_string(value) && strcmp(json_string_value(value), text) != 0;
}

// Returns whether a backend gets new flows although the backend is not ready, not healthy, or
// ejected, which is possible only in panic mode.
static bool is_used_in_panic_mode(const json_t *row) {
	return json_is_true(json_object_get(row, "in_selection")) &&
	       (is_other_text(json_object_get(row, "admin"), "ready") ||
		       is_other_text(json_object_get(row, "health"), "healthy") ||
		       json_is_true(json_object_get(row, "ejected")));
}

// Write the unusual properties of a backend as text. Returns notes.
static const char *describe(const json_t *row, char notes[NOTES]) {
	const char *word = json_string_value(json_object_get(row, "word"));
	size_t used = 0;

	notes[0] = '\0';
	add_leaving(notes, &used, row);
	if (json_is_true(json_object_get(row, "backup"))) {
		add(notes, &used,
			json_is_true(json_object_get(row, "in_selection")) ? "backup in use"
									   : "backup");
	}
	if (json_is_false(json_object_get(row, "resolved"))) {
		add(notes, &used, "no next hop");
	}
	if (json_is_true(json_object_get(row, "ejected"))) {
		add(notes, &used, "ejected");
	}
	if (is_used_in_panic_mode(row)) {
		add(notes, &used, "gets new flows: panic mode");
	}
	add_drain(notes, &used, json_object_get(row, "drain"));
	if (word != NULL && (strcmp(word, "lame-duck") == 0 || strcmp(word, "down") == 0)) {
		add(notes, &used, "reports %s", word);
	}
	if (json_is_true(json_object_get(row, "accept_queue_full"))) {
		add(notes, &used, "accept queue full");
	}
	add_limit(notes, &used, row);
	add_agent(notes, &used, row);
	add_weight_notes(notes, &used, row);
	add_unchecked(notes, &used, row);
	add_shed(notes, &used, row);
	return notes;
}

// --- one backend --------------------------------------------------------------------------

static const char *const of_state[] = {"admin", "admin_since_ms", "drain", "health", "since_ms",
	"why", "verdict", "word", "leaving", "binds_refuse_ms", "resolved", "ejected",
	"accept_queue_full", "max_active_flows", "counted_flows", "agent", "agent_age_ms",
	"unchecked_ms", "unchecked_why", "backup", "in_selection", "shed", NULL};
static const char *const of_weight[] = {"weight", "runtime_weight", "canary", "reported_weight",
	"own_weight", "capacity", "effective_weight", "slow_start_percent", "share_percent",
	"achieved_percent", NULL};

// Print the members `keys` of an object under a title, and remove them from the object.
static void print_section(FILE *out, json_t *object, const char *title, const char *const keys[]) {
	json_t *section = json_object();

	for (size_t i = 0; keys[i] != NULL; i++) {
		json_t *value = json_object_get(object, keys[i]);

		if (value != NULL) {
			json_object_set(section, keys[i], value);
			json_object_del(object, keys[i]);
		}
	}
	if (json_object_size(section) > 0) {
		fprintf(out, "\n%s\n", title);
		weir_show_fields(out, section);
	}
	json_decref(section);
}

static void print_rest(FILE *out, json_t *rest) {
	json_object_del(rest, "at_limit"); // same meaning as accept_queue_full
	if (json_object_size(rest) > 0) {
		fprintf(out, "\nFLOWS\n");
		weir_show_fields(out, rest);
	}
}

// Join the states of ports as text: "tcp 80: down (no listening socket), udp 53: starting".
static json_t *join_port_words(const json_t *list) {
	char text[1024] = "";
	size_t used = 0, i;
	json_t *port;

	json_array_foreach (list, i, port) {
		const char *reason = json_string_value(json_object_get(port, "reason"));
		const char *protocol = json_string_value(json_object_get(port, "protocol"));
		const char *word = json_string_value(json_object_get(port, "word"));
		bool has_reason = reason != NULL && reason[0] != '\0';

		used += (size_t)snprintf(text + used, sizeof(text) - used,
			"%s%s %" JSON_INTEGER_FORMAT ": %s%s%s%s", i > 0 ? ", " : "",
			protocol != NULL ? protocol : "?",
			json_integer_value(json_object_get(port, "port")),
			word != NULL ? word : "?", has_reason ? " (" : "", has_reason ? reason : "",
			has_reason ? ")" : "");
		if (used >= sizeof(text)) {
			break;
		}
	}
	return json_string(text);
}

// Print the last report of a backend, with the numbers as they were reported.
static void print_report(FILE *out, const json_t *report) {
	json_t *shown = json_object();
	const char *key;
	json_t *value;
	char text[32];

	json_object_foreach ((json_t *)report, key, value) {
		if (json_is_real(value)) {
			snprintf(text, sizeof(text), "%.6g", json_real_value(value));
			json_object_set_new(shown, key, json_string(text));
		} else if (json_is_array(value)) {
			json_object_set_new(shown, key, join_port_words(value));
		} else {
			json_object_set(shown, key, value);
		}
	}
	fprintf(out, "\nLAST REPORT\n");
	weir_show_fields(out, shown);
	json_decref(shown);
}

// If the weight of a row is "auto", replace it by a text with its current value.
static void describe_weight(json_t *row) {
	const json_t *automatic = json_object_get(row, "auto_weight");
	json_int_t weight = json_integer_value(json_object_get(row, "weight"));
	char text[64];

	if (json_is_integer(automatic)) {
		snprintf(text, sizeof(text), "auto (%" JSON_INTEGER_FORMAT "%s)", weight,
			json_integer_value(automatic) > 0 ? "" : ", CPUs are not reported yet");
		json_object_set_new(row, "weight", json_string(text));
	}
	json_object_del(row, "auto_weight");
}

// Add the capacity as text, such as "16 GCU: 8 CPUs with 2 GCU each, measured by its agent". Adds
// nothing if the capacity is unknown.
static void describe_capacity(json_t *row) {
	static const struct {
		const char *source, *text;
	} sources[] = {
		{"table", "from the gcu table"},
		{"measured", "measured by its agent"},
		{"frequency", "from the frequency: 3 GHz count as 1 GCU"},
	};
	const json_t *capacity = json_object_get(row, "capacity");
	const char *source = json_string_value(json_object_get(capacity, "source"));
	char text[160];

	if (source == NULL) {
		json_object_del(row, "capacity");
		return;
	}
	for (size_t i = 0; i < COUNT(sources); i++) {
		if (strcmp(sources[i].source, source) == 0) {
			source = sources[i].text;
			break;
		}
	}
	snprintf(text, sizeof(text), "%.4g GCU: %.4g CPUs with %.3g GCU each, %s",
		json_number_value(json_object_get(capacity, "gcu")),
		json_number_value(json_object_get(capacity, "cpus")),
		json_number_value(json_object_get(capacity, "gcu_per_cpu")), source);
	json_object_set_new(row, "capacity", json_string(text));
}

// Add the state of the last shed as one line. Adds nothing if there was no shed.
static void describe_shed(json_t *row) {
	const json_t *shed = json_object_get(row, "shed");
	char text[512];

	if (json_is_object(shed)) {
		json_object_set_new(
			row, "shed", json_string(weir_shed_text(shed, text, sizeof(text))));
	} else {
		json_object_del(row, "shed");
	}
}

static void show_one(FILE *out, json_t *row) {
	static const char *const first[] = {"service", "name", "id", "address", "forwarding",
		"gue_port", "gre_key", "path_mtu"};
	json_t *rest = json_copy(row), *head = json_object();
	const char *why = json_string_value(json_object_get(row, "why"));

	if (why != NULL && why[0] == '\0') {
		json_object_set_new(rest, "why", json_null());
	}

	for (size_t i = 0; i < COUNT(first); i++) {
		json_object_set(head, first[i], json_object_get(rest, first[i]));
		json_object_del(rest, first[i]);
	}
	describe_weight(rest);
	describe_capacity(rest);
	describe_shed(rest);
	weir_show_fields(out, head);
	print_section(out, rest, "STATE", of_state);
	print_section(out, rest, "WEIGHT", of_weight);
	if (json_is_object(json_object_get(rest, "report"))) {
		print_report(out, json_object_get(rest, "report"));
	} else if (json_object_get(rest, "report") != NULL) {
		fprintf(out, "\nLAST REPORT\nnone\n");
	}
	json_object_del(rest, "report");
	json_object_del(rest, "tcp"); // printed as a table
	print_rest(out, rest);
	if (json_is_object(json_object_get(row, "tcp"))) {
		json_t *rows = json_pack("[O]", row);

		fprintf(out, "\nTCP\n");
		weir_show_tcp(out, rows, weir_show_width(out));
		json_decref(rows);
	}
	json_decref(head);
	json_decref(rest);
}

// --- all backends -------------------------------------------------------------------------

// Returns whether the effective weight of any backend differs from its configured weight, or any
// weight is "auto".
static bool weights_differ(const json_t *rows) {
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		if (!json_equal(json_object_get(row, "weight"),
			    json_object_get(row, "effective_weight")) ||
			json_is_integer(json_object_get(row, "auto_weight"))) {
			return true;
		}
	}
	return false;
}

// Change a row for the table: add the members that only the table has. differ: show the effective
// weight in a separate column.
static void add_cells(json_t *row, bool differ) {
	if (differ) {
		json_object_set(row, "used_weight", json_object_get(row, "effective_weight"));
	}
	if (json_is_integer(json_object_get(row, "auto_weight"))) {
		json_object_set_new(row, "weight", json_string("auto"));
	}
	if (json_is_false(json_object_get(row, "in_selection"))) {
		json_object_set_new(row, "share_percent", json_null());
	}
}

static void show_notes(FILE *out, const json_t *rows) {
	static const struct weir_show_column columns[] = {
		{"BACKEND", "name", WEIR_SHOW_TEXT}, {"NOTES", "notes", WEIR_SHOW_TEXT}};
	json_t *noted = json_array(), *row;
	char notes[NOTES];
	size_t i;

	json_array_foreach (rows, i, row) {
		const char *service = json_string_value(json_object_get(row, "service"));
		const char *label = json_string_value(json_object_get(row, "label"));

		if (service != NULL && label != NULL && describe(row, notes)[0] != '\0') {
			json_array_append_new(noted,
				json_pack("{s:o, s:s}", "name",
					json_sprintf("%s/%s", service, label), "notes", notes));
		}
	}
	if (json_array_size(noted) > 0) {
		fputc('\n', out);
		weir_show_table(out, noted, columns, COUNT(columns), "");
	}
	json_decref(noted);
}

// With a width, only the first row of a service has the name of the service; with width 0, each row
// has the name.
void weir_show_backends_within(FILE *out, json_t *all, uint32_t width) {
	static const struct weir_show_choice choices[] = {
		{{"SERVICE", "service", WEIR_SHOW_TEXT}, NULL, 0},
		{{"BACKEND", "name", WEIR_SHOW_TEXT}, NULL, 0},
		{{"ADDRESS", "address", WEIR_SHOW_TEXT}, NULL, 5},
		{{"ADMIN", "admin", WEIR_SHOW_TEXT}, "ready", 0},
		{{"HEALTH", "health", WEIR_SHOW_TEXT}, NULL, 0},
		{{"SINCE", "since_ms", WEIR_SHOW_DURATION}, NULL, 7},
		{{"WEIGHT", "weight", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"USED", "used_weight", WEIR_SHOW_NUMBER}, "-", 0},
		{{"SHARE-%", "share_percent", WEIR_SHOW_PERCENT}, NULL, 0},
		{{"NEW-%", "achieved_percent", WEIR_SHOW_PERCENT}, NULL, 6},
		{{"ACTIVE", "active_flows", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"NEW", "new_flows", WEIR_SHOW_NUMBER}, NULL, 3},
		{{"CLIENT-RST", "refused", WEIR_SHOW_NUMBER}, "0", 2},
		{{"DROPPED", "dropped", WEIR_SHOW_NUMBER}, "0", 1},
		{{"REPORT", "report.age_ms", WEIR_SHOW_DURATION}, "-", 4},
	};
	bool differ = weights_differ(all);
	json_t *rows = weir_show_by_service(all), *row;
	char *notes = NULL;
	size_t i, bytes;
	FILE *memory = open_memstream(&notes, &bytes);

	weir_show_add_labels(rows, "name");
	json_array_foreach (rows, i, row) {
		add_cells(row, differ);
		// the address column may be hidden; if names are not unique, the label has the
		// address
		if (width > 0) {
			json_object_set(row, "name", json_object_get(row, "label"));
		}
	}
	if (memory != NULL) { // notes need the names of services, which are removed below
		show_notes(memory, rows);
		fclose(memory);
	}
	if (width > 0) {
		weir_show_service_once(rows);
	}
	weir_show_narrow(out, rows, choices, COUNT(choices), "no backends", width);
	fputs(notes != NULL ? notes : "", out);
	free(notes);
	json_decref(rows);
}

void weir_show_backends(const struct weir_cli *cli, json_t *result) {
	if (cli->options->tcp) {
		weir_show_tcp(cli->out, result, weir_show_width(cli->out));
	} else if (weir_show_is_single(cli, result)) {
		show_one(cli->out, json_array_get(result, 0));
	} else {
		weir_show_backends_within(cli->out, result, weir_show_width(cli->out));
	}
}
