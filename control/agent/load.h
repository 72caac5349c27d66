// SPDX-License-Identifier: BSD-3-Clause
//
// Load: brings together what is measured of the service (meter, accept queues, CPU) and what its
// application says (ORCA), and writes it into answers. What the application says wins. What nobody
// wants is not read.
//
// Sums (service times, busy times) run since the start of the agent, over the time in which they
// were wanted. Rates and utilization are those of the last second, the median that of the last 10.
//
// Busy time: CPU time of the service / connections that ended, or requests if the application tells
// its rate.
//
// Threads: one. No logging.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent_message.h"
#include "cpu_usage.h"
#include "meter_reader.h"

#define WEIR_LOAD_TICK_MS 250
#define WEIR_LOAD_SAMPLES 5 // ticks that rates are taken over: the oldest is 1 s old
#define WEIR_LOAD_TIMES 11 // seconds that the median is taken over, and one

struct weir_load_params { // pointers: valid as long as the load
	const uint16_t *ports; // of the service
	uint32_t port_count;
	const struct weir_cpu_source *cpu;
	uint32_t max_active_flows; // 0 = none
	uint32_t application_ms; // what the application said is out of date after that
};

struct weir_load_sample { // of one moment
	uint64_t at_ms;
	bool metered, timed; // counts resp. cpu are valid
	struct weir_meter_counts counts;
	struct weir_cpu_usage cpu;
};

struct weir_load {
	struct weir_load_params params;
	const struct weir_meter *meter; // the owner's; NULL = not loaded
	uint32_t wants; // of all balancers
	int listeners; // netlink; -1 = none
	uint32_t cpu_mhz;
	struct weir_load_sample newest;
	struct weir_load_sample sample[WEIR_LOAD_SAMPLES]; // by tick
	uint32_t sample_count; // so far, not wrapped
	struct weir_meter_times *times; // WEIR_LOAD_TIMES, by second
	uint32_t times_count; // so far, not wrapped
	uint64_t times_ms; // of the newest
	uint64_t service_ns, service_count, busy_us;
	double busy_count;
	struct weir_report application; // what it said last
	uint64_t application_at_ms; // 0 = nothing yet
};

// Returns 0 or -ENOMEM.
int weir_load_init(struct weir_load *load, const struct weir_load_params *params);
void weir_load_fini(struct weir_load *load);

bool weir_load_needs_meter(uint32_t wants);
bool weir_load_needs_tick(uint32_t wants);

// Whether CPU time is wanted, and was not to be had when it was read last.
bool weir_load_lacks_cpu(const struct weir_load *load);

// Use this meter from now on; NULL = none. Before it is closed.
void weir_load_set_meter(struct weir_load *load, const struct weir_meter *meter);

// What all balancers together want from now on.
void weir_load_set_wants(struct weir_load *load, uint32_t wants);

// Call each WEIR_LOAD_TICK_MS while weir_load_needs_tick.
void weir_load_tick(struct weir_load *load, uint64_t now_ms);

// What the application says; it was checked.
void weir_load_take_application(
	struct weir_load *load, const struct weir_report *report, uint64_t now_ms);

// Set `given` and the values of an answer: those of `wants`, of one balancer, that are known, and
// max_active_flows. Other fields of the answer stay.
void weir_load_fill(
	struct weir_load *load, uint32_t wants, uint64_t now_ms, struct weir_agent_answer *answer);
