// SPDX-License-Identifier: BSD-3-Clause
//
// Makes the tables that control publishes to one simulated client: candidates with weights, the
// policy's settings, and the signals of backends (policy/backend_signal.h). In production,
// weir-control does this. Called by client.c and backend.c.
//
// Threads: one, the simulation's.
#pragma once

#include "simulation_private.h"
#include "subset.h"

// Allocate the scratch memory that the functions below use. Returns 0 or -ENOMEM.
int weir_sim_table_scratch(struct weir_sim *sim);
void weir_sim_table_scratch_free(struct weir_sim *sim);

// Rebuild the table of a client after its members or the policy have changed. Returns 0 or -ENOMEM.
int weir_sim_table_build(struct weir_sim *sim, struct weir_sim_client *client);

// Update the weights and settings in the table of a client. Returns whether the client must adopt
// the table: always if the weights are not the configured weights, otherwise if a setting has
// changed.
bool weir_sim_table_update(struct weir_sim *sim, struct weir_sim_client *client);

// Update the signals that the policy of a client needs: estimates of service times, reported errors
// and requests in progress, or probes.
void weir_sim_table_costs(struct weir_sim *sim, struct weir_sim_client *client);

// Passes the number of requests in progress, which a backend has reported, to the clients whose
// policy uses this number.
void weir_sim_table_take_active(struct weir_sim *sim, uint32_t backend, uint64_t active);

// Sets the slow start (struct weir_policy_share) of the client's backends. Call after the client
// has loaded the table.
void weir_sim_table_shares(struct weir_sim *sim, struct weir_sim_client *client);

// Returns the time for which an error counts as an active request.
uint64_t weir_sim_error_window_ns(const struct weir_sim *sim);
