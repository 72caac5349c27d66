// SPDX-License-Identifier: BSD-3-Clause
//
// Inverse weights: for policies that compare load / weight. load / weight is compared as load
// times an integer that is inversely proportional to the weight, because workers do not divide.
//
// Called by weir-control and by the simulator, on any thread.
#pragma once

#include "policy.h"

// Sets the stride of each candidate from its weight: the common multiple of all weights, divided
// by the weight, which is exact, if the result has 16 bits for all candidates. Otherwise the
// nearest 16-bit number to 65,535 times the least weight, divided by the weight: the error for a
// weight that is n times the least one is at most n / 131,070. If all weights are equal, sets all
// strides to 0: then the loads are compared as they are. A weight of 0 counts as 1.
void weir_inverse_weights(struct weir_candidate *candidates, uint32_t n);

// Returns whether candidates have strides exactly if they need them. Older versions of weir-control
// set no strides for these policies.
bool weir_inverse_weights_are_set(const struct weir_candidate *candidates, uint32_t n);
