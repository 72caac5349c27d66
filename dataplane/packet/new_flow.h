// SPDX-License-Identifier: BSD-3-Clause
//
// New flows: begin and end of a flow. Chooses the backend of a flow, inserts the flow into the flow
// table, and updates counters, the policy, and the samples of service times.
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"

// Processes the packets in b->misses, from index `from` on: SYNs, packets whose flow is not in the
// table, and the packets after them that need the slow lookup. Looks up each flow once more. If the
// flow is not found, chooses a backend and inserts the flow. Stops after a SYN of a known flow.
//
// *ret_known: the flow of this SYN; negative if there was no such SYN. Returns the index of the
// first packet of b->misses that is not yet processed.
unsigned int weir_new_flow_process(
	struct weir_burst *b, unsigned int from, weir_flow_ref *ret_known);

// Count a flow that was inserted into the table, or restarted, by a packet with this event.
// half_open: whether the flow is half-open.
void weir_new_flow_started(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service,
	const struct weir_flow_key *key, enum weir_flow_event event, bool half_open,
	uint64_t now_ns);

// Call when the id of a backend was assigned to a service. Resets the state of the backend in
// policies, and sets its limit and slow start from its row.
void weir_new_flow_owner(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service);

// Call when this worker has adopted the row of a backend with an unchanged service, or the removal
// of the row. Updates the state of the backend in policies: closed or open, limit, slow start.
void weir_new_flow_follow_row(struct weir_pipeline *pipeline, uint16_t backend);

// Publish this worker's number of half-open flows of a backend.
void weir_new_flow_publish_half_open(const struct weir_pipeline *pipeline, uint16_t backend);

// Chooses a backend, as for a new flow, for a flow that must leave its backend: the stored backend
// of the source (affinity), otherwise a backend of the policy or, while the flow table is crowded,
// of the Maglev fallback. Returns WEIR_BACKEND_NONE if no backend can be chosen.
uint16_t weir_new_flow_choose(
	struct weir_burst *b, uint16_t service, const struct weir_descriptor *d);

// Call when packet i has restarted its flow. Redirects later packets of the flow in this burst to
// the backend in the verdict of packet i. These packets were looked up before the restart, and data
// after a SYN (RFC 7413) must not go to the old flow's backend.
void weir_new_flow_redirect(struct weir_burst *b, unsigned int i);

// Returns the parameters for inserting the flow of a packet. The packet's verdict must contain the
// service and the backend.
struct weir_flow_start weir_new_flow_start(
	const struct weir_burst *b, const struct weir_descriptor *d);

// Returns the functions that the flow table calls when the state of a flow changes (flow.h).
struct weir_flow_listener weir_new_flow_listener(struct weir_pipeline *pipeline);
