// SPDX-License-Identifier: BSD-3-Clause
//
// Pipeline parts: moves a part of the flows from the pipeline of one worker to the pipeline of
// another worker. The flows are also moved in the gauges of backends and services and in the state
// of policies.
//
//   1. weir_pipeline_release_part   the giver, which owns the part
//   2. weir_pipeline_adopt_part     the taker
//   3. weir_pipeline_settle_part    the giver
//
// Call each function repeatedly, between bursts, until it returns true; the work per call is
// bounded. From the first call of step 1 to the last call of step 2, no pipeline may get packets
// of the part.
//
// The giver subtracts the flows from its gauges only in step 3, when the taker's gauges already
// include them. Therefore the sum over all workers is never too low, and control does not treat a
// backend as drained while its flows move. After step 3 the parcel is empty.
//
// Threads: the giver's worker calls 1 and 3, the taker's worker calls 2. The callers hand over the
// parcel with a release store and an acquire load, before 2 and before 3. No lock, no allocation.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_pipeline;
struct weir_flow_parcel; // created by flow_parts.h

#define WEIR_PIPELINE_PART_SLICE 64u // maximum number of backends per call to adopt or settle

// Take ownership of a part of shared flow memory (struct weir_flow_table_params) that no other
// pipeline owns. part: below WEIR_FLOW_PARTS. [set-up]
void weir_pipeline_own_part(struct weir_pipeline *pipeline, uint32_t part);
// Returns true if the pipeline may get packets of the part: not while the part is moving. Always
// true with private flow memory. [worker]
bool weir_pipeline_owns_part(const struct weir_pipeline *pipeline, uint32_t part);

// Release a part that the pipeline owns. parcel: empty at the first call. Returns true when done:
// pass the parcel to the taker. [worker]
bool weir_pipeline_release_part(
	struct weir_pipeline *pipeline, uint32_t part, struct weir_flow_parcel *parcel);

// Adopt the part in a parcel. Waits, for at most WEIR_PIPELINE_PART_WAITS calls, until the pipeline
// has read all backend rows that the giver had. Returns true when done: the pipeline may get
// packets of the part; pass the parcel back to the giver. [worker]
#define WEIR_PIPELINE_PART_WAITS 256u
bool weir_pipeline_adopt_part(
	struct weir_pipeline *pipeline, struct weir_flow_parcel *parcel, uint64_t now_ns);

// Subtract the flows of a parcel, which the taker now counts, from the giver's gauges. Returns true
// when done: the parcel is empty. [worker]
bool weir_pipeline_settle_part(struct weir_pipeline *pipeline, struct weir_flow_parcel *parcel);
