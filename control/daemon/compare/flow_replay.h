// SPDX-License-Identifier: BSD-3-Clause
//
// Replay: what another policy would have done with the flows that a service had. Takes recorded
// flows and deals them out anew, with the very code that workers run.
//
// Replayed are when a flow began, at which worker, and how long it lasted. A flow that another
// backend gets lasts as long as at the one that served it; scaled, it lasts as much longer or
// shorter as flows of that backend last on the whole (geometric means, so that few long flows do
// not decide; with few flows nearer to the mean of all). Costs are the mean times of the backends.
// Not replayed: errors, changes of the backends meanwhile, and flows that are not in the recording.
// Hashes are drawn at random, the same ones for every policy.
//
// Threads: any; a replay belongs to one. No clock, no I/O. create allocates, nothing else does.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "policy.h"

struct weir_replay_flow { // 24 bytes
	uint64_t start_ns;
	uint64_t service_ns;
	uint16_t backend; // number in backends[]
	uint16_t worker; // below workers
	uint32_t reserved;
};

struct weir_replay_backend {
	uint64_t identity; // the same on every instance
	uint64_t subsets; // bit i: it is in subset number i; 0 = takes no new flows
	uint32_t weight; // effective
};

struct weir_replay_params { // all borrowed until weir_replay_free
	const struct weir_replay_flow *flows; // ascending by start_ns
	uint32_t flow_count;
	const struct weir_replay_backend *backends;
	uint32_t backend_count; // at most 65534
	uint32_t workers; // at least 1
	uint32_t subsets; // 1, or one for each worker: worker w has number w modulo subsets
	uint32_t slots; // of a table of a policy that chooses by slots; prime
	struct weir_policy_settings settings; // of the service: limit and error window are used
	bool scaled;
};

// Whether a policy can be replayed: not, if it needs what the recording does not have.
bool weir_replay_can(enum weir_policy policy);

#define WEIR_REPLAY_RECORDED (-1) // as a policy: each flow goes where it went

struct weir_replay_result {
	uint64_t flows; // that began; the others were rejected
	uint64_t spilled;
	uint64_t rejected; // by flow control, or for want of a backend
	double active_mean; // flows in progress at one backend: mean over time and backends
	double active_most; // at the backend that had most: mean over time
	double spread; // active_most / active_mean; 0 = nothing was in progress
	const uint32_t *flows_of; // [backend_count], the replay's
};

struct weir_replay;

// policy: enum weir_policy, or WEIR_REPLAY_RECORDED. Returns 0, -EINVAL (cannot be replayed),
// -ENOMEM.
int weir_replay_create(
	const struct weir_replay_params *params, int policy, struct weir_replay **ret);
void weir_replay_free(struct weir_replay *replay); // NULL is fine

// Replay up to `most` more flows. Returns whether all were.
bool weir_replay_step(struct weir_replay *replay, uint32_t most);
// What came of it so far.
void weir_replay_read(const struct weir_replay *replay, struct weir_replay_result *ret);
