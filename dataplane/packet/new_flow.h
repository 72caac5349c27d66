// SPDX-License-Identifier: BSD-3-Clause
//
// New flows: everything that happens when a flow begins or ends. The choice of its backend, its
// entry into the flow table, and what its begin and its end concern: counters, the policy, and the
// samples of service times.
//
// Threads: part of a pipeline; its worker only.
#pragma once

#include "burst.h"

// Process the packets in b->misses: SYNs, packets whose flow is not in the table, and the packets
// that follow those. Each is looked up once more, else a backend is chosen and the flow entered.
// Begins with the one at `from`, and stops behind a SYN of a flow that is known: *ret_known is that
// flow then, else negative. Returns how many of b->misses are processed, `from` included.
unsigned int weir_new_flow_process(
	struct weir_burst *b, unsigned int from, weir_flow_ref *ret_known);

// A flow was entered into the table, or restarted, by a packet with this event; half_open: it is.
void weir_new_flow_started(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service,
	const struct weir_flow_key *key, enum weir_flow_event event, bool half_open,
	uint64_t now_ns);

// A backend's id has come to a service: as far as policies are concerned it starts anew, with the
// limit of its row and its slow start.
void weir_new_flow_owner(struct weir_pipeline *pipeline, uint16_t backend, uint16_t service);

// The row of a backend was adopted, of the service that it has had so far, or it was removed: as
// far as policies are concerned it is closed or not from now on, and has the limit of the row and
// its slow start.
void weir_new_flow_follow_row(struct weir_pipeline *pipeline, uint16_t backend);

// Show how many half-open flows of a backend this worker has.
void weir_new_flow_tell_half_open(const struct weir_pipeline *pipeline, uint16_t backend);

// The backend that the policy of a service chooses for a flow that must leave its own, or
// WEIR_BACKEND_NONE. As for new flows, the Maglev fallback chooses while the flow table is crowded.
uint16_t weir_new_flow_choose(
	struct weir_burst *b, uint16_t service, const struct weir_descriptor *d);

// The flow of packet i was restarted with the backend in its verdict. Packets after it in the burst
// were looked up before that: data that follows a SYN (RFC 7413) must not go to the old flow's
// backend.
void weir_new_flow_redirect(struct weir_burst *b, unsigned int i);

// How the flow of a packet begins. The packet's verdict names service and backend.
struct weir_flow_start weir_new_flow_start(
	const struct weir_burst *b, const struct weir_descriptor *d);

// The functions that the flow table calls when a flow finishes, resumes or ends.
struct weir_flow_listener weir_new_flow_listener(struct weir_pipeline *pipeline);
