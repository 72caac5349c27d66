// SPDX-License-Identifier: BSD-3-Clause
//
// Recent: what happened within about the last minute, from samples of the counters every
// WEIR_RECENT_STEP_S seconds: new flows by backend, flows past their limit by service. A sample is
// taken in WEIR_RECENT_SLICES slices: those of all ids at once would stop the loop for long.
//
// Threads: one. No clock of its own.
#pragma once

#include "segment.h"

#define WEIR_RECENT_STEP_S 5
#define WEIR_RECENT_LOOKS 13 // the oldest is 60 s before the newest

struct weir_recent { // zeroed at first
	uint64_t (*new_flows)[WEIR_RECENT_LOOKS]; // [backends]
	uint64_t (*limited)[WEIR_RECENT_LOOKS]; // [services]
	uint32_t backends, services; // elements
	uint32_t looks; // taken so far, up to WEIR_RECENT_LOOKS
	uint32_t next; // index of the one that is being taken
	uint32_t slice; // next one of it
	uint32_t sampled_backends, sampled_services; // ids below have it already
};

// Drop all samples: at the end, and before those of another segment.
void weir_recent_fini(struct weir_recent *recent);

// Take a slice of a sample: all of WEIR_RECENT_SLICES within WEIR_RECENT_STEP_S. backends,
// services: bounds of the ids in use. Does nothing if out of memory.
#define WEIR_RECENT_SLICES 50u
void weir_recent_take_slice(struct weir_recent *recent, const struct weir_segment *segment,
	uint32_t backends, uint32_t services);
// The rest of a sample at once.
void weir_recent_take(struct weir_recent *recent, const struct weir_segment *segment,
	uint32_t backends, uint32_t services);

// New flows of a backend since the oldest sample, 60 to 65 s ago or when it was first seen.
uint64_t weir_recent_new_flows(
	const struct weir_recent *recent, const struct weir_segment *segment, uint32_t backend);
// Flows of a service that were spilled or rejected at the limit in the same time.
uint64_t weir_recent_limited(
	const struct weir_recent *recent, const struct weir_segment *segment, uint32_t service);
