// SPDX-License-Identifier: BSD-3-Clause
//
// Counters: the list in counters.h contains every counter, and the names, units and help texts in
// the list are valid for metrics.
#include "counters.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "test.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

enum unit {
#define X(name, base) UNIT_##name,
	WEIR_COUNTER_UNITS(X)
#undef X
};

static const char *const base_unit[] = {
#define X(name, base) base,
	WEIR_COUNTER_UNITS(X)
#undef X
};

struct row {
	const char *field;
	const char *metric;
	const char *help;
	enum unit unit;
};

#define X(field, unit, metric, text) {#field, metric, text, UNIT_##unit},
static const struct row worker_rows[] = {WEIR_WORKER_FIGURES(X)};
static const struct row share_rows[] = {WEIR_SHARE_FIGURES(X)};
static const struct row steal_rows[] = {WEIR_STEAL_COUNTERS(X)};
static const struct row gauge_rows[] = {WEIR_WORKER_GAUGES(X) WEIR_SHARE_GAUGES(X)};
static const struct row counter_rows[] = {
	WEIR_WORKER_COUNTERS(X) WEIR_SHARE_COUNTERS(X) WEIR_STEAL_COUNTERS(X)};
#undef X

static bool ends_with(const char *text, const char *end) {
	size_t n = strlen(text), end_n = strlen(end);

	return n >= end_n && strcmp(text + n - end_n, end) == 0;
}

// Checks the conventions of Prometheus: names are in snake case and end in the base unit. _total is
// later added to the names of counters.
static void check_name(const struct row *row) {
	const char *unit = base_unit[row->unit];
	size_t n = strlen(row->metric), unit_n = strlen(unit);

	for (const char *c = row->metric; *c != '\0'; c++) {
		if (!islower((unsigned char)*c) && *c != '_') {
			fail_msg("%s: metric %s: %c", row->field, row->metric, *c);
		}
	}
	if (row->metric[0] == '_' || strstr(row->metric, "__") != NULL ||
		strstr(row->metric, "total") != NULL || strstr(row->metric, "weir") != NULL) {
		fail_msg("%s: metric %s", row->field, row->metric);
	}
	if (!ends_with(row->metric, unit) || (n > unit_n && row->metric[n - unit_n - 1] != '_')) {
		fail_msg("%s: metric %s does not end with its unit, %s", row->field, row->metric,
			unit);
	}
}

// Checks that a help text is one line, begins with a capital letter, and needs no escapes.
static void check_help(const struct row *row) {
	size_t n = strlen(row->help);

	if (n < 10 || n > 100 || !isupper((unsigned char)row->help[0]) ||
		!ends_with(row->help, ".") || strpbrk(row->help, "\"\\\n|") != NULL) {
		fail_msg("%s: help \"%s\"", row->field, row->help);
	}
}

static void check_rows(const struct row *rows, size_t n) {
	for (size_t i = 0; i < n; i++) {
		check_name(&rows[i]);
		check_help(&rows[i]);
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(rows[i].field, rows[k].field);
			assert_string_not_equal(rows[i].metric, rows[k].metric);
			assert_string_not_equal(rows[i].help, rows[k].help);
		}
	}
}

TEST(counters_are_valid_for_metrics) {
	check_rows(worker_rows, COUNT(worker_rows));
	check_rows(share_rows, COUNT(share_rows));
	check_rows(steal_rows, COUNT(steal_rows));
}

// No name is a counter in one list and a gauge in another list, because weirctl uses only the name.
TEST(counters_and_gauges_have_different_names) {
	assert_int_equal(COUNT(counter_rows) + COUNT(gauge_rows),
		COUNT(worker_rows) + COUNT(share_rows) + COUNT(steal_rows));
	for (size_t i = 0; i < COUNT(gauge_rows); i++) {
		for (size_t k = 0; k < COUNT(counter_rows); k++) {
			assert_string_not_equal(gauge_rows[i].field, counter_rows[k].field);
		}
	}
}

TEST(counters_in_the_segment_are_those_of_the_list) {
	// In the structure, the counters of ABI 5 come first, then heartbeat and drops, then
	// counters that were added later.
	assert_int_equal(offsetof(struct weir_worker_counters, reserved),
		(COUNT(worker_rows) + 1 + WEIR_DROP_REASON_SLOTS) * 8);
	assert_int_equal(offsetof(struct weir_steal_counters, answers), COUNT(steal_rows) * 8);
	// These counters are not in the list, because only control uses them.
	assert_int_equal(offsetof(struct weir_share_counters, established), COUNT(share_rows) * 8);
	assert_int_equal(
		offsetof(struct weir_share_counters, half_open), COUNT(share_rows) * 8 + 8);
}
