// SPDX-License-Identifier: BSD-3-Clause
//
// Durations: histograms of the durations of health checks, one histogram per service. The bounds
// are fixed. The memory needed does not depend on the number of backends.
//
// Threads: only the event loop's thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Upper bounds of the histogram. X(microseconds, "seconds")
#define WEIR_HEALTH_DURATION_BOUNDS(X) \
	X(1000, "0.001") \
	X(2500, "0.0025") \
	X(5000, "0.005") \
	X(10000, "0.01") \
	X(25000, "0.025") \
	X(50000, "0.05") \
	X(100000, "0.1") \
	X(250000, "0.25") \
	X(500000, "0.5") \
	X(1000000, "1.0") \
	X(2500000, "2.5") \
	X(5000000, "5.0")

#define X(us, text) +1
// One count per bound, and a last count without a bound.
enum { WEIR_HEALTH_DURATIONS = 1 WEIR_HEALTH_DURATION_BOUNDS(X) };
#undef X

struct weir_health_histogram {
	// Number of checks in each bucket: durations above the previous bound, up to this bound.
	uint64_t checks[WEIR_HEALTH_DURATIONS];
	uint64_t sum_us;
};

struct weir_health_durations { // zero-initialized
	struct weir_health_durations_entry *entries; // indexed by service id
	uint32_t count;
};

void weir_health_durations_fini(struct weir_health_durations *durations);

// Sets the name of a service. If the id had another name before, the histogram is reset. Returns 0
// or -ENOMEM; after -ENOMEM the checks of the service are not counted.
int weir_health_durations_name(
	struct weir_health_durations *durations, uint16_t service, const char *name);
// Count a check. Does nothing for a service without a name.
void weir_health_durations_add(
	struct weir_health_durations *durations, uint16_t service, uint64_t us);
// Returns the histogram of a service, or NULL if the service has no name.
const struct weir_health_histogram *weir_health_durations_of(
	const struct weir_health_durations *durations, uint16_t service);
