// SPDX-License-Identifier: BSD-3-Clause
//
// Comparison: records the flows of one service for some time, and replays them with every policy
// that needs no reports (flow_replay.h). If the service's own policy does not need the durations of
// flows, workers measure these only during the recording. Only one comparison can run at a time.
//
// A flow that began during the recording is recorded when a worker detects its end: a FIN, an RST,
// or the idle timeout of a UDP flow. Not recorded: flows whose end is detected after the recording,
// half-open TCP flows, TCP flows that time out, and evicted flows.
//
// Threads: the thread of the loop; sorting and replaying are done in slices.
#pragma once

#include <uv.h>

#include "config.h"
#include "estimates.h"
#include "flow_replay.h"
#include "tables.h"

struct weir_comparison;

struct weir_comparisons { // modules that comparisons use, and the comparison in progress
	uv_loop_t *loop;
	struct weir_tables *tables;
	const struct weir_segment *segment; // the attached segment
	struct weir_estimates *estimates;
	// Called when the set of services whose flows are measured has changed. Must update the
	// estimates and publish the tables.
	void (*changed)(void *context);
	void *context;
	struct weir_comparison *current; // NULL = no comparison is in progress
};

#define WEIR_COMPARISON_FLOWS 1000000u // maximum number of recorded flows
#define WEIR_COMPARISON_MS_LEAST 100u
#define WEIR_COMPARISON_MS_MOST 600000u

struct weir_comparison_backend {
	char name[WEIR_CONFIG_NAME_BYTES];
	uint16_t id;
	uint64_t time_sum_ns; // sum of the durations of the backend's recorded flows
};

struct weir_comparison_result { // the owner frees the result with weir_comparison_result_free
	char service[WEIR_CONFIG_NAME_BYTES];
	uint8_t policy; // policy in effect during the recording, enum weir_policy
	uint64_t recorded_ms;
	uint64_t began; // number of the service's flows that began during the recording
	// samples of all services that were lost because the ring of a worker was full
	uint64_t lost;
	// Number of flows that are not in the recording because it was full
	// (WEIR_COMPARISON_FLOWS), or because memory ran out. Flows of backends that were added
	// after the recording had begun are not in the recording either, but are not counted here.
	uint64_t omitted;
	struct weir_replay_params params; // `flows` is NULL
	struct weir_comparison_backend *names; // [params.backend_count]
	struct weir_replay_backend *backends; // owned; params.backends points to it
	// Results, indexed by policy; the last element is the recording itself. flows_of is NULL
	// for a policy that was not replayed.
	struct weir_replay_result replayed[WEIR_POLICY_COUNT + 1];
};
void weir_comparison_result_free(struct weir_comparison_result *result); // NULL is allowed

// Called when a comparison has ended. result: owned by the callee; NULL = the comparison has
// failed. why: reason of the failure; NULL = out of memory.
typedef void (*weir_comparison_done)(
	void *context, struct weir_comparison_result *result, const char *why);

// Begins a comparison; a dataplane must be attached. service: the id of a service in the tables.
// for_ms: length of the recording. scaled: see flow_replay.h. Returns 0 (done is called later),
// -EBUSY (another comparison is in progress) or -ENOMEM.
int weir_comparison_begin(struct weir_comparisons *comparisons, uint16_t service, uint32_t for_ms,
	bool scaled, weir_comparison_done done, void *context);
// Returns the context of the comparison in progress, or NULL if no comparison is in progress.
void *weir_comparison_context(const struct weir_comparisons *comparisons);
// Abort the comparison in progress, if there is one. why: the reason, which is passed to `done`.
void weir_comparison_abandon(struct weir_comparisons *comparisons, const char *why);
