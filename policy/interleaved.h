// SPDX-License-Identifier: BSD-3-Clause
//
// Interleaved weighted round robin: the rounds of the schedule.
//
// Threads: any; control and simulator.
#pragma once

#include "policy.h"

// Compute the rounds, one for each distinct weight of the candidates, in ascending order. `first`
// of a round is the first candidate with at least this weight. rounds has room for n. Returns the
// number of rounds. Efficient for candidates sorted by weight, correct for any order.
uint32_t weir_interleaved_rounds(
	const struct weir_candidate *candidates, uint32_t n, struct weir_round *rounds);
