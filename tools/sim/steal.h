// SPDX-License-Identifier: BSD-3-Clause
//
// What the two files of stealing between backends share: steal.c (the input of the plan) and
// steal_messages.c (its requests, and what follows). Internal to them.
//
// Threads: that of the simulation.
#pragma once

#include "simulation_private.h"
#include "steal_duration.h"
#include "steal_plan.h"

struct weir_sim_steal_task {
	uint32_t request;
	uint32_t asked; // id of the plan's request; 0 = none
	uint32_t next_free;
	bool begun;
};

struct weir_sim_steal_message { // to an agent, or its answer
	uint32_t task, id, victim, thief;
	uint32_t request;
	uint32_t next_free;
	uint8_t answer; // enum weir_steal_answer
};

struct weir_sim_steal {
	struct weir_steal_plan *plan;
	struct weir_steal_duration *duration; // of requests on a core, [1] or [backends]
	struct weir_steal_request *asked; // scratch
	struct weir_prng prng;
	struct weir_sim_steal_task *task; // [TASKS]
	uint32_t task_count, task_free;
	struct weir_sim_steal_message *message;
	uint32_t message_count, message_room, message_free;
	uint64_t *allowed; // [clients][words]: backends of their subsets; NULL = all
	uint32_t words;
};

static inline double weir_sim_steal_seconds(uint64_t ns) {
	return (double)ns / 1e9;
}

// Update the plan with what each backend has at this moment.
void weir_sim_steal_look(struct weir_sim *sim);
// When a client that began at start_ns sends its first packet again.
uint64_t weir_sim_steal_retransmission_ns(const struct weir_sim *sim, uint64_t start_ns);
