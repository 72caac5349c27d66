// SPDX-License-Identifier: BSD-3-Clause
//
// Report: what a backend says of itself. Whatever it says it in (the agent's datagrams, an
// agent-check line, ORCA, a header of an HTTP response, weirctl), it ends in this struct.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(NAME, field, largest). The numbers of these fields are in the agent's datagrams: append only.
#define WEIR_REPORT_FIELDS(X) \
	X(SERVICE_TIME, service_time_ms, 86400000.0) /* mean of service_count requests */ \
	X(SERVICE_COUNT, service_count, 1e15) /* of service_time_ms; absent = 1 */ \
	X(SERVICE_MEDIAN, service_median_ms, 86400000.0) \
	X(BUSY_TIME, busy_time_ms, 86400000.0) /* mean of busy_count requests */ \
	X(BUSY_COUNT, busy_count, 1e15) /* of busy_time_ms; absent = 1 */ \
	X(REQUESTS, requests_per_second, 1e12) /* all of them, with those that failed */ \
	X(ERRORS, errors_per_second, 1e12) \
	X(UTILIZATION, utilization, 1e6) /* 1 = fully used */ \
	X(ACTIVE, active_requests, 1e9) /* requests in progress */ \
	X(QUEUE, accept_queue, 1e9) /* connections that wait to be accepted */ \
	X(QUEUE_LIMIT, accept_queue_limit, 1e9) \
	X(CPUS, cpus, 1e6) /* CPUs that it may use; 0.5 = half of one */ \
	X(CPU_MHZ, cpu_mhz, 1e6) \
	X(MAX_ACTIVE, max_active_flows, 4294967295.0) /* of all balancers together; 0 = none */ \
	X(WEIGHT_PERCENT, weight_percent, 1e6) /* of the configured weight */ \
	X(WEIGHT, weight, 1e6) /* instead of the configured weight */

enum weir_report_field {
#define X(name, field, most) WEIR_REPORT_BIT_##name,
	WEIR_REPORT_FIELDS(X)
#undef X
		WEIR_REPORT_FIELD_COUNT
};
#define WEIR_REPORT(name) (1u << WEIR_REPORT_BIT_##name)
#define WEIR_REPORT_ALL ((1u << WEIR_REPORT_FIELD_COUNT) - 1)

#define WEIR_REPORT_WHY_BYTES 64

struct weir_report {
	uint32_t given; // WEIR_REPORT(...): which of the fields below are valid
	uint8_t word; // enum weir_health_word; NONE: it says nothing of its health
	char why[WEIR_REPORT_WHY_BYTES]; // its own words for that, printable ASCII; "" = none
#define X(name, field, most) double field; // 0 .. most
	WEIR_REPORT_FIELDS(X)
#undef X
};

// Take away what cannot be: fields that are not finite, negative or above their largest, a word out
// of range, and bytes of why that a terminal or a log would not like. Returns the fields that were
// given and are not any more (a bit set).
uint32_t weir_report_check(struct weir_report *report);

// Set why to the first bytes of text, which need not end with a NUL. Bytes that are not printable
// ASCII become '?', and what does not fit is cut off.
void weir_report_set_why(struct weir_report *report, const char *text, size_t bytes);

// Give a field a value; false and no change if it is not finite, negative or above its largest.
bool weir_report_set(struct weir_report *report, enum weir_report_field field, double value);
double weir_report_value(const struct weir_report *report, enum weir_report_field field);

// The weight that a report asks for: WEIGHT as it is, or WEIGHT_PERCENT of the configured one, at
// most HAProxy's 256 or what is configured. `configured` if the report has neither.
double weir_report_weight(const struct weir_report *report, double configured);

const char *weir_report_field_name(enum weir_report_field field); // "service_time_ms"
double weir_report_field_largest(enum weir_report_field field);
