// SPDX-License-Identifier: BSD-3-Clause
//
// New flows: begin and end of a flow. Chooses the backend of a flow, enters the flow into the flow
// table, and updates counters, the policy, and the samples of service times.
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"

// Process the packets in b->misses: SYNs, packets whose flow is not in the table, and later packets
// of their flows. Each flow is looked up once more; if it is not found, a backend is chosen and the
// flow entered. Starts with the packet at `from`, and stops after a SYN of a known flow: *ret_known
// is then this flow, otherwise negative. Returns how many packets of b->misses are processed,
// counted from the first.
unsigned int weir_new_flow_process(
	struct weir_burst *b, unsigned int from, weir_flow_ref *ret_known);

// Account for a flow that was entered into the table, or restarted, by a packet with this event.
// half_open: whether the flow is half-open.
void weir_new_flow_started(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service,
	const struct weir_flow_key *key, enum weir_flow_event event, bool half_open,
	uint64_t now_ns);

// Reset the state of a backend in policies, with the limit of its row and its slow start, because
// the backend's id was assigned to a service.
void weir_new_flow_owner(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service);

// Update the state of a backend in policies (closed or open, the row's limit, slow start), because
// its row was adopted, with an unchanged service, or removed.
void weir_new_flow_follow_row(struct weir_pipeline *pipeline, uint16_t backend);

// Publish this worker's number of half-open flows of a backend.
void weir_new_flow_publish_half_open(const struct weir_pipeline *pipeline, uint16_t backend);

// The backend that the policy of a service chooses for a flow that must leave its backend, or
// WEIR_BACKEND_NONE. As for new flows, the Maglev fallback chooses while the flow table is crowded.
uint16_t weir_new_flow_choose(
	struct weir_burst *b, uint16_t service, const struct weir_descriptor *d);

// Redirect the later packets of a flow in a burst, because the flow was restarted by packet i with
// the backend in its verdict. These packets were looked up before the restart: data after a SYN
// (RFC 7413) must not go to the old flow's backend.
void weir_new_flow_redirect(struct weir_burst *b, unsigned int i);

// The parameters for entering the flow of a packet. The packet's verdict must have service and
// backend.
struct weir_flow_start weir_new_flow_start(
	const struct weir_burst *b, const struct weir_descriptor *d);

// The functions that the flow table calls when a flow finishes, resumes or ends.
struct weir_flow_listener weir_new_flow_listener(struct weir_pipeline *pipeline);
