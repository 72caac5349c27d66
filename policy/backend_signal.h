// SPDX-License-Identifier: BSD-3-Clause
//
// Signal: what control knows of a backend and the policy of its service uses, in one word of 64
// bits, so that it is read and written whole. Which of its meanings it has is part of the word:
// while a service changes its policy, a worker may read one that is meant for another policy.
//
//   cost     what a flow is predicted to cost, ns; 0 = unknown
//   errors   errors that the backend reports, as so many active flows of each worker
//
// Threads: control writes, workers read; relaxed accesses of whole words.
#pragma once

#include <stdint.h>

#define WEIR_SIGNAL_SHIFT 62 // the kind is above
#define WEIR_SIGNAL_COST UINT64_C(0)
#define WEIR_SIGNAL_ERRORS UINT64_C(2)

// A cost, or 0 if the word means something else.
static inline uint64_t weir_signal_cost(uint64_t word) {
	return word >> WEIR_SIGNAL_SHIFT == WEIR_SIGNAL_COST ? word : 0;
}

static inline uint64_t weir_signal_of_errors(uint32_t errors) {
	return errors > 0 ? WEIR_SIGNAL_ERRORS << WEIR_SIGNAL_SHIFT | errors : 0;
}

static inline uint32_t weir_signal_errors(uint64_t word) {
	return word >> WEIR_SIGNAL_SHIFT == WEIR_SIGNAL_ERRORS ? (uint32_t)word : 0;
}
