// SPDX-License-Identifier: BSD-3-Clause
//
// Pipeline parts: a part of the flows goes from the pipeline of one worker to that of another, with
// everything that counts these flows: gauges of backends and services, and what the policies know.
//
//   1. weir_pipeline_release_part   the giver, which owns the part
//   2. weir_pipeline_adopt_part     the taker
//   3. weir_pipeline_settle_part    the giver
//
// Each is called again and again, between bursts, until it returns true; a call has a bounded
// amount of work. Between the first call of 1 and the last one of 2 no pipeline may get packets of
// the part. The giver takes the flows out of its gauges only in 3, when they are in the taker's:
// summed over all workers, gauges are never lower than the number of flows, so that control does
// not take a backend for drained while its flows are on the way. After 3 the parcel is empty.
//
// Threads: 1 and 3 by the giver's worker, 2 by the taker's. The caller passes the parcel on with a
// release store and an acquire load, before 2 and before 3. No lock, no allocation.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_pipeline;
struct weir_flow_parcel; // flow_parts.h, which also makes it

#define WEIR_PIPELINE_PART_SLICE 64u // backends that one call of adopt or settle counts

// The pipeline has shared flow memory (struct weir_flow_table_params) and uses this part of it,
// that no other one uses. part: below WEIR_FLOW_PARTS. [set-up]
void weir_pipeline_own_part(struct weir_pipeline *pipeline, uint32_t part);
// True if it may get packets of the part: not while that is on the way. Always, with memory of its
// own. [worker]
bool weir_pipeline_owns_part(const struct weir_pipeline *pipeline, uint32_t part);

// Let go of a part that the pipeline owns. parcel: empty at the first call. True when done: then
// the parcel is the taker's. [worker]
bool weir_pipeline_release_part(
	struct weir_pipeline *pipeline, uint32_t part, struct weir_flow_parcel *parcel);

// Take over the part in a parcel. Waits, for at most WEIR_PIPELINE_PART_WAITS calls, until the
// pipeline has read what control had told the giver about its backends. True when done: packets of
// the part may follow, and the parcel is the giver's again. [worker]
#define WEIR_PIPELINE_PART_WAITS 256u
bool weir_pipeline_adopt_part(
	struct weir_pipeline *pipeline, struct weir_flow_parcel *parcel, uint64_t now_ns);

// Take the flows of a parcel, which are the taker's now, out of what the giver counts. True when
// done: the parcel is empty. [worker]
bool weir_pipeline_settle_part(struct weir_pipeline *pipeline, struct weir_flow_parcel *parcel);
