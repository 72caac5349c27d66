// SPDX-License-Identifier: BSD-3-Clause
//
// The table from which a policy chooses backends in a replay. Used only by the files of this
// folder.
//
// Threads: any; no shared state.
#pragma once

#include "flow_replay.h"

struct weir_replay_table { // zero-initialized
	struct weir_policy_table table; // refers to the arrays below
	struct weir_candidate *candidates;
	uint16_t *slots;
	struct weir_round *rounds;
};

// Builds the table for the backends of a subset. Returns 0 or -ENOMEM; the caller must call fini in
// both cases.
int weir_replay_table_build(const struct weir_replay_params *params, enum weir_policy policy,
	uint32_t subset, struct weir_replay_table *ret);
void weir_replay_table_fini(struct weir_replay_table *table);
