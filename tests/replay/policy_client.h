// SPDX-License-Identifier: BSD-3-Clause
//
// One worker with one client of one service. A replayer uses it to choose backends with policy.h.
//
// Threads: one. The program exits if it is out of memory.
#pragma once

#include "policy.h"

struct policy_client {
	struct weir_policy_client client; // first member, because of its alignment
	struct weir_policy_worker worker;
	struct weir_policy_table table;
	struct weir_candidate *candidates;
	struct weir_round *rounds;
	uint64_t *cost_ns; // [backend_count]
};

// Create a client with backends 0 .. n - 1, of which none is a candidate yet.
struct policy_client *policy_client_create(enum weir_policy policy, uint32_t n);
void policy_client_free(struct policy_client *with);

void policy_client_add(struct policy_client *with, uint32_t id, uint32_t weight);
void policy_client_clear(struct policy_client *with); // remove all candidates

// Compute strides and rounds, publish the candidates and load them.
void policy_client_adopt(struct policy_client *with, bool reported, uint64_t now_ns);

// Reset the state of the client, publish the candidates and load them.
void policy_client_restart(struct policy_client *with, uint64_t now_ns);

// Returns the id of the chosen backend, or REPLAY_NONE.
long policy_client_choose(struct policy_client *with, uint64_t now_ns);
