// SPDX-License-Identifier: BSD-3-Clause
//
// What requests for flows come to, in words.
#pragma once

#include <stdint.h>

#include "agents.h"

// How the request for a flow ended. X(NAME, "name", "meaning"): those of the agent's answer, then
// those of the worker's, then what is found here.
#define WEIR_FLOW_STEAL_OUTCOMES(X) \
	X(MOVED, "moved", "the flow has the new backend") \
	X(RUNNING, "running", "agent: the backend has the connection, or may have it") \
	X(UNSETTLED, "unsettled", "agent: the client's ACK may be under way") \
	X(COOKIES, "cookies", "agent: SYN cookies are in use") \
	X(NO_LISTENER, "no_listener", "agent: no socket listens there") \
	X(CANNOT_TELL, "cannot_tell", "agent: the kernel gave no answer") \
	X(OFF, "off", "agent: it may not") \
	X(SILENT, "silent", "the agent did not answer, or cannot be asked now") \
	X(CHANGED, "changed", "worker: the flow had a packet meanwhile") \
	X(GONE, "gone", "worker: the flow has left its table") \
	X(UNUSABLE, "unusable", "worker: the new backend takes no new flows") \
	X(LIMIT, "limit", "worker: the new backend is at its limit, or the table is crowded") \
	X(LATE, "late", "agent or worker: the deadline was over") \
	X(NO_WORKER, "no_worker", "the worker did not answer") \
	X(ABANDONED, "abandoned", \
		"a reload of the service, or the end of weir-dataplane, came in between")

enum weir_flow_steal_outcome {
#define X(name, key, text) WEIR_FLOW_STEAL_##name,
	WEIR_FLOW_STEAL_OUTCOMES(X)
#undef X
		WEIR_FLOW_STEAL_OUTCOME_COUNT,
};
const char *weir_flow_steal_outcome_name(enum weir_flow_steal_outcome outcome);

// Why connections leave a backend. X(NAME, "name", "meaning")
#define WEIR_FLOW_STEAL_REASONS(X) \
	X(ACCEPT_QUEUE, "accept-queue", "its accept queue is full, as its agent reports") \
	X(HALF_OPEN, "half-open", "half-open flows pile up at it")

enum weir_flow_steal_reason {
#define X(name, key, text) WEIR_FLOW_STEAL_FOR_##name,
	WEIR_FLOW_STEAL_REASONS(X)
#undef X
		WEIR_FLOW_STEAL_REASON_COUNT,
};
const char *weir_flow_steal_reason_name(enum weir_flow_steal_reason reason);

// What keeps an agent from letting any connection go, and what to do about it; NULL = nothing does.
const char *weir_flow_steal_hindrance(enum weir_flow_steal_outcome outcome);
// answer: of the worker, unchecked.
enum weir_flow_steal_outcome weir_flow_steal_of_move(uint8_t answer);
// result: one that permits no move.
enum weir_flow_steal_outcome weir_flow_steal_of_answer(enum weir_agent_steal_result result);
