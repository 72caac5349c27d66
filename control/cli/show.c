// SPDX-License-Identifier: BSD-3-Clause
#include "show.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "duration.h"
#include "older_flows.h"
#include "plural.h"
#include "terminal.h"
#include "text_table.h"
#include "weir_version.h"

#define CELL 512
// maximum number of bytes of a text about the open flows that a change breaks or moves
#define COST 2048
#define WRAP_INDENT 4
#define LABEL_MAX 80 // maximum number of bytes of a label: "chosen_by_worker." and the longest name
#define MORE 16 // bytes for a text like ", 12345 more"
#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))

// Join the elements of an array as text. Elements that do not fit are left out instead of
// truncated, because a truncated address could look like another address.
static const char *array_text(const json_t *array, char *buffer, size_t bytes) {
	const size_t count = json_array_size(array);
	char piece[CELL];
	size_t used = 0, i;
	json_t *value;

	snprintf(buffer, bytes, "-");
	json_array_foreach (array, i, value) {
		const char *comma = used > 0 ? ", " : "";
		size_t rest = i + 1 < count ? MORE : 0;

		weir_show_value(value, WEIR_SHOW_TEXT, piece, sizeof(piece));
		if (used + strlen(comma) + strlen(piece) + rest >= bytes) {
			snprintf(buffer + used, bytes - used, "%s%zu more", comma, count - i);
			break;
		}
		used += (size_t)snprintf(buffer + used, bytes - used, "%s%s", comma, piece);
	}
	return buffer;
}

// Format a number with one decimal, or with more decimals if it would otherwise be shown as 0. For
// example, with 10,000 backends each backend has a share of 0.01 %.
static void real_text(double value, char *buffer, size_t bytes) {
	int decimals = 1;

	for (double scaled = fabs(value) * 10; scaled > 0 && scaled < 1 && decimals < 6;
		scaled *= 10) {
		decimals++;
	}
	snprintf(buffer, bytes, "%.*f", decimals, value);
}

const char *weir_show_value(
	const json_t *value, enum weir_show_kind kind, char *buffer, size_t bytes) {
	char *text;

	if (value == NULL || json_is_null(value)) {
		snprintf(buffer, bytes, "-");
	} else if (json_is_string(value)) {
		weir_terminal_text(json_string_value(value), buffer, bytes);
	} else if (json_is_boolean(value)) {
		snprintf(buffer, bytes, "%s", json_is_true(value) ? "yes" : "no");
	} else if (json_is_number(value) && kind == WEIR_SHOW_DURATION) {
		double ms = json_number_value(value);
		char duration[WEIR_DURATION_BYTES];

		snprintf(buffer, bytes, "%s",
			weir_duration_text(ms > 0 && ms < 1e18 ? (uint64_t)ms : 0, duration));
	} else if (json_is_number(value) && kind == WEIR_SHOW_DECIMAL) {
		snprintf(buffer, bytes, "%.3f", json_number_value(value));
	} else if (json_is_number(value) && (kind == WEIR_SHOW_PERCENT || json_is_real(value))) {
		real_text(json_number_value(value), buffer, bytes);
	} else if (json_is_integer(value)) {
		snprintf(buffer, bytes, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	} else if (json_is_array(value)) {
		array_text(value, buffer, bytes);
	} else {
		text = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
		weir_terminal_text(text != NULL ? text : "-", buffer, bytes);
		free(text);
	}
	return buffer;
}

static const json_t *lookup(const json_t *row, const char *key) {
	const char *dot = strchr(key, '.');
	char outer[64];

	if (dot == NULL) {
		return json_object_get(row, key);
	}
	snprintf(outer, sizeof(outer), "%.*s", (int)(dot - key), key);
	return lookup(json_object_get(row, outer), dot + 1);
}

const char *weir_show_cell(
	const json_t *row, const struct weir_show_column *column, char *buffer, size_t bytes) {
	return weir_show_value(lookup(row, column->key), column->kind, buffer, bytes);
}

void weir_show_table(FILE *out, const json_t *rows, const struct weir_show_column *columns,
	uint32_t count, const char *nothing) {
	struct weir_text_table_column heads[WEIR_SHOW_COLUMNS_MAX];
	char text[WEIR_SHOW_COLUMNS_MAX][CELL];
	const char *cells[WEIR_SHOW_COLUMNS_MAX];
	struct weir_text_table *table;
	json_t *row;
	size_t i;

	if (json_array_size(rows) == 0) {
		fprintf(out, "%s\n", nothing);
		return;
	}
	for (uint32_t c = 0; c < count; c++) {
		heads[c] = (struct weir_text_table_column){
			columns[c].header, columns[c].kind == WEIR_SHOW_NUMBER ||
						   columns[c].kind == WEIR_SHOW_PERCENT ||
						   columns[c].kind == WEIR_SHOW_DECIMAL ||
						   columns[c].kind == WEIR_SHOW_DURATION};
		cells[c] = text[c];
	}
	table = weir_text_table_create(heads, count);
	json_array_foreach (rows, i, row) {
		for (uint32_t c = 0; c < count; c++) {
			weir_show_cell(row, &columns[c], text[c], CELL);
		}
		if (table == NULL || weir_text_table_add(table, cells)) {
			break;
		}
	}
	if (table != NULL) {
		weir_text_table_print(table, out);
	}
	weir_text_table_free(table);
}

// Print a text in lines, broken between words. indent: of the first line; that of the next lines is
// WRAP_INDENT.
static void wrap(FILE *out, const char *text, size_t indent, uint32_t width) {
	while (*text != '\0') {
		const size_t room = width > indent + 1 ? width - indent : 1;
		size_t bytes = strlen(text), line = bytes, shown;

		if (bytes > room) {
			for (line = room; line > 0 && text[line] != ' '; line--) {
			}
			line = line > 0 ? line : room; // break the word: it is longer than a line
		}
		for (shown = line; shown > 0 && text[shown - 1] == ' '; shown--) {
		}
		fprintf(out, "%*s%.*s\n", (int)indent, "", (int)shown, text);
		text += line;
		text += strspn(text, " ");
		indent = WRAP_INDENT;
	}
}

void weir_show_wrapped(FILE *out, const char *text, uint32_t width) {
	wrap(out, text, WRAP_INDENT, width);
}

void weir_show_hanging(FILE *out, const char *text, uint32_t width) {
	wrap(out, text, 0, width);
}

uint32_t weir_show_lines(const char *text) {
	uint32_t lines = 0;

	for (; (text = strchr(text, '\n')) != NULL; text++) {
		lines++;
	}
	return lines;
}

void weir_show_line(FILE *out, const char *line, size_t bytes, uint32_t columns) {
	size_t shown = bytes;

	if (bytes > columns) {
		shown = columns > 0 ? columns - 1 : 0;
		while (shown > 0 && line[shown] != ' ' && line[shown - 1] != ' ') {
			shown--;
		}
	}
	fprintf(out, "%.*s%s", (int)shown, line, shown < bytes ? ">" : "");
	// If the line fills the width, the escape sequence would erase its last character.
	fputs(shown + (shown < bytes) < columns ? "\033[K\n" : "\n", out);
}

// Returns the format of a member, which depends on its key. Durations are shown as text such as
// 15m12s; request times and settings are shown in milliseconds.
static enum weir_show_kind kind_of(const char *key) {
	static const char *const durations[] = {"since_ms", "age_ms", "agent_age_ms", "left_ms",
		"recount_ms", "idle_ms", "ejected_ms", "unchecked_ms", "admin_since_ms",
		"binds_refuse_ms"};

	for (size_t i = 0; i < COUNT(durations); i++) {
		if (strcmp(key, durations[i]) == 0) {
			return WEIR_SHOW_DURATION;
		}
	}
	return WEIR_SHOW_TEXT;
}

static void print_fields(FILE *out, const json_t *object, const char *prefix, int width) {
	char label[96], value_text[CELL];
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value) {
		const enum weir_show_kind kind = kind_of(key);
		char shown[64];

		weir_terminal_text(key, shown, sizeof(shown));
		if (kind == WEIR_SHOW_DURATION) {
			shown[strlen(shown) - strlen("_ms")] = '\0';
		}
		snprintf(label, sizeof(label), "%s%s", prefix, shown);
		if (json_is_object(value)) {
			char inner[96 + 2];

			snprintf(inner, sizeof(inner), "%s.", label);
			print_fields(out, value, inner, width);
			continue;
		}
		fprintf(out, "%-*s  %s\n", width, label,
			weir_show_value(value, kind, value_text, sizeof(value_text)));
	}
}

static int widest(const json_t *object, int prefix) {
	int width = 0;
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)object, key, value) {
		int own = prefix + (int)strlen(key) -
			  (kind_of(key) == WEIR_SHOW_DURATION ? (int)strlen("_ms") : 0);
		int inner = json_is_object(value) ? widest(value, own + 1) : own;

		width = inner > width ? inner : width;
	}
	return width > LABEL_MAX ? LABEL_MAX : width;
}

void weir_show_fields(FILE *out, const json_t *object) {
	print_fields(out, object, "", widest(object, 0));
}

void weir_show_record(const struct weir_cli *cli, json_t *result) {
	weir_show_fields(cli->out, result);
}

void weir_show_removed(FILE *out, const json_t *result, const char *noun, const char *verb) {
	const json_int_t count = json_integer_value(json_object_get(result, verb));
	const json_t *backend = json_object_get(result, "backend");
	char text[CELL];

	fprintf(out, "%" JSON_INTEGER_FORMAT " %s%s %s", count, noun, weir_plural((uint64_t)count),
		verb);
	if (json_is_string(backend)) {
		fprintf(out, ", of %s/",
			weir_show_value(json_object_get(result, "service"), WEIR_SHOW_TEXT, text,
				sizeof(text)));
		fprintf(out, "%s", weir_show_value(backend, WEIR_SHOW_TEXT, text, sizeof(text)));
	}
	fprintf(out, "\n");
}

bool weir_show_is_single(const struct weir_cli *cli, const json_t *rows) {
	const char *word = cli->count > 0 ? cli->words[0] : "/";

	return word[0] != '\0' && word[strlen(word) - 1] != '/' && json_array_size(rows) == 1;
}

void weir_show_warnings(FILE *out, const json_t *result) {
	const json_t *warnings = json_object_get(result, "warnings"), *warning;
	char text[256];
	size_t i;

	json_array_foreach (warnings, i, warning) {
		fprintf(out, "warning: %s\n",
			weir_show_value(warning, WEIR_SHOW_TEXT, text, sizeof(text)));
	}
}

void weir_show_change(const struct weir_cli *cli, json_t *result) {
	const json_t *drain = json_object_get(result, "drain");
	const json_t *left = json_object_get(drain, "left_ms");
	char service[80], backend[80], admin[32], flows[32], deadline[32];

	fprintf(cli->out, "%s/%s: %s, %s active flow%s",
		weir_show_value(json_object_get(result, "service"), WEIR_SHOW_TEXT, service,
			sizeof(service)),
		weir_show_value(json_object_get(result, "backend"), WEIR_SHOW_TEXT, backend,
			sizeof(backend)),
		weir_show_value(
			json_object_get(result, "admin"), WEIR_SHOW_TEXT, admin, sizeof(admin)),
		weir_show_value(json_object_get(result, "active_flows"), WEIR_SHOW_NUMBER, flows,
			sizeof(flows)),
		weir_plural((uint64_t)json_integer_value(json_object_get(result, "active_flows"))));
	if (json_is_number(left)) {
		fprintf(cli->out, ", deadline in %s (%s)",
			weir_show_value(left, WEIR_SHOW_DURATION, flows, sizeof(flows)),
			weir_show_value(json_object_get(drain, "at_deadline"), WEIR_SHOW_TEXT,
				deadline, sizeof(deadline)));
	}
	fputc('\n', cli->out);
	weir_show_warnings(cli->out, result);
}

void weir_show_weight(const struct weir_cli *cli, json_t *result) {
	const json_t *weight = json_object_get(result, "weight");
	const json_t *used = json_object_get(result, "policy_uses_weights");
	char service[80], backend[80], set[32], effective[32], policy[64];

	weir_show_value(weight, WEIR_SHOW_NUMBER, set, sizeof(set));
	fprintf(cli->out, "%s/%s: weight %s, effective %s",
		weir_show_value(json_object_get(result, "service"), WEIR_SHOW_TEXT, service,
			sizeof(service)),
		weir_show_value(json_object_get(result, "backend"), WEIR_SHOW_TEXT, backend,
			sizeof(backend)),
		json_is_null(weight) ? "configured" : set,
		weir_show_value(json_object_get(result, "effective_weight"), WEIR_SHOW_NUMBER,
			effective, sizeof(effective)));
	if (json_is_false(used)) {
		fprintf(cli->out, "; the policy %s ignores weights other than 0",
			weir_show_value(json_object_get(result, "policy"), WEIR_SHOW_TEXT, policy,
				sizeof(policy)));
	}
	fputc('\n', cli->out);
	weir_show_warnings(cli->out, result);
}

// Group workers by the backend that they would select. Returns an object {name of backend: [worker,
// ...]}, owned by the caller.
static json_t *workers_by_backend(const json_t *list) {
	json_t *backends = json_object(), *one;
	size_t i;

	json_array_foreach (list, i, one) {
		const char *name = json_string_value(json_object_get(one, "chosen"));
		json_t *workers;

		name = name != NULL ? name : "-";
		workers = json_object_get(backends, name);
		if (workers == NULL) {
			workers = json_array();
			json_object_set_new(backends, name, workers);
		}
		json_array_append(workers, json_object_get(one, "worker"));
	}
	return backends;
}

void weir_show_flow_lookup(const struct weir_cli *cli, json_t *result) {
	const json_t *list = json_object_get(result, "chosen_by_worker");

	if (json_is_array(list)) {
		json_object_set_new(result, "chosen_by_worker", workers_by_backend(list));
	} else {
		json_object_del(result, "chosen_by_worker");
	}
	json_object_del(result, "incomplete"); // printed on stderr
	weir_show_fields(cli->out, result);
}

void weir_show_flow_count(const struct weir_cli *cli, json_t *result) {
	static const struct weir_show_column columns[] = {
		{"SERVICE", "service", WEIR_SHOW_TEXT},
		{"BACKEND", "label", WEIR_SHOW_TEXT},
		{"ACTIVE-FLOWS", "active_flows", WEIR_SHOW_NUMBER},
	};

	weir_show_add_labels(result, "backend");
	weir_show_table(cli->out, result, columns, COUNT(columns), "no backends");
}

// Returns the effect of a change on open flows, if a reload applies the change: "break", "move" or
// "stay". Returns "" if there is no effect, or if the effect is unknown.
static const char *effect_of(const json_t *change) {
	const char *effect =
		json_string_value(json_object_get(json_object_get(change, "cost"), "effect"));

	return effect != NULL && json_object_get(change, "note") == NULL ? effect : "";
}

// Warn about changes that break or move open flows, and about open flows of a removed service or
// VIP.
static void warn_about_flows(FILE *err, const json_t *changes) {
	char what[CELL], text[COST];
	json_t *change;
	size_t i;

	json_array_foreach (changes, i, change) {
		const json_t *cost = json_object_get(change, "cost");
		const char *effect = effect_of(change);
		const bool breaks = strcmp(effect, "break") == 0 || strcmp(effect, "move") == 0;

		weir_show_value(
			json_object_get(change, "what"), WEIR_SHOW_TEXT, what, sizeof(what));
		if (breaks || (strcmp(effect, "stay") == 0 && strstr(what, " backend ") == NULL)) {
			fprintf(err, "warning: %s has %s\n", what,
				weir_show_value(json_object_get(cost, "text"), WEIR_SHOW_TEXT, text,
					sizeof(text)));
		}
	}
}

static void show_change_line(FILE *out, const json_t *change) {
	const char *kind = json_string_value(json_object_get(change, "kind"));
	const json_t *from = json_object_get(change, "from");
	const json_t *to = json_object_get(change, "to");
	const json_t *note = json_object_get(change, "note");
	const json_t *cost = json_object_get(json_object_get(change, "cost"), "text");
	char text[COST];

	fprintf(out, "%s ",
		kind == NULL                  ? "?"
		: strcmp(kind, "add") == 0    ? "+"
		: strcmp(kind, "remove") == 0 ? "-"
					      : "~");
	fputs(weir_show_value(json_object_get(change, "what"), WEIR_SHOW_TEXT, text, sizeof(text)),
		out);
	if (from != NULL) {
		fprintf(out, ": %s", weir_show_value(from, WEIR_SHOW_TEXT, text, sizeof(text)));
	}
	if (to != NULL) {
		fprintf(out, "%s%s", from != NULL ? " -> " : ": ",
			weir_show_value(to, WEIR_SHOW_TEXT, text, sizeof(text)));
	}
	if (note != NULL) {
		fprintf(out, " (%s", weir_show_value(note, WEIR_SHOW_TEXT, text, sizeof(text)));
	}
	if (cost != NULL) {
		fprintf(out, "%s%s", note != NULL ? "; " : " (",
			weir_show_value(cost, WEIR_SHOW_TEXT, text, sizeof(text)));
	}
	fputs(note != NULL || cost != NULL ? ")\n" : "\n", out);
}

void weir_show_changes(const struct weir_cli *cli, json_t *result) {
	const json_t *changes = json_object_get(result, "changes");
	const json_t *keys = json_object_get(result, "agent_keys");
	size_t count = json_array_size(changes), i;
	char file[CELL];
	json_t *change;

	weir_show_value(json_object_get(result, "file"), WEIR_SHOW_TEXT, file, sizeof(file));
	json_array_foreach (changes, i, change) {
		show_change_line(cli->out, change);
	}
	if (count == 0) {
		fprintf(cli->out, "no changes in %s\n", file);
	} else {
		fprintf(cli->out, "%zu change%s in %s\n", count, count == 1 ? "" : "s", file);
	}
	if (keys != NULL) {
		fprintf(cli->out, "agent keys: %lld read (%lld new, %lld removed)\n",
			(long long)json_integer_value(json_object_get(keys, "read")),
			(long long)json_integer_value(json_object_get(keys, "new")),
			(long long)json_integer_value(json_object_get(keys, "removed")));
	}
	weir_cli_print_errors(cli->err, file, " warning:", json_object_get(result, "warnings"));
	warn_about_flows(cli->err, changes);
}

void weir_show_waiting(const struct weir_cli *cli, json_t *result) {
	const json_t *changes = json_object_get(result, "changes");
	const json_t *restart = json_object_get(result, "restart");
	char breaks[32], open[32], text[WEIR_OLDER_FLOWS_BYTES];
	json_t *change;
	size_t i;

	json_array_foreach (changes, i, change) {
		show_change_line(cli->out, change);
	}
	if (json_array_size(changes) == 0) {
		const json_t *count = json_object_get(restart, "breaks");
		const json_t *older = json_object_get(restart, "older");

		fprintf(cli->out,
			"no changes wait for a restart; a restart of weir-dataplane now would "
			"break %s%s of %s open flows%s%s\n",
			json_integer_value(count) > 0 ? "up to " : "",
			json_integer_value(count) > 0
				? weir_show_value(count, WEIR_SHOW_NUMBER, breaks, sizeof(breaks))
				: "none",
			weir_show_value(json_object_get(restart, "open_flows"), WEIR_SHOW_NUMBER,
				open, sizeof(open)),
			json_is_integer(json_object_get(restart, "recount_ms")) ? " counted so far"
										: "",
			weir_older_flows_text((uint64_t)json_integer_value(older), text));
	}
}

void weir_show_reload(const struct weir_cli *cli, json_t *result) {
	const json_t *file = json_object_get(result, "file");
	const json_t *usual = json_object_get(result, "default_file");
	char read[CELL], usually[CELL];

	weir_show_changes(cli, result);
	if (json_is_string(usual) && !json_equal(file, usual)) {
		fprintf(cli->err,
			"%s is in use until weir-control restarts or reloads without a file; "
			"then %s is used\n",
			weir_show_value(file, WEIR_SHOW_TEXT, read, sizeof(read)),
			weir_show_value(usual, WEIR_SHOW_TEXT, usually, sizeof(usually)));
	}
}

void weir_show_add_time(json_t *row) {
	json_int_t ms = json_integer_value(json_object_get(row, "time_ms"));
	time_t seconds = (time_t)(ms / 1000);
	char text[64], day[40];
	struct tm local;

	if (localtime_r(&seconds, &local) != NULL &&
		strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &local) > 0) {
		snprintf(text, sizeof(text), "%s.%03u", day, (unsigned int)(ms % 1000));
		json_object_set_new(row, "time", json_string(text));
	}
}

void weir_show_version(const struct weir_cli *cli, json_t *result) {
	const json_t *dataplane = json_object_get(result, "dataplane");
	const char *unused = json_string_value(json_object_get(result, "config_unused"));
	char version[64], pid[32], config[CELL], epoch[64], workers[32], ports[32];

	fprintf(cli->out, "weirctl         %s\n", WEIR_VERSION);
	fprintf(cli->out, "weir-control    %s, pid %s, configuration %s\n",
		weir_show_value(json_object_get(result, "version"), WEIR_SHOW_TEXT, version,
			sizeof(version)),
		weir_show_value(json_object_get(result, "pid"), WEIR_SHOW_TEXT, pid, sizeof(pid)),
		weir_show_value(
			json_object_get(result, "config"), WEIR_SHOW_TEXT, config, sizeof(config)));
	if (unused != NULL) {
		fprintf(cli->out, "                %s\n", unused);
	}
	if (!json_is_true(json_object_get(dataplane, "attached"))) {
		fprintf(cli->out, "weir-dataplane  not attached\n");
		return;
	}
	fprintf(cli->out, "weir-dataplane  pid %s, epoch %s, workers %s, ports %s\n",
		weir_show_value(
			json_object_get(dataplane, "pid"), WEIR_SHOW_TEXT, pid, sizeof(pid)),
		weir_show_value(
			json_object_get(dataplane, "epoch"), WEIR_SHOW_TEXT, epoch, sizeof(epoch)),
		weir_show_value(json_object_get(dataplane, "workers"), WEIR_SHOW_TEXT, workers,
			sizeof(workers)),
		weir_show_value(
			json_object_get(dataplane, "ports"), WEIR_SHOW_TEXT, ports, sizeof(ports)));
}
