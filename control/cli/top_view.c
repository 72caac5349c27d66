// SPDX-License-Identifier: BSD-3-Clause
#include "top_view.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"
#include "stats.h"
#include "terminal.h"

#define COUNT(columns) (sizeof(columns) / sizeof((columns)[0]))
#define EVENTS 5u // shown
#define BACKEND_LINES 4u // minimum: their header and three rows

// --- a view -------------------------------------------------------------------------------------

// Only the last ones: there may be a thousand.
static json_t *last_of(json_t *events) {
	size_t count = json_array_size(events), first = count > EVENTS ? count - EVENTS : 0;
	json_t *last = json_array();

	for (size_t i = count; i > first; i--) { // newest first
		json_t *event = json_array_get(events, i - 1);

		weir_show_add_time(event);
		json_array_append(last, event);
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
	if (rows != NULL || sort == WEIR_TOP_SERVICE) {
		json_object_set(view, "backends", sorted);
	}
	json_decref(sorted);
	free(rows);
}

// --- tables -------------------------------------------------------------------------------------

static void print_workers(FILE *out, const json_t *view) {
	static const struct weir_show_column columns[] = {
		{"WORKER", "worker", WEIR_SHOW_NUMBER},
		{"CORE", "core", WEIR_SHOW_NUMBER},
		{"ALIVE", "alive", WEIR_SHOW_FLAG},
		{"BUSY-%", "busy_percent", WEIR_SHOW_PERCENT},
		{"FLOWS", "flows", WEIR_SHOW_NUMBER},
		{"HALF-OPEN", "flows_half_open", WEIR_SHOW_NUMBER},
	};

	weir_show_table(
		out, json_object_get(view, "worker_rows"), columns, COUNT(columns), "no workers");
}

static int compare_drops(const void *a, const void *b) {
	return by_number(*(json_t *const *)a, *(json_t *const *)b, "n");
}

static void print_drops(FILE *out, const json_t *view) {
	static const struct weir_show_column columns[] = {
		{"DROP-REASON", "name", WEIR_SHOW_TEXT}, {"PACKETS/S", "n", WEIR_SHOW_NUMBER}};
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
	weir_show_table(out, rows, columns, COUNT(columns), "no drops since the previous update");
	json_decref(rows);
}

static void print_services(FILE *out, const json_t *view) {
	static const struct weir_show_column columns[] = {
		{"SERVICE", "name", WEIR_SHOW_TEXT},
		{"BACKENDS", "backends", WEIR_SHOW_NUMBER},
		{"ELIGIBLE", "eligible", WEIR_SHOW_NUMBER},
		{"PANIC", "panic", WEIR_SHOW_FLAG},
		{"ACTIVE", "active_flows", WEIR_SHOW_NUMBER},
		{"NEW-FLOWS/S", "new_flows", WEIR_SHOW_NUMBER},
		{"PACKETS/S", "packets", WEIR_SHOW_NUMBER},
		{"DROPPED/S", "dropped", WEIR_SHOW_NUMBER},
	};

	weir_show_table(
		out, json_object_get(view, "services"), columns, COUNT(columns), "no services");
}

static void print_backends(FILE *out, const json_t *rows) {
	static const struct weir_show_column columns[] = {
		{"SERVICE", "service", WEIR_SHOW_TEXT},
		{"BACKEND", "name", WEIR_SHOW_TEXT},
		{"ADMIN", "admin", WEIR_SHOW_TEXT},
		{"HEALTH", "health", WEIR_SHOW_TEXT},
		{"WEIGHT", "effective_weight", WEIR_SHOW_NUMBER},
		{"SHARE-%", "share_percent", WEIR_SHOW_PERCENT},
		{"NEW/S", "new_flows", WEIR_SHOW_NUMBER},
		{"PACKETS/S", "packets", WEIR_SHOW_NUMBER},
		{"ACTIVE", "active_flows", WEIR_SHOW_NUMBER},
		{"ERRORS/S", "errors", WEIR_SHOW_NUMBER},
	};

	weir_show_table(out, rows, columns, COUNT(columns), "no backends");
}

static void print_events(FILE *out, const json_t *view) {
	static const struct weir_show_column columns[] = {
		{"EVENT", "time", WEIR_SHOW_TEXT},
		{"SERVICE", "service", WEIR_SHOW_TEXT},
		{"BACKEND", "backend", WEIR_SHOW_TEXT},
		{"FROM", "from", WEIR_SHOW_TEXT},
		{"TO", "to", WEIR_SHOW_TEXT},
		{"WHY", "why", WEIR_SHOW_TEXT},
	};

	weir_show_table(out, json_object_get(view, "events"), columns, COUNT(columns), "no events");
}

static const char *level_of(const json_t *view) {
	return text_of(json_object_get(view, "status"), "level");
}

void weir_top_add_faults(const json_t *view, char *title, size_t bytes) {
	const char *level = level_of(view);
	size_t clock = strlen("top 12:00:00  "), i;
	char shown[256];
	json_t *reason;

	if (level[0] == '\0' || strcmp(level, "ok") == 0 || strlen(title) < clock) {
		return;
	}
	snprintf(title + clock, bytes - clock, "%s", level); // instead of the keys
	for (char *c = title + clock; *c != '\0'; c++) {
		*c = (char)toupper((unsigned char)*c);
	}
	json_array_foreach (
		json_object_get(json_object_get(view, "status"), "reasons"), i, reason) {
		size_t used = strlen(title);

		snprintf(title + used, bytes - used, "%s%s", i > 0 ? "; " : ": ",
			weir_terminal_text(text_of(reason, "text"), shown, sizeof(shown)));
	}
}

void weir_top_print(FILE *out, const json_t *view) {
	print_workers(out, view);
	fputc('\n', out);
	print_drops(out, view);
	fputc('\n', out);
	print_services(out, view);
	fputc('\n', out);
	print_backends(out, json_object_get(view, "backends"));
	fputc('\n', out);
	print_events(out, view);
}

// --- a screen -----------------------------------------------------------------------------------

static char *text_by(void (*print)(FILE *out, const json_t *part), const json_t *part) {
	char *text = NULL;
	size_t bytes;
	FILE *memory = open_memstream(&text, &bytes);

	if (memory == NULL) {
		return NULL;
	}
	print(memory, part);
	fclose(memory);
	return text;
}

#define BOLD "\033[1m"
#define RED "\033[1;31m"
#define YELLOW "\033[33m"

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
	const char *health = text_of(row, "health");

	if (strcmp(health, "refusing") == 0 || json_is_true(json_object_get(row, "ejected"))) {
		return RED;
	}
	return strcmp(text_of(row, "admin"), "ready") != 0 || strcmp(health, "healthy") != 0
		       ? YELLOW
		       : "";
}

// Print at most this many lines, each cut to the columns. rows: of the lines after the first; NULL:
// without styles.
static void put(FILE *out, const char *text, uint32_t lines, const struct weir_top_screen *screen,
	const json_t *rows, const char *(*style)(const json_t *row)) {
	const bool styled = screen->colour && json_array_size(rows) > 0;

	for (uint32_t i = 0; text != NULL && *text != '\0' && i < lines; i++) {
		size_t line = strcspn(text, "\n");
		const char *mark = !styled         ? ""
				   : i == 0        ? BOLD
				   : style != NULL ? style(json_array_get(rows, i - 1))
						   : "";

		fputs(mark, out);
		weir_show_line(out, text, line, screen->columns);
		fputs(mark[0] != '\0' ? "\033[0m" : "", out);
		text += line + (text[line] == '\n');
	}
}

struct section {
	void (*print)(FILE *out, const json_t *view);
	const char *key; // of its rows in the view; NULL = without styles
	const char *(*style)(const json_t *row);
	char *text;
	uint32_t most; // lines
	uint32_t lines; // lines assigned to it
};

// Assign lines to each section by importance; backends keep BACKEND_LINES. Returns the remaining
// lines.
static uint32_t share_out(struct section *sections, uint32_t count, const uint32_t *order,
	const json_t *view, uint32_t rows) {
	for (uint32_t i = 0; i < count; i++) {
		struct section *section = &sections[order[i]];
		uint32_t lines;

		section->text = text_by(section->print, view);
		lines = section->text != NULL ? weir_show_lines(section->text) : 0;
		lines = lines < section->most ? lines : section->most;
		section->lines = rows >= lines + BACKEND_LINES ? lines : 0;
		rows -= section->lines;
	}
	return rows;
}

// A truncated section shows how many lines are missing.
static void put_section(FILE *out, const struct section *section, const json_t *view,
	const struct weir_top_screen *screen) {
	const json_t *rows = section->key != NULL ? json_object_get(view, section->key) : NULL;
	const uint32_t all = section->text != NULL ? weir_show_lines(section->text) : 0;
	char rest[32];

	if (all <= section->lines || section->lines == 0) {
		put(out, section->text, section->lines, screen, rows, section->style);
		return;
	}
	put(out, section->text, section->lines - 1, screen, rows, section->style);
	snprintf(rest, sizeof(rest), "... %u more\n", all - section->lines + 1);
	put(out, rest, 1, screen, NULL, NULL);
}

static void put_backends(
	FILE *out, const json_t *view, uint32_t lines, struct weir_top_screen *screen) {
	const json_t *all = json_object_get(view, "backends");
	uint32_t count = (uint32_t)json_array_size(all), shown = lines > 1 ? lines - 1 : 0;
	json_t *rows = json_array();
	char *text;

	if (screen->first + shown > count) {
		screen->first = count > shown ? count - shown : 0;
	}
	for (uint32_t i = screen->first; i < count && i < screen->first + shown; i++) {
		json_array_append_new(rows, json_copy(json_array_get(all, i)));
	}
	weir_show_service_once(rows);
	// Without a row it would print that there are none.
	text = shown > 0 || count == 0 ? text_by(print_backends, rows) : NULL;
	put(out, text, lines, screen, rows, backend_style);
	free(text);
	json_decref(rows);
}

void weir_top_draw(
	FILE *out, const json_t *view, const char *title, struct weir_top_screen *screen) {
	struct section sections[] = {{print_workers, "worker_rows", worker_style, .most = 9},
		{print_drops, .most = 6}, {print_services, "services", service_style, .most = 9},
		{print_events, "events", NULL, .most = EVENTS + 1}};
	static const uint32_t order[] = {2, 1, 0, 3};
	// The last line stays empty, or the terminal scrolls.
	uint32_t rows = screen->rows > 2 ? screen->rows - 2 : 0;

	rows = share_out(sections, COUNT(sections), order, view, rows);
	fputs("\033[H", out);
	if (screen->colour) {
		fputs(strcmp(level_of(view), "critical") == 0    ? RED
			: strcmp(level_of(view), "warning") == 0 ? YELLOW
								 : "",
			out);
	}
	put(out, title, screen->rows > 1 ? 1 : 0, screen, NULL, NULL);
	fputs(screen->colour ? "\033[0m" : "", out);
	for (uint32_t i = 0; i < 3; i++) {
		put_section(out, &sections[i], view, screen);
	}
	put_backends(out, view, rows, screen);
	put_section(out, &sections[3], view, screen);
	fputs("\033[J", out);
	for (uint32_t i = 0; i < COUNT(sections); i++) {
		free(sections[i].text);
	}
}

void weir_top_draw_keys(FILE *out, const struct weir_top_screen *screen) {
	static const char text[] = "Keys of weirctl top\n\nOrder of the backends:\n"
#define X(name, word, help, key) "  %c  " help "\n"
		WEIR_TOP_SORTS(X)
#undef X
			"\nScroll the backends:\n"
			"  j k, arrows  by a line\n"
			"  space -      by ten\n"
			"  g            to the first\n"
			"\n  q  quit\n  ?  back\n";
	char keys[sizeof(text) + 16];

	snprintf(keys, sizeof(keys),
		text
#define X(name, word, help, key) , key
			WEIR_TOP_SORTS(X)
#undef X
	);
	fputs("\033[H", out);
	put(out, keys, screen->rows > 1 ? screen->rows - 1 : 0, screen, NULL, NULL);
	fputs("\033[J", out);
}
