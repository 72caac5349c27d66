// SPDX-License-Identifier: BSD-3-Clause
//
// Replay: computes how another policy would have distributed the flows of a service. Assigns
// recorded flows to backends again, with the same code that workers run.
//
// A flow keeps its start, its worker and its duration. With `scaled`, the duration of a flow that
// gets a different backend than in the recording is multiplied by the ratio of the mean durations
// of both backends. The means are geometric, so that a few long flows do not dominate. The fewer
// flows a backend has, the closer its mean is to the mean of all flows. The cost of a backend is
// the arithmetic mean duration of its flows, or the mean of the other costs if it has no flows.
// Flow hashes are random, and the same for every policy. Not simulated: errors, changes to
// backends, and flows that are not in the recording.
//
// Threads: any, but each replay is used by only one thread. No clock, no I/O. Only
// weir_replay_create allocates memory.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "policy.h"

struct weir_replay_flow { // 24 bytes
	uint64_t start_ns;
	uint64_t service_ns; // duration
	uint16_t backend; // index in backends[]
	uint16_t worker; // index of the worker
	uint32_t reserved;
};

struct weir_replay_backend {
	uint64_t identity; // has the same value on all instances
	uint64_t subsets; // bit i: member of subset i; 0 = gets no new flows
	uint32_t weight; // effective weight
};

struct weir_replay_params { // all borrowed until weir_replay_free
	const struct weir_replay_flow *flows; // ascending by start_ns
	uint32_t flow_count;
	const struct weir_replay_backend *backends;
	uint32_t backend_count; // at most 65534
	uint32_t workers; // at least 1
	uint32_t subsets; // 1, or one per worker; worker w uses subset w modulo subsets
	uint32_t slots; // slots of a table, for policies with slots; a prime
	// Used: max_active_flows (limit of all workers together), when_exhausted, error_window_ms.
	struct weir_policy_settings settings;
	bool scaled;
};

// Returns whether a policy can be replayed: the policy needs only data that the recording has.
bool weir_replay_can(enum weir_policy policy);

#define WEIR_REPLAY_RECORDED (-1) // value for the parameter `policy`: use the recorded backends

struct weir_replay_result {
	uint64_t flows; // flows that were not rejected
	uint64_t spilled;
	uint64_t rejected; // flows that flow control rejected, or for which there was no backend
	// number of flows in progress per backend that gets new flows, as a mean over time
	double active_mean;
	// Number of flows at the backend that has the most flows in progress, as a mean over time.
	double active_most;
	double spread; // active_most / active_mean; 0 = no flow was in progress
	const uint32_t *flows_of; // [backend_count], borrowed from the replay
};

struct weir_replay;

// Prepare a replay. policy: enum weir_policy, or WEIR_REPLAY_RECORDED. Returns 0, -EINVAL (the
// policy cannot be replayed) or -ENOMEM.
int weir_replay_create(
	const struct weir_replay_params *params, int policy, struct weir_replay **ret);
void weir_replay_free(struct weir_replay *replay); // NULL is allowed

// Replay up to `most` more flows. Returns whether all flows have been replayed.
bool weir_replay_step(struct weir_replay *replay, uint32_t most);
// Get the result for the flows that have been replayed so far.
void weir_replay_read(const struct weir_replay *replay, struct weir_replay_result *ret);
