// SPDX-License-Identifier: BSD-3-Clause
//
// Durations: a histogram of the durations of each service's checks. Bounds are fixed, and there is
// one histogram a service, so that its size does not depend on the number of backends.
//
// Threads: one, that of the loop.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Upper bounds. X(microseconds, "seconds")
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
enum { WEIR_HEALTH_DURATIONS = 1 WEIR_HEALTH_DURATION_BOUNDS(X) }; // the last has no bound
#undef X

struct weir_health_histogram {
	uint64_t checks[WEIR_HEALTH_DURATIONS]; // longer than the bound before it
	uint64_t sum_us;
};

struct weir_health_durations { // zero-initialized
	struct weir_health_durations_entry *entries; // by id of the service
	uint32_t count;
};

void weir_health_durations_fini(struct weir_health_durations *durations);

// The name of a service: its histogram begins anew if the id had another one. Returns 0 or -ENOMEM
// (its checks are not counted).
int weir_health_durations_name(
	struct weir_health_durations *durations, uint16_t service, const char *name);
// Count a check. Does nothing for a service without a name.
void weir_health_durations_add(
	struct weir_health_durations *durations, uint16_t service, uint64_t us);
// The histogram of a service; NULL without a name.
const struct weir_health_histogram *weir_health_durations_of(
	const struct weir_health_durations *durations, uint16_t service);
