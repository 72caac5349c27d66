// SPDX-License-Identifier: BSD-3-Clause
//
// Load: combines the measured values of the service (meter, accept queues, CPU) with the values
// that its application reports (ORCA), and writes the values into answers. The application's values
// take precedence. Values that no balancer requests are not read.
//
// Sums (service times, busy times) are 0 when the agent starts, and grow only while a balancer
// requests values. Rates and utilization cover the last second. The median covers the last 10
// seconds.
//
// Busy time is the CPU time of the service per request if the application reports its request rate,
// otherwise the CPU time per ended connection.
//
// Threads: one. No logging.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent_message.h"
#include "cpu_usage.h"
#include "meter_reader.h"

#define WEIR_LOAD_TICK_MS 250
#define WEIR_LOAD_SAMPLES 5 // samples for a rate: the oldest is 1 s old
#define WEIR_LOAD_TIMES 11 // seconds covered by the median, plus one

struct weir_load_params { // the pointers must outlive struct weir_load
	const uint16_t *ports; // ports of the service
	uint32_t port_count;
	const struct weir_cpu_source *cpu;
	uint32_t max_active_flows; // 0 = no limit
	uint32_t application_ms; // lifetime of the application's report
};

struct weir_load_speed { // speed of one CPU
	bool pending; // being measured, or not requested yet
	double gcu; // 0 = unknown
	uint32_t cpu_model; // weir_cpu_model_number
};

struct weir_load_sample { // values that were read at one time
	uint64_t at_ms;
	bool metered, timed; // metered: `counts` is valid; timed: `cpu` is valid
	struct weir_meter_counts counts;
	struct weir_cpu_usage cpu;
};

struct weir_load {
	struct weir_load_params params;
	const struct weir_meter *meter; // borrowed; NULL = not loaded
	uint32_t wants; // union of the fields that balancers request
	int listeners; // netlink socket; negative = none
	uint32_t cpu_mhz;
	struct weir_load_speed speed;
	struct weir_load_sample newest;
	struct weir_load_sample sample[WEIR_LOAD_SAMPLES]; // one sample for each tick
	uint32_t sample_count; // samples since the meter changed or a field was added to wants
	struct weir_meter_times *times; // WEIR_LOAD_TIMES entries, one for each second
	// number of entries since the meter changed or the median was requested
	uint32_t times_count;
	uint64_t times_ms; // time of the newest entry
	uint64_t service_ns, service_count, busy_us;
	double busy_count;
	struct weir_report application; // latest report of the application
	uint64_t application_at_ms; // 0 = no report yet
};

// Initialize, and open the socket that reads accept queues. Returns 0 or -ENOMEM.
int weir_load_init(struct weir_load *load, const struct weir_load_params *params);
void weir_load_fini(struct weir_load *load);

bool weir_load_needs_meter(uint32_t wants);
bool weir_load_needs_tick(uint32_t wants);

// Returns true if CPU time is requested, but the last attempt to read the CPU time failed.
bool weir_load_lacks_cpu(const struct weir_load *load);

// Use another meter; NULL = none. Call this function before the previous meter is closed.
void weir_load_set_meter(struct weir_load *load, const struct weir_meter *meter);

// Set the measured speed. While the measurement is pending, answers to a balancer that requests the
// speed contain no measured number of CPUs. Otherwise the balancer would compute a weight without
// the speed, and change it soon afterwards.
void weir_load_set_speed(struct weir_load *load, const struct weir_load_speed *speed);

// Set the union of the fields that balancers request.
void weir_load_set_wants(struct weir_load *load, uint32_t wants);

// Take a sample. Call this function every WEIR_LOAD_TICK_MS while weir_load_needs_tick() returns
// true.
void weir_load_tick(struct weir_load *load, uint64_t now_ms);

// Store a validated report of the application.
void weir_load_take_application(
	struct weir_load *load, const struct weir_report *report, uint64_t now_ms);

// Fill in an answer: max_active_flows, and each requested field whose value is known. Sets a bit in
// `given` for each value. wants: the fields that the balancer requests. A value without a bit is
// undefined, except gcu_milli and cpu_model, which are then 0.
void weir_load_fill(
	struct weir_load *load, uint32_t wants, uint64_t now_ms, struct weir_agent_answer *answer);
