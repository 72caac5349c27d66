// SPDX-License-Identifier: BSD-3-Clause
//
// Meter reader: reads the counters of meter.bpf.c, without a system call.
//
// Threads: one. No logging.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "meter.h"

struct weir_meter;

struct weir_meter_counts { // counts since the program was loaded
	uint64_t counter[WEIR_METER_COUNTER_COUNT];
	uint64_t service_ns;
};

struct weir_meter_times { // number of service times in each bucket
	uint64_t bucket[WEIR_METER_BUCKETS];
};

// Map the counters. fd: from weir_meter_fd; owned by the caller, who may close it after this call.
// Returns 0 or negative errno.
int weir_meter_open(int fd, struct weir_meter **ret);
void weir_meter_close(struct weir_meter *meter); // NULL is allowed

void weir_meter_read(const struct weir_meter *meter, struct weir_meter_counts *ret);
void weir_meter_read_times(const struct weir_meter *meter, struct weir_meter_times *ret);

// Returns the number of connections that are open now.
uint64_t weir_meter_active(const struct weir_meter_counts *counts);

// Computes the median of the service times that were added between `before` and `now`. *ret: the
// median in microseconds, with an error of at most half the width of its bucket: 0.5 us below 32
// us, 1/32 of the median above. Returns the number of these service times. If the number is 0, *ret
// is unchanged.
uint64_t weir_meter_median_us(
	const struct weir_meter_times *before, const struct weir_meter_times *now, double *ret);

const char *weir_meter_counter_name(enum weir_meter_counter counter);
const char *weir_meter_counter_text(enum weir_meter_counter counter);
