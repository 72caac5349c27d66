// SPDX-License-Identifier: BSD-3-Clause
//
// Inverse weights, for policies that compare load / weight. Workers do not divide: they multiply
// the load by an integer that is inversely proportional to the weight (the stride).
//
// Called by weir-control and by the simulator, on any thread.
#pragma once

#include "policy.h"

// Sets the stride of each candidate from its weight. The stride is the least common multiple of all
// weights, divided by the weight; this is exact. If the result does not fit into 16 bits for all
// candidates, the stride is 65,535 times the least weight, divided by the weight, and rounded. The
// relative error is then at most n / 131,070 for a weight that is n times the least weight, up to n
// = 131,070. If all weights are equal, sets all strides to 0: then the loads are compared without
// strides. A weight of 0 counts as 1.
void weir_inverse_weights(struct weir_candidate *candidates, uint32_t n);

// Returns whether weir_inverse_weights has set the strides: the first candidate must have a stride
// if the weights differ, and none if they are equal. Older versions of weir-control set no strides
// for least-loaded.
bool weir_inverse_weights_are_set(const struct weir_candidate *candidates, uint32_t n);
