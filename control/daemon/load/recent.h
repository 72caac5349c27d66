// SPDX-License-Identifier: BSD-3-Clause
//
// Recent: counts of about the last minute: the new flows of each backend, the flows of each service
// that were spilled or rejected at the limit, and the packets that were forwarded without an entry
// because the flow table, or its share of half-open flows, was full. The counters are sampled every
// WEIR_RECENT_STEP_S seconds. A sample is taken in WEIR_RECENT_SLICES slices, because one slice
// with all ids would block the loop for too long.
//
// Threads: one. No clock.
#pragma once

#include <stdbool.h>

#include "config.h"
#include "log.h"
#include "segment.h"

#define WEIR_RECENT_STEP_S 5
#define WEIR_RECENT_SAMPLES 13 // the oldest is 60 s before the newest

// Which part of the flow table was full, so that packets were forwarded without an entry.
enum weir_recent_lack {
	WEIR_RECENT_LACK_NONE,
	WEIR_RECENT_LACK_HALF_OPEN, // the share of half-open flows
	WEIR_RECENT_LACK_TABLE, // the flow table
};

struct weir_recent { // zero-initialized
	uint64_t (*new_flows)[WEIR_RECENT_SAMPLES]; // [backends]
	uint64_t (*spilled)[WEIR_RECENT_SAMPLES]; // [services]
	uint64_t (*rejected)[WEIR_RECENT_SAMPLES]; // [rejecting]
	uint64_t untracked[WEIR_RECENT_SAMPLES]; // taken with the first slice of a sample
	uint64_t looked; // untracked packets until the last call of weir_recent_log_untracked
	enum weir_recent_lack lack; // largest value since weir_recent_untracked was last 0
	// Number of elements in new_flows, spilled and rejected. rejecting is services, or more
	// if memory is short.
	uint32_t backends, services, rejecting;
	uint32_t samples; // number of complete samples, up to WEIR_RECENT_SAMPLES
	uint32_t next; // index of the sample in progress
	uint32_t slice; // next slice of the sample in progress
	// Number of ids that the sample in progress already contains.
	uint32_t sampled_backends, sampled_services;
};

// Drops all samples. Call this function before exit, and before sampling another segment.
void weir_recent_fini(struct weir_recent *recent);

// Takes one slice of a sample. Call this function WEIR_RECENT_SLICES times within
// WEIR_RECENT_STEP_S. backends, services: all ids in use are below these numbers. Does nothing if
// out of memory.
#define WEIR_RECENT_SLICES 50u
void weir_recent_take_slice(struct weir_recent *recent, const struct weir_segment *segment,
	uint32_t backends, uint32_t services);
// Take the remaining slices of a sample in one call.
void weir_recent_take(struct weir_recent *recent, const struct weir_segment *segment,
	uint32_t backends, uint32_t services);

// Returns the number of new flows of a backend since its oldest sample, which is 60 to 65 s old, or
// newer for a new backend, or if there are fewer than WEIR_RECENT_SAMPLES samples.
uint64_t weir_recent_new_flows(
	const struct weir_recent *recent, const struct weir_segment *segment, uint32_t backend);
// Returns the numbers of new flows of a service that were spilled, or rejected, since the oldest
// sample (see weir_recent_new_flows), because every backend was at its limit. They were counted
// when the flows began, whatever is configured now.
struct weir_recent_limited {
	uint64_t spilled, rejected;
};
struct weir_recent_limited weir_recent_limited(
	const struct weir_recent *recent, const struct weir_segment *segment, uint32_t service);
// Returns the number of packets that all workers together have forwarded without an entry in the
// flow table since the oldest sample, because there was no room for an entry.
uint64_t weir_recent_untracked(
	const struct weir_recent *recent, const struct weir_segment *segment);
// Returns which part of the flow table was full when the packets of weir_recent_untracked were
// forwarded. The counter does not distinguish the causes, so the result is derived from the numbers
// of flows: it is the largest value that weir_recent_log_untracked has derived since the number of
// these packets was last 0, or, if there is none yet, the value derived now.
enum weir_recent_lack weir_recent_lack(const struct weir_recent *recent,
	const struct weir_segment *segment, const struct weir_config_flow_table *table);
// Logs when the flow table, or its share of half-open flows, becomes full (weir_recent_untracked is
// no longer 0), and when it has had room for a minute. Call this function once per second.
void weir_recent_log_untracked(struct weir_recent *recent, const struct weir_segment *segment,
	const struct weir_config_flow_table *table, struct weir_log *log);
