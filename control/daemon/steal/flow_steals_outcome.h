// SPDX-License-Identifier: BSD-3-Clause
//
// Outcomes of requests to move flows: their names and texts.
#pragma once

#include <stdint.h>

#include "agents.h"

// Outcomes of a request to move a flow. The answer of the agent, the response of the worker, or
// this process determines the outcome. X(NAME, "name", "meaning")
#define WEIR_FLOW_STEAL_OUTCOMES(X) \
	X(MOVED, "moved", "the flow was moved to the new backend") \
	X(RUNNING, "running", "agent: the connection is, or may be, established on the backend") \
	X(UNSETTLED, "unsettled", "agent: the client's ACK may be in flight") \
	X(COOKIES, "cookies", "agent: SYN cookies are in use") \
	X(NO_LISTENER, "no_listener", "agent: no listening socket") \
	X(CANNOT_TELL, "cannot_tell", "agent: the kernel did not answer") \
	X(OFF, "off", "agent: stealing is not allowed") \
	X(SILENT, "silent", "the agent did not answer, or is not reachable now") \
	X(CHANGED, "changed", "worker: the flow has received a packet") \
	X(GONE, "gone", "worker: the flow is no longer in its flow table") \
	X(UNUSABLE, "unusable", "worker: the new backend gets no new flows") \
	X(LIMIT, "limit", \
		"worker: the new backend is at its limit, or there are too many half-open flows") \
	X(LATE, "late", "agent or worker: the request arrived after its deadline") \
	X(NO_WORKER, "no_worker", "the worker did not answer") \
	X(ABANDONED, "abandoned", \
		"interrupted by a reload that changed the service, or by the exit of " \
		"weir-dataplane")

enum weir_flow_steal_outcome {
#define X(name, key, text) WEIR_FLOW_STEAL_##name,
	WEIR_FLOW_STEAL_OUTCOMES(X)
#undef X
		WEIR_FLOW_STEAL_OUTCOME_COUNT,
};
const char *weir_flow_steal_outcome_name(enum weir_flow_steal_outcome outcome);

// Reasons why connections are moved away from a backend. X(NAME, "name", "meaning")
#define WEIR_FLOW_STEAL_REASONS(X) \
	X(ACCEPT_QUEUE, "accept-queue", \
		"the agent of the backend reports that the accept queue is full") \
	X(HALF_OPEN, "half-open", "half-open flows accumulate at the backend")

enum weir_flow_steal_reason {
#define X(name, key, text) WEIR_FLOW_STEAL_FOR_##name,
	WEIR_FLOW_STEAL_REASONS(X)
#undef X
		WEIR_FLOW_STEAL_REASON_COUNT,
};
const char *weir_flow_steal_reason_name(enum weir_flow_steal_reason reason);

// Returns the reason and a remedy if the outcome means that the agent cannot permit any steal;
// otherwise NULL.
const char *weir_flow_steal_hindrance(enum weir_flow_steal_outcome outcome);
// Returns the outcome for the answer of a worker. answer: may have any value, because another
// process has written it.
enum weir_flow_steal_outcome weir_flow_steal_of_move(uint8_t answer);
// Returns the outcome for the answer of an agent. result: a result that does not permit a move.
enum weir_flow_steal_outcome weir_flow_steal_of_answer(enum weir_agent_steal_result result);
