// SPDX-License-Identifier: BSD-3-Clause
//
// Comparison: records the flows of one service for a while, and replays them through every policy
// that needs no reports (compare/flow_replay.h). For as long as it records, the workers measure the
// service's flows; at other times nothing of this costs anything. One at a time.
//
// A flow is recorded when it ends, if it began in the recording: one that lasts longer is not
// there, nor one that had no answer or timed out.
//
// Threads: one, that of the loop; sorting and replaying are done in slices.
#pragma once

#include <uv.h>

#include "config.h"
#include "estimates.h"
#include "flow_replay.h"
#include "tables.h"

struct weir_comparison;

struct weir_comparisons { // what they are made with, and the one under way
	uv_loop_t *loop;
	struct weir_tables *tables;
	const struct weir_segment *segment; // the one that is attached
	struct weir_estimates *estimates;
	// What is to be measured has changed: estimates are to follow, and tables to be published.
	void (*changed)(void *context);
	void *context;
	struct weir_comparison *current; // NULL = none
};

#define WEIR_COMPARISON_FLOWS 1000000u // that are recorded at most
#define WEIR_COMPARISON_MS_LEAST 100u
#define WEIR_COMPARISON_MS_MOST 600000u

struct weir_comparison_backend {
	char name[WEIR_CONFIG_NAME_BYTES];
	uint16_t id;
	uint64_t time_sum_ns; // of its recorded flows
};

struct weir_comparison_result { // heap; its owner frees it
	char service[WEIR_CONFIG_NAME_BYTES];
	uint8_t policy; // enum weir_policy in effect
	uint64_t recorded_ms;
	uint64_t began; // flows of the service that began in that time
	uint64_t lost; // samples of all services that found a worker's ring full
	uint64_t omitted; // flows beyond WEIR_COMPARISON_FLOWS, or of backends that are new
	struct weir_replay_params params;
	struct weir_comparison_backend *names; // [params.backend_count]
	struct weir_replay_backend *backends; // what params has, without its flows
	// By policy; the last one is the recording itself. flows_of NULL: was not replayed.
	struct weir_replay_result replayed[WEIR_POLICY_COUNT + 1];
};
void weir_comparison_result_free(struct weir_comparison_result *result); // NULL is fine

// result: the callee's; NULL: there is none, and why not.
typedef void (*weir_comparison_done)(
	void *context, struct weir_comparison_result *result, const char *why);

// Needs a dataplane. Returns 0 (done will be called, not before this returns), -EBUSY (one is under
// way), -ENOMEM.
int weir_comparison_begin(struct weir_comparisons *comparisons, uint16_t service, uint32_t for_ms,
	bool scaled, weir_comparison_done done, void *context);
// The context of the one that is under way; NULL: there is none.
void *weir_comparison_context(const struct weir_comparisons *comparisons);
// End the one that is under way, if any.
void weir_comparison_abandon(struct weir_comparisons *comparisons, const char *why);
