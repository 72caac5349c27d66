// SPDX-License-Identifier: BSD-3-Clause
//
// Collects the values of an ORCA message in any of the three formats, and converts them to a
// report.
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "orca_private.h"

static const struct {
	enum orca_field field;
	bool map;
	const char *name;
} fields[] = {
#define X(number, name, text) {ORCA_##name, false, #text},
	ORCA_NUMBERS(X)
#undef X
#define X(number, name, text) {ORCA_##name, true, #text},
		ORCA_MAPS(X)
#undef X
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

int orca_complain(struct orca *orca, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(orca->why, WEIR_ORCA_WHY_BYTES, format, arguments);
	va_end(arguments);
	for (char *c = orca->why; *c != '\0'; c++) {
		if (*c < ' ' || *c > '~') {
			*c = '?';
		}
	}
	return -EINVAL;
}

// --- names ---

bool orca_same(struct orca_name a, struct orca_name b) {
	return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
}

// Returns whether a name is equal to text. text is in snake case (cpu_utilization). The name may
// also be in camel case (cpuUtilization), as in the JSON form of protocol buffers.
static bool is_called(struct orca_name name, const char *text) {
	size_t i = 0;
	bool snake = strlen(text) == name.bytes && memcmp(text, name.text, name.bytes) == 0;

	for (; !snake && *text != '\0'; text++, i++) {
		char c = *text;

		if (c == '_') {
			c = (char)(*++text - 'a' + 'A');
		}
		if (i >= name.bytes || name.text[i] != c) {
			return false;
		}
	}
	return snake || i == name.bytes;
}

static enum orca_field find(struct orca_name name, bool map) {
	for (size_t i = 0; i < FIELDS; i++) {
		if (fields[i].map == map && is_called(name, fields[i].name)) {
			return fields[i].field;
		}
	}
	return (enum orca_field)0;
}

enum orca_field orca_number_field(struct orca_name name) {
	return find(name, false);
}

enum orca_field orca_map_field(struct orca_name name) {
	return find(name, true);
}

const char *orca_field_name(enum orca_field field) {
	for (size_t i = 0; i < FIELDS; i++) {
		if (fields[i].field == field) {
			return fields[i].name;
		}
	}
	return "?";
}

// --- values ---

int orca_take_number(struct orca *orca, enum orca_field field, double value) {
	const char *name = orca_field_name(field);

	if (!isfinite(value) || value < 0) {
		return orca_complain(orca, "bad number %s", name);
	}
	if ((orca->seen >> field & 1) != 0) {
		return orca_complain(orca, "duplicate %s", name);
	}
	orca->seen |= 1u << field;
	orca->number[field] = value;
	return 0;
}

int orca_take_named(struct orca *orca, enum orca_field map, struct orca_name name, double value) {
	const char *text = orca_field_name(map);
	int bytes = (int)name.bytes;

	if (name.bytes == 0) {
		return orca_complain(orca, "empty name in %s", text);
	}
	if (!isfinite(value)) {
		return orca_complain(orca, "bad number %s.%.*s", text, bytes, name.text);
	}
	for (uint32_t i = 0; i < orca->names; i++) {
		if (orca->named[i].map == map && orca_same(orca->named[i].name, name)) {
			return orca_complain(orca, "duplicate %s.%.*s", text, bytes, name.text);
		}
	}
	if (orca->names == WEIR_ORCA_NAMES_MOST) {
		return orca_complain(orca, "more than %d names", WEIR_ORCA_NAMES_MOST);
	}
	orca->named[orca->names].map = map;
	orca->named[orca->names].name = name;
	orca->named[orca->names++].value = value;
	return 0;
}

// --- conversion to a report ---

// Returns the report field with the name of a named metric, or -1. Named metrics cannot set the
// weights, or report fields that a standard ORCA field sets.
static int report_field(struct orca_name name) {
	const uint32_t others = WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) |
				WEIR_REPORT(UTILIZATION) | WEIR_REPORT(WEIGHT_PERCENT) |
				WEIR_REPORT(WEIGHT);

	for (int field = 0; field < WEIR_REPORT_FIELD_COUNT; field++) {
		const char *text = weir_report_field_name((enum weir_report_field)field);

		if ((others >> field & 1) == 0 &&
			orca_same(name, (struct orca_name){text, strlen(text)})) {
			return field;
		}
	}
	return -1;
}

static int set(struct orca *orca, struct weir_report *report, enum weir_report_field field,
	double value, const char *name) {
	return weir_report_set(report, field, value) ? 0
						     : orca_complain(orca, "bad number %s", name);
}

static int report_numbers(struct orca *orca, struct weir_report *report) {
	uint32_t seen = orca->seen;
	int r = 0;

	if ((seen & (1u << ORCA_RPS_FRACTIONAL | 1u << ORCA_RPS)) != 0) {
		enum orca_field rps =
			(seen >> ORCA_RPS_FRACTIONAL & 1) != 0 ? ORCA_RPS_FRACTIONAL : ORCA_RPS;

		r = set(orca, report, WEIR_REPORT_BIT_REQUESTS, orca->number[rps],
			orca_field_name(rps));
	}
	if (r == 0 && (seen >> ORCA_EPS & 1) != 0) {
		r = set(orca, report, WEIR_REPORT_BIT_ERRORS, orca->number[ORCA_EPS], "eps");
	}
	if (r == 0 &&
		(seen & (1u << ORCA_APPLICATION_UTILIZATION | 1u << ORCA_CPU_UTILIZATION)) != 0) {
		enum orca_field used = orca->number[ORCA_APPLICATION_UTILIZATION] > 0
					       ? ORCA_APPLICATION_UTILIZATION
					       : ORCA_CPU_UTILIZATION;

		r = set(orca, report, WEIR_REPORT_BIT_UTILIZATION, orca->number[used],
			orca_field_name(used));
	}
	return r;
}

int orca_report(struct orca *orca, struct weir_report *ret) {
	struct weir_report report = *ret;
	int r = report_numbers(orca, &report);

	for (uint32_t i = 0; r == 0 && i < orca->names; i++) {
		int field = report_field(orca->named[i].name);

		if (orca->named[i].map == ORCA_NAMED_METRICS && field >= 0) {
			r = set(orca, &report, (enum weir_report_field)field, orca->named[i].value,
				weir_report_field_name((enum weir_report_field)field));
		}
	}
	if (r == 0) {
		*ret = report;
	}
	return r;
}
