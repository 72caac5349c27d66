// SPDX-License-Identifier: BSD-3-Clause
#include "top_view.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "append.h"
#include "show_narrow.h"
#include "stats.h"
#include "terminal.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))
#define EVENTS 5u // number of events shown
#define BACKEND_LINES 4u // minimum number of lines for backends: a header and three rows

// --- a view -------------------------------------------------------------------------------------

// Returns the last EVENTS events, newest first, because the whole list can have a thousand events.
// Entries that the history of a service begins there are no events. The caller owns the returned
// list.
static json_t *last_of(json_t *events) {
	json_t *last = json_array();

	for (size_t i = json_array_size(events); i > 0 && json_array_size(last) < EVENTS; i--) {
		json_t *event = json_array_get(events, i - 1);
		const char *source = json_string_value(json_object_get(event, "source"));

		if (source == NULL || strcmp(source, "history") != 0) {
			weir_show_add_time(event);
			json_array_append(last, event);
		}
	}
	return last;
}

json_t *weir_top_between(
	const json_t *before, const json_t *after, json_t *worker_rows, json_t *events) {
	json_t *view = weir_stats_rates(before, after);

	if (view != NULL) {
		json_object_set(view, "worker_rows", worker_rows);
		json_object_set_new(view, "events", last_of(events));
	}
	return view;
}

static const char *text_of(const json_t *row, const char *key) {
	const char *text = json_string_value(json_object_get(row, key));

	return text != NULL ? text : "";
}

static int by_name(const json_t *a, const json_t *b) {
	int order = strcmp(text_of(a, "service"), text_of(b, "service"));

	return order != 0 ? order : strcmp(text_of(a, "name"), text_of(b, "name"));
}

static int by_number(const json_t *a, const json_t *b, const char *key) {
	double left = json_number_value(json_object_get(a, key));
	double right = json_number_value(json_object_get(b, key));

	return left != right ? (left < right ? 1 : -1) : by_name(a, b);
}

static int compare_new_flows(const void *a, const void *b) {
	return by_number(*(json_t *const *)a, *(json_t *const *)b, "new_flows");
}

static int compare_packets(const void *a, const void *b) {
	return by_number(*(json_t *const *)a, *(json_t *const *)b, "packets");
}

static int compare_active(const void *a, const void *b) {
	return by_number(*(json_t *const *)a, *(json_t *const *)b, "active_flows");
}

static int compare_weight(const void *a, const void *b) {
	return by_number(*(json_t *const *)a, *(json_t *const *)b, "effective_weight");
}

static int compare_name(const void *a, const void *b) {
	return by_name(*(json_t *const *)a, *(json_t *const *)b);
}

void weir_top_sort_backends(json_t *view, enum weir_top_sort sort) {
	static int (*const compare[])(const void *, const void *) = {
		[WEIR_TOP_NEW_FLOWS] = compare_new_flows,
		[WEIR_TOP_PACKETS] = compare_packets,
		[WEIR_TOP_ACTIVE] = compare_active,
		[WEIR_TOP_WEIGHT] = compare_weight,
		[WEIR_TOP_NAME] = compare_name,
	};
	const json_t *backends = json_object_get(view, "backends");
	size_t count = json_array_size(backends);
	json_t **rows = sort != WEIR_TOP_SERVICE ? calloc(count + 1, sizeof(*rows)) : NULL;
	json_t *sorted = sort == WEIR_TOP_SERVICE ? weir_show_by_service(backends) : json_array();

	for (size_t i = 0; rows != NULL && i < count; i++) {
		rows[i] = json_array_get(backends, i);
	}
	if (rows != NULL && sorted != NULL) {
		qsort(rows, count, sizeof(*rows), compare[sort]);
		for (size_t i = 0; i < count; i++) {
			json_array_append(sorted, rows[i]);
		}
	}
	if (backends != NULL && (rows != NULL || sort == WEIR_TOP_SERVICE)) {
		json_object_set(view, "backends", sorted);
	}
	json_decref(sorted);
	free(rows);
}

// --- tables -------------------------------------------------------------------------------------

static void print_workers(FILE *out, const json_t *view, uint32_t width) {
	static const struct weir_show_choice choices[] = {
		{{"WORKER", "worker", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"CORE", "core", WEIR_SHOW_NUMBER}, NULL, 2},
		{{"ALIVE", "alive", WEIR_SHOW_FLAG}, NULL, 0},
		{{"BUSY-%", "busy_percent", WEIR_SHOW_PERCENT}, NULL, 0},
		{{"FLOWS", "flows", WEIR_SHOW_NUMBER}, NULL, 3},
		{{"HALF-OPEN", "flows_half_open", WEIR_SHOW_NUMBER}, NULL, 1},
	};
	const json_t *rows = json_object_get(view, "worker_rows");

	weir_show_fitted(out, rows, rows, choices, COUNT(choices), "no workers", width);
}

static int compare_drops(const void *a, const void *b) {
	return by_number(*(json_t *const *)a, *(json_t *const *)b, "n");
}

static json_t *sorted_drops(const json_t *view) {
	json_t *row[64], *rows = json_array(), *n;
	const char *reason;
	size_t count = 0;

	json_object_foreach (json_object_get(view, "drops"), reason, n) {
		if (json_number_value(n) > 0 && count < COUNT(row)) {
			row[count++] = json_pack("{s:s, s:O}", "name", reason, "n", n);
		}
	}
	qsort(row, count, sizeof(*row), compare_drops);
	for (size_t i = 0; i < count; i++) {
		json_array_append_new(rows, row[i]);
	}
	return rows;
}

// Write the duration without drops as text.
static void describe_quiet(const json_t *quiet, char *text, size_t bytes) {
	const json_t *ms = json_object_get(quiet, "ms"), *total = json_object_get(quiet, "total");
	const char *since = text_of(quiet, "since");
	char duration[64];

	weir_show_value(ms, WEIR_SHOW_DURATION, duration, sizeof(duration));
	if (strcmp(since, "dataplane") == 0 && json_is_integer(ms)) {
		snprintf(text, bytes, "no drops since weir-dataplane started, %s ago", duration);
	} else if (strcmp(since, "dataplane") == 0) {
		snprintf(text, bytes, "no drops since weir-dataplane started");
	} else if (strcmp(since, "top") == 0) {
		snprintf(text, bytes,
			"no drops since top started, %s ago (%" JSON_INTEGER_FORMAT " before)",
			duration, json_integer_value(total));
	} else {
		snprintf(text, bytes, "no drops for %s", duration);
	}
}

static void print_drops(FILE *out, const json_t *view, uint32_t width) {
	static const struct weir_show_column columns[] = {
		{"DROP-REASON", "name", WEIR_SHOW_TEXT}, {"PACKETS/S", "n", WEIR_SHOW_NUMBER}};
	json_t *rows = sorted_drops(view);
	char quiet[128];

	(void)width;
	describe_quiet(json_object_get(view, "no_drops"), quiet, sizeof(quiet));
	weir_show_table(out, rows, columns, COUNT(columns), quiet);
	json_decref(rows);
}

static void print_services(FILE *out, const json_t *view, uint32_t width) {
	static const struct weir_show_choice choices[] = {
		{{"SERVICE", "name", WEIR_SHOW_TEXT}, NULL, 0},
		{{"BACKENDS", "backends", WEIR_SHOW_NUMBER}, NULL, 3},
		{{"ELIGIBLE", "eligible", WEIR_SHOW_NUMBER}, NULL, 0},
		{{"PANIC", "panic", WEIR_SHOW_FLAG}, NULL, 4},
		{{"ACTIVE", "active_flows", WEIR_SHOW_NUMBER}, NULL, 2},
		{{"NEW/S", "new_flows", WEIR_SHOW_NUMBER}, NULL, 6},
		{{"PACKETS/S", "packets", WEIR_SHOW_NUMBER}, NULL, 1},
		{{"DROPPED/S", "dropped", WEIR_SHOW_NUMBER}, NULL, 5},
	};
	const json_t *rows = json_object_get(view, "services");

	weir_show_fitted(out, rows, rows, choices, COUNT(choices), "no services", width);
}

static const struct weir_show_choice backend_columns[] = {
	{{"SERVICE", "service", WEIR_SHOW_TEXT}, NULL, 8},
	{{"BACKEND", "label", WEIR_SHOW_TEXT}, NULL, 0},
	{{"ADMIN", "admin", WEIR_SHOW_TEXT}, "ready", 7},
	{{"HEALTH", "condition", WEIR_SHOW_TEXT}, NULL, 0},
	{{"WEIGHT", "effective_weight", WEIR_SHOW_NUMBER}, NULL, 2},
	{{"SHARE-%", "share_percent", WEIR_SHOW_PERCENT}, NULL, 1},
	{{"NEW/S", "new_flows", WEIR_SHOW_NUMBER}, NULL, 6},
	{{"PACKETS/S", "packets", WEIR_SHOW_NUMBER}, NULL, 3},
	{{"ACTIVE", "active_flows", WEIR_SHOW_NUMBER}, NULL, 4},
	{{"ERRORS/S", "errors", WEIR_SHOW_NUMBER}, NULL, 5},
};

// Adds the texts that the table shows to the rows: the label, and the health, or "leaving" for a
// removed backend, whose health is that of its removal.
static void prepare_backends(const json_t *backends) {
	json_t *row;
	size_t i;

	weir_show_add_labels(backends, "name");
	json_array_foreach (backends, i, row) {
		json_object_set_new(row, "condition",
			json_string(json_is_true(json_object_get(row, "leaving"))
					    ? "leaving"
					    : text_of(row, "health")));
	}
}

// Print all backends, or the backends that fit on the screen. The columns are chosen for all
// backends, so that the columns do not change while scrolling.
static void print_backends(FILE *out, const json_t *view, uint32_t width) {
	const json_t *all = json_object_get(view, "backends");
	const json_t *shown = json_object_get(view, "shown");

	weir_show_fitted(out, all, shown != NULL ? shown : all, backend_columns,
		COUNT(backend_columns), "no backends", width);
}

// Returns a short form of a time: the time of day if it is today, otherwise month, day, hour and
// minute.
static json_t *clock_of(const char *when) {
	const time_t now = time(NULL);
	char today[16] = "";
	struct tm local;

	if (localtime_r(&now, &local) != NULL) {
		strftime(today, sizeof(today), "%Y-%m-%d", &local);
	}
	return strlen(when) < strlen("2026-11-22 20:41:07") ? json_string(when)
	       : strncmp(when, today, strlen(today)) == 0   ? json_stringn(when + 11, 8)
							    : json_stringn(when + 5, 11);
}

// Puts the source of an event of a backend before its reason, such as "shed: done, 13 connections
// ended". The reason of a health check gets no source.
static void name_source(json_t *row) {
	const char *source = text_of(row, "source"), *why = text_of(row, "why");

	if (source[0] != '\0' && strcmp(source, "check") != 0) {
		json_object_set_new(row, "why",
			json_sprintf("%s%s%s", source, why[0] != '\0' ? ": " : "", why));
	}
}

static void print_events(FILE *out, const json_t *view, uint32_t width) {
	static const struct weir_show_choice choices[] = {
		{{"EVENT", "time", WEIR_SHOW_TEXT}, NULL, 0},
		{{"SERVICE", "service", WEIR_SHOW_TEXT}, NULL, 2},
		{{"BACKEND", "backend", WEIR_SHOW_TEXT}, NULL, 0},
		{{"FROM", "from", WEIR_SHOW_TEXT}, NULL, 1},
		{{"TO", "to", WEIR_SHOW_TEXT}, NULL, 0},
	};
	static const struct weir_show_choice why = {{"WHY", "why", WEIR_SHOW_TEXT}, NULL, 0};
	struct weir_show_choice all[COUNT(choices) + 1];
	json_t *rows = json_array(), *event;
	size_t i;

	json_array_foreach (json_object_get(view, "events"), i, event) {
		json_t *row = json_copy(event);

		if (json_is_null(json_object_get(row, "to"))) {
			// An event of a service has no member `to`, only a source, such as "up",
			// "drain" or "backups".
			json_object_set(row, "to", json_object_get(row, "source"));
		} else {
			name_source(row);
		}
		if (width > 0) {
			json_object_set_new(row, "time", clock_of(text_of(event, "time")));
		}
		json_array_append_new(rows, row);
	}
	memcpy(all, choices, sizeof(choices));
	all[COUNT(choices)] = why;
	weir_show_fitted(out, rows, rows, all, COUNT(all), "no events", width);
	json_decref(rows);
}

void weir_top_print(FILE *out, const json_t *view, uint32_t width) {
	prepare_backends(json_object_get(view, "backends"));
	print_workers(out, view, width);
	fputc('\n', out);
	print_drops(out, view, width);
	fputc('\n', out);
	print_services(out, view, width);
	fputc('\n', out);
	print_backends(out, view, width);
	fputc('\n', out);
	print_events(out, view, width);
}

// --- faults -------------------------------------------------------------------------------------

static const char *level_of(const json_t *status) {
	const char *level = text_of(status, "level");

	return level[0] != '\0' ? level : "ok";
}

// Append the texts of the status's reasons, the worst first. except: text of a reason to leave out.
// separator: is written before the first text.
static void append_reasons(
	const json_t *status, const char *except, const char *separator, char *text, size_t bytes) {
	static const char *const levels[] = {"critical", "unknown", "warning", "ok"};
	char shown[512];
	json_t *reason;
	size_t i;

	for (size_t k = 0; k < COUNT(levels); k++) {
		json_array_foreach (json_object_get(status, "reasons"), i, reason) {
			const char *said = text_of(reason, "text");

			if (strcmp(level_of(reason), levels[k]) == 0 && strcmp(said, except) != 0) {
				weir_append(text, bytes, "%s%s", separator,
					weir_terminal_text(said, shown, sizeof(shown)));
				separator = "; ";
			}
		}
	}
}

static const char *clock_text(time_t when, char text[16]) {
	struct tm local;

	text[0] = '\0';
	if (localtime_r(&when, &local) != NULL) {
		strftime(text, 16, "%H:%M:%S", &local);
	}
	return text;
}

static void describe_outage(
	const json_t *status, const struct weir_top_outage *outage, char *text, size_t bytes) {
	const json_t *control = json_object_get(status, "control");
	const char *why = text_of(control, "why");
	char shown[256], since[16];

	if (json_is_false(json_object_get(control, "answers"))) {
		const bool silent = strstr(why, "does not answer") != NULL;

		weir_append(text, bytes, "weir-control %s since %s",
			silent ? "has not answered" : "has been down",
			clock_text(outage->since, since));
		if (!silent && strcmp(why, "weir-control is not running") != 0) {
			weir_append(text, bytes, " (%s)",
				weir_terminal_text(why, shown, sizeof(shown)));
		}
		append_reasons(status, why, "; ", text, bytes);
	} else {
		weir_append(
			text, bytes, "no new values since %s", clock_text(outage->since, since));
		append_reasons(status, "", ": ", text, bytes);
		if (strcmp(level_of(status), "ok") == 0) {
			weir_append(text, bytes, ": %s",
				weir_terminal_text(outage->why, shown, sizeof(shown)));
		}
	}
	if (outage->figures != 0) {
		weir_append(text, bytes, "; values shown are from %s",
			clock_text(outage->figures, since));
	}
	weir_append(text, bytes, "; trying again");
}

void weir_top_banner(
	const json_t *status, const struct weir_top_outage *outage, char *banner, size_t bytes) {
	const char *level = level_of(status);

	banner[0] = '\0';
	if (outage->since == 0 && strcmp(level, "ok") == 0 &&
		json_array_size(json_object_get(status, "reasons")) == 0) {
		return;
	}
	weir_append(banner, bytes,
		"%s: ", outage->since != 0 && strcmp(level, "ok") == 0 ? "unknown" : level);
	for (char *c = banner; *c != '\0'; c++) {
		*c = (char)toupper((unsigned char)*c);
	}
	if (outage->since != 0) {
		describe_outage(status, outage, banner, bytes);
	} else {
		append_reasons(status, "", "", banner, bytes);
	}
}

// --- a screen -----------------------------------------------------------------------------------

static char *text_by(void (*print)(FILE *out, const json_t *view, uint32_t width),
	const json_t *view, uint32_t width) {
	char *text = NULL;
	size_t bytes;
	FILE *memory = open_memstream(&text, &bytes);

	if (memory == NULL) {
		return NULL;
	}
	print(memory, view, width);
	fclose(memory);
	return text;
}

#define BOLD "\033[1m"
#define RED "\033[1;31m"
#define YELLOW "\033[33m"
#define GREY "\033[90m"
#define PLAIN "\033[0m"

static const char *worker_style(const json_t *row) {
	return json_is_false(json_object_get(row, "alive")) ? RED : "";
}

static const char *service_style(const json_t *row) {
	json_int_t eligible = json_integer_value(json_object_get(row, "eligible"));

	if (eligible == 0 || json_is_true(json_object_get(row, "panic"))) {
		return RED;
	}
	return eligible < json_integer_value(json_object_get(row, "backends")) ? YELLOW : "";
}

static const char *backend_style(const json_t *row) {
	const char *health = text_of(row, "condition");

	if (strcmp(health, "refusing") == 0 || json_is_true(json_object_get(row, "ejected"))) {
		return RED;
	}
	return strcmp(text_of(row, "admin"), "ready") != 0 || strcmp(health, "healthy") != 0
		       ? YELLOW
		       : "";
}

struct section {
	void (*print)(FILE *out, const json_t *view, uint32_t width);
	// Key of the rows of this section in the view; NULL = the lines have no colours.
	const char *key;
	const char *(*style)(const json_t *row);
	char *text;
	uint32_t most; // maximum number of lines
	uint32_t lines; // number of lines assigned to this section
};

static void put_line(FILE *out, const char *line, size_t bytes, const char *style,
	const struct weir_top_screen *screen) {
	style = screen->colour ? style : "";
	fputs(style, out);
	weir_show_line(out, line, bytes, screen->columns);
	fputs(style[0] != '\0' ? PLAIN : "", out);
}

// Print at most `lines` lines of a section, each truncated to the width of the screen. rows: the
// rows that follow the header, which determine the colours; NULL = no colours.
static void put(FILE *out, const struct section *section, uint32_t lines, const json_t *rows,
	const struct weir_top_screen *screen) {
	const char *text = section->text;
	const bool styled = json_array_size(rows) > 0;

	for (uint32_t i = 0; text != NULL && *text != '\0' && i < lines; i++) {
		size_t bytes = strcspn(text, "\n");

		put_line(out, text, bytes,
			screen->stale            ? GREY
			: !styled                ? ""
			: i == 0                 ? BOLD
			: section->style != NULL ? section->style(json_array_get(rows, i - 1))
						 : "",
			screen);
		text += bytes + (text[bytes] == '\n');
	}
}

// Print a text on at most `lines` lines, broken between words. Returns the number of printed lines.
static uint32_t put_words(FILE *out, const char *text, uint32_t lines, const char *style,
	const struct weir_top_screen *screen) {
	uint32_t n = 0;

	for (; *text != '\0' && n < lines; n++) {
		size_t bytes = strlen(text), part = bytes;

		if (bytes > screen->columns && n + 1 < lines) {
			for (part = screen->columns; part > 0 && text[part] != ' ';) {
				part--;
			}
			part = part > 0 ? part : bytes;
		}
		put_line(out, text, part, style, screen);
		text += part + strspn(text + part, " ");
	}
	return n;
}

// Assign to each section, in this order, the lines that it needs, or no line if fewer than
// BACKEND_LINES would remain for the backends. rows: lines of the screen. Returns the number of
// remaining lines.
static uint32_t share_out(struct section *sections, uint32_t count, const uint32_t *order,
	const json_t *view, uint32_t rows, uint32_t width) {
	for (uint32_t i = 0; i < count; i++) {
		struct section *section = &sections[order[i]];
		uint32_t lines;

		section->text = text_by(section->print, view, width);
		lines = section->text != NULL ? weir_show_lines(section->text) : 0;
		lines = lines < section->most ? lines : section->most;
		section->lines = rows >= lines + BACKEND_LINES ? lines : 0;
		rows -= section->lines;
	}
	return rows;
}

// Print a section. The last line of a truncated section shows how many lines are missing.
static void put_section(FILE *out, const struct section *section, const json_t *view,
	const struct weir_top_screen *screen) {
	const json_t *rows = section->key != NULL ? json_object_get(view, section->key) : NULL;
	const uint32_t all = section->text != NULL ? weir_show_lines(section->text) : 0;
	char rest[32];

	if (all <= section->lines || section->lines == 0) {
		put(out, section, section->lines, rows, screen);
		return;
	}
	put(out, section, section->lines - 1, rows, screen);
	snprintf(rest, sizeof(rest), "... %u more", all - section->lines + 1);
	put_line(out, rest, strlen(rest), screen->stale ? GREY : "", screen);
}

// Print the backends that fit. If there are more and at least two lines for backends, the last line
// shows how many backends above and below are hidden.
static void put_backends(
	FILE *out, const json_t *view, uint32_t lines, struct weir_top_screen *screen) {
	json_t *all = json_object_get(view, "backends"), *rows = json_array(), *part;
	uint32_t count = (uint32_t)json_array_size(all), shown = lines > 1 ? lines - 1 : 0;
	struct section section = {.style = backend_style};
	const bool scrolls = count > shown && shown > 1;
	char rest[64];

	shown = scrolls ? shown - 1 : shown < count ? shown : count;
	if (screen->first + shown > count) {
		screen->first = count - shown;
	}
	for (uint32_t i = screen->first; i < screen->first + shown; i++) {
		json_array_append_new(rows, json_copy(json_array_get(all, i)));
	}
	weir_show_service_once(rows);
	part = json_pack("{s:O?, s:O}", "backends", all, "shown", rows);
	// Do not print an empty list: its text "no backends" would be wrong.
	section.text =
		shown > 0 || count == 0 ? text_by(print_backends, part, screen->columns) : NULL;
	put(out, &section, lines, rows, screen);
	if (scrolls) {
		const uint32_t above = screen->first, below = count - above - shown;

		snprintf(rest, sizeof(rest), "... ");
		if (above > 0) {
			weir_append(rest, sizeof(rest), "%u more above (k)%s", above,
				below > 0 ? ", " : "");
		}
		if (below > 0) {
			weir_append(rest, sizeof(rest), "%u more below (j)", below);
		}
		put_line(out, rest, strlen(rest), screen->stale ? GREY : "", screen);
	}
	free(section.text);
	json_decref(part);
	json_decref(rows);
}

static void put_sections(
	FILE *out, const json_t *view, uint32_t rows, struct weir_top_screen *screen) {
	struct section sections[] = {{print_workers, "worker_rows", worker_style, .most = 9},
		{print_drops, .most = 6}, {print_services, "services", service_style, .most = 9},
		{print_events, "events", NULL, .most = EVENTS + 1}};
	static const uint32_t order[] = {2, 1, 0, 3};

	rows = share_out(sections, COUNT(sections), order, view, rows, screen->columns);
	for (uint32_t i = 0; i < 3; i++) {
		put_section(out, &sections[i], view, screen);
	}
	put_backends(out, view, rows, screen);
	put_section(out, &sections[3], view, screen);
	for (uint32_t i = 0; i < COUNT(sections); i++) {
		free(sections[i].text);
	}
}

// Returns whether the screen is wide enough for the name and the health of each backend. If it is
// not, writes a message with the required width to text.
static bool is_wide_enough(
	const json_t *view, const struct weir_top_screen *screen, char *text, size_t bytes) {
	uint32_t least = weir_show_least_width(
		json_object_get(view, "backends"), backend_columns, COUNT(backend_columns));

	if (least <= screen->columns) {
		return true;
	}
	snprintf(text, bytes, "too narrow: top needs %u columns for these backends", least);
	return false;
}

void weir_top_draw(FILE *out, const json_t *view, const char *title, const char *banner,
	struct weir_top_screen *screen) {
	const char *level = level_of(json_object_get(view, "status"));
	// Leave the last line empty: otherwise the terminal scrolls.
	uint32_t rows = screen->rows > 1 ? screen->rows - 1 : 0, most = rows / 4;
	char narrow[96];

	prepare_backends(json_object_get(view, "backends"));
	fputs("\033[H", out);
	if (banner[0] == '\0' || rows > BACKEND_LINES) {
		rows -= put_words(out, title, rows > 0, "", screen);
	}
	rows -= put_words(out, banner, most > 0 || rows == 0 ? most : 1,
		strcmp(level, "warning") == 0                ? YELLOW
		: strcmp(level, "ok") == 0 && !screen->stale ? ""
							     : RED,
		screen);
	if (!is_wide_enough(view, screen, narrow, sizeof(narrow))) {
		put_words(out, narrow, rows, "", screen);
	} else if (json_object_get(view, "backends") != NULL) {
		put_sections(out, view, rows, screen);
	}
	fputs("\033[J", out);
}

void weir_top_draw_keys(FILE *out, const struct weir_top_screen *screen) {
	static const char text[] = "Keys of weirctl top\n\nOrder of the backends:\n"
#define X(name, word, help, key) "  %c  " help "\n"
		WEIR_TOP_SORTS(X)
#undef X
			"\nScroll the backends:\n"
			"  j k, arrows  by one line\n"
			"  space -      by ten lines\n"
			"  g            to the first backend\n"
			"\n  q  quit\n  ?  close this help\n";
	char keys[sizeof(text) + 16];
	const struct section section = {.text = keys};
	struct weir_top_screen fresh = *screen;

	snprintf(keys, sizeof(keys),
		text
#define X(name, word, help, key) , key
			WEIR_TOP_SORTS(X)
#undef X
	);
	fresh.stale = false;
	fputs("\033[H", out);
	put(out, &section, screen->rows > 1 ? screen->rows - 1 : 0, NULL, &fresh);
	fputs("\033[J", out);
}
