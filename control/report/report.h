// SPDX-License-Identifier: BSD-3-Clause
//
// Report: the load and the state that a backend has reported. All formats (the agent's datagrams,
// an agent-check line, ORCA, an HTTP response header, weirctl) are converted to this struct.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The fields of a report. X(NAME, field, maximum). The agent's datagrams contain the bit numbers of
// the fields, so new fields must be appended.
#define WEIR_REPORT_FIELDS(X) \
	X(SERVICE_TIME, service_time_ms, 86400000.0) /* mean of service_count requests */ \
	X(SERVICE_COUNT, service_count, 1e15) /* requests in service_time_ms; not given = 1 */ \
	X(SERVICE_MEDIAN, service_median_ms, 86400000.0) \
	X(BUSY_TIME, busy_time_ms, 86400000.0) /* mean of busy_count requests */ \
	X(BUSY_COUNT, busy_count, 1e15) /* requests in busy_time_ms; absent = 1 */ \
	X(REQUESTS, requests_per_second, 1e12) /* all requests, including failed requests */ \
	X(ERRORS, errors_per_second, 1e12) \
	X(UTILIZATION, utilization, 1e6) /* 1 = fully used */ \
	X(ACTIVE, active_requests, 1e9) /* requests in progress */ \
	X(QUEUE, accept_queue, 1e9) /* connections in the accept queue */ \
	X(QUEUE_LIMIT, accept_queue_limit, 1e9) \
	X(CPUS, cpus, 1e6) /* CPUs available to the service; 0.5 = half a CPU */ \
	X(CPU_MHZ, cpu_mhz, 1e6) \
	X(MAX_ACTIVE, max_active_flows, 4294967295.0) /* limit over all balancers; 0 = no limit */ \
	X(WEIGHT_PERCENT, weight_percent, 1e6) /* percentage of the configured weight */ \
	X(WEIGHT, weight, 1e6) /* replaces the configured weight */ \
	X(GCU, gcu, 1e3) /* measured speed of one CPU, in GCU */

enum weir_report_field {
#define X(name, field, most) WEIR_REPORT_BIT_##name,
	WEIR_REPORT_FIELDS(X)
#undef X
		WEIR_REPORT_FIELD_COUNT
};
#define WEIR_REPORT(name) (1u << WEIR_REPORT_BIT_##name)
#define WEIR_REPORT_ALL ((1u << WEIR_REPORT_FIELD_COUNT) - 1)

#define WEIR_REPORT_WHY_BYTES 64

// Reasons why the state of a port differs from the state of the host. The agent's datagrams contain
// the numbers of the reasons, so new reasons must be appended. The largest possible number is 15.
// X(NAME, "text")
#define WEIR_PORT_REASONS(X) \
	X(NONE, "") \
	X(NO_LISTENER, "no listening socket") \
	X(HELD_DOWN, "held down: the port was closed too often") \
	X(APPLICATION, "announced by the application")

enum weir_port_reason {
#define X(name, text) WEIR_PORT_REASON_##name,
	WEIR_PORT_REASONS(X)
#undef X
};

#define WEIR_PORT_WORDS_MOST 12

// A port on which the state of the application differs from the state of the host.
struct weir_port_word {
	uint16_t port; // 1 to 65535
	uint8_t protocol; // IPPROTO_TCP or IPPROTO_UDP
	uint8_t word : 4; // enum weir_health_word, not NONE
	uint8_t reason : 4; // enum weir_port_reason, or a reason of a later version
};

struct weir_report {
	uint32_t given; // bits WEIR_REPORT(...): which of the fields below are valid
	uint8_t word; // enum weir_health_word; NONE: no state
	// The backend's reason for its state (`word`), in printable ASCII; "" = none.
	char why[WEIR_REPORT_WHY_BYTES];
	uint8_t port_word_count; // number of ports whose state differs from `word`
	struct weir_port_word port_words[WEIR_PORT_WORDS_MOST]; // each port and protocol once
	uint32_t cpu_model; // weir_cpu_model_number; 0 = unknown
#define X(name, field, most) double field; // between 0 and `most`
	WEIR_REPORT_FIELDS(X)
#undef X
};

// Returns the text of a reason (enum weir_port_reason), or "" for an unknown reason.
const char *weir_port_reason_text(uint8_t reason);
// Returns whether all elements have valid values, and no two have the same port and protocol.
bool weir_port_words_are_valid(const struct weir_port_word *words, uint32_t count);

// Removes invalid values from a report: fields that are infinite, NaN, negative or above their
// maximum; a state (`word`) out of range; all states of ports if any of them is invalid. Sets
// fields that are not given to 0. Also replaces bytes of `why` that are not safe to print in a
// terminal or a log. Returns the bits that were removed from `given`.
uint32_t weir_report_check(struct weir_report *report);

// Set report->why to the start of text, which need not end with a NUL. Bytes that are not printable
// ASCII become '?', and text that is too long is truncated.
void weir_report_set_why(struct weir_report *report, const char *text, size_t bytes);

// Sets a field. If the value is infinite, NaN, negative or above its maximum, returns false and
// changes nothing.
bool weir_report_set(struct weir_report *report, enum weir_report_field field, double value);
double weir_report_value(const struct weir_report *report, enum weir_report_field field);

// Returns the weight of a report: WEIGHT, otherwise WEIGHT_PERCENT of the configured weight. With
// WEIGHT_PERCENT, the maximum is 256 (HAProxy's maximum), or the configured weight if that is
// higher. If the report has neither WEIGHT nor WEIGHT_PERCENT, returns `configured`.
double weir_report_weight(const struct weir_report *report, double configured);

const char *weir_report_field_name(enum weir_report_field field); // "service_time_ms"
double weir_report_field_largest(enum weir_report_field field);
