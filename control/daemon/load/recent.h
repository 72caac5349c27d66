// SPDX-License-Identifier: BSD-3-Clause
//
// Recent: counts of about the last minute, from samples of counters every WEIR_RECENT_STEP_S
// seconds. Counts new flows of each backend, and flows beyond the limit in each service. A sample
// is taken in WEIR_RECENT_SLICES slices, because sampling all ids at once would block the loop for
// too long.
//
// Threads: one. No clock.
#pragma once

#include "segment.h"

#define WEIR_RECENT_STEP_S 5
#define WEIR_RECENT_SAMPLES 13 // the oldest is 60 s before the newest

struct weir_recent { // zero-initialized
	uint64_t (*new_flows)[WEIR_RECENT_SAMPLES]; // [backends]
	uint64_t (*limited)[WEIR_RECENT_SAMPLES]; // [services]
	uint32_t backends, services; // number of elements in new_flows and limited
	uint32_t samples; // number of complete samples, up to WEIR_RECENT_SAMPLES
	uint32_t next; // index of the sample in progress
	uint32_t slice; // next slice of the sample in progress
	uint32_t sampled_backends, sampled_services; // the sample in progress has all lower ids
};

// Drop all samples. Call at the end, and before sampling another segment.
void weir_recent_fini(struct weir_recent *recent);

// Take a slice of a sample. Call WEIR_RECENT_SLICES times within WEIR_RECENT_STEP_S. backends,
// services: bounds of the ids in use. Does nothing if out of memory.
#define WEIR_RECENT_SLICES 50u
void weir_recent_take_slice(struct weir_recent *recent, const struct weir_segment *segment,
	uint32_t backends, uint32_t services);
// Take the remaining slices of a sample at once.
void weir_recent_take(struct weir_recent *recent, const struct weir_segment *segment,
	uint32_t backends, uint32_t services);

// Returns the number of new flows of a backend since its oldest sample. This sample is 60 to 65 s
// old, or less for a new backend.
uint64_t weir_recent_new_flows(
	const struct weir_recent *recent, const struct weir_segment *segment, uint32_t backend);
// Returns the number of flows of a service that were spilled or rejected at the limit, since the
// oldest sample as in weir_recent_new_flows.
uint64_t weir_recent_limited(
	const struct weir_recent *recent, const struct weir_segment *segment, uint32_t service);
