// SPDX-License-Identifier: BSD-3-Clause
//
// Declarations for the readers of the three ORCA formats. The readers read a message field by field
// into a struct orca.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "orca.h"

// X(number in the protocol buffer, NAME, name). In a protocol buffer, a map field occurs once for
// each entry of the map.
#define ORCA_NUMBERS(X) \
	X(1, CPU_UTILIZATION, cpu_utilization) \
	X(2, MEM_UTILIZATION, mem_utilization) \
	X(3, RPS, rps) /* an integer; later versions of ORCA have rps_fractional */ \
	X(6, RPS_FRACTIONAL, rps_fractional) \
	X(7, EPS, eps) \
	X(9, APPLICATION_UTILIZATION, application_utilization)
#define ORCA_MAPS(X) \
	X(4, REQUEST_COST, request_cost) \
	X(5, UTILIZATION, utilization) \
	X(8, NAMED_METRICS, named_metrics)

enum orca_field { // field numbers of the protocol buffer
#define X(number, name, text) ORCA_##name = number,
	ORCA_NUMBERS(X) ORCA_MAPS(X)
#undef X
		ORCA_FIELDS = ORCA_APPLICATION_UTILIZATION + 1 // above the highest field number
};

struct orca_name { // not NUL-terminated; borrowed from the text
	const char *text;
	size_t bytes;
};

struct orca {
	uint32_t seen; // bit i: the message contains the field with number i
	double number[ORCA_FIELDS];
	uint32_t names;
	struct {
		enum orca_field map;
		struct orca_name name;
		double value;
	} named[WEIR_ORCA_NAMES_MOST];
	char *why;
};

// Write an error into why. Returns -EINVAL.
int orca_complain(struct orca *orca, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Store the value of a number field, or of an entry of a map field. Returns 0 or -EINVAL.
int orca_take_number(struct orca *orca, enum orca_field field, double value);
int orca_take_named(struct orca *orca, enum orca_field map, struct orca_name name, double value);

// Returns the number field or map field with this name, which may be in snake case or camel case,
// or 0 if there is none.
enum orca_field orca_number_field(struct orca_name name);
enum orca_field orca_map_field(struct orca_name name);
const char *orca_field_name(enum orca_field field);

// Reads a decimal number of at most 64 characters; a number that is too large becomes infinite.
// Returns 0, or -EINVAL if the text is not exactly one such number.
int orca_read_decimal(const char *text, size_t bytes, double *ret);

bool orca_same(struct orca_name a, struct orca_name b);

// Add the values of the message to *ret. Returns 0, or -EINVAL with *ret unchanged.
int orca_report(struct orca *orca, struct weir_report *ret);

// These functions read a message in one of the three formats. The names in *orca are borrowed from
// the message. For JSON, the names are borrowed from *ret_json, which the caller must release with
// json_decref, even after an error.
int orca_read_text(struct orca *orca, const char *text, size_t bytes);
struct json_t;
int orca_read_json(struct orca *orca, const char *text, size_t bytes, struct json_t **ret_json);
int orca_read_binary(struct orca *orca, const uint8_t *message, size_t bytes);
