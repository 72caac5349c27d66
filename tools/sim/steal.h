// SPDX-License-Identifier: BSD-3-Clause
//
// Stealing between backends: declarations shared by steal.c (input of the steal planner) and
// steal_messages.c (steal requests and their effects). Private to these files.
//
// Threads: one, the simulation's.
#pragma once

#include "simulation_private.h"
#include "steal_duration.h"
#include "steal_plan.h"

struct weir_sim_steal_task {
	uint32_t request;
	uint32_t requested; // id of the planner's steal request; 0 = no request
	uint32_t next_free;
	bool begun;
};

struct weir_sim_steal_message { // request to an agent, or its answer
	uint32_t task, id, victim, thief;
	uint32_t request;
	uint32_t next_free;
	uint8_t answer; // enum weir_steal_answer
};

struct weir_sim_steal {
	struct weir_steal_plan *plan;
	// Estimated duration of requests on a core: one estimate for all backends, or an array with
	// an estimate for each backend (by_backend).
	struct weir_steal_duration *duration;
	struct weir_steal_request *requests; // scratch
	struct weir_prng prng;
	struct weir_sim_steal_task *task; // [TASKS]
	uint32_t task_count, task_free;
	struct weir_sim_steal_message *message;
	uint32_t message_count, message_room, message_free;
	// [clients][words] one bit for each backend in the client's subset; NULL = all backends
	uint64_t *allowed;
	uint32_t words;
};

static inline double weir_sim_steal_seconds(uint64_t ns) {
	return (double)ns / 1e9;
}

// Update the plan with the current requests of each backend.
void weir_sim_steal_look(struct weir_sim *sim);
// Returns when the client of a request that started at start_ns next retransmits its first packet.
uint64_t weir_sim_steal_retransmission_ns(const struct weir_sim *sim, uint64_t start_ns);
