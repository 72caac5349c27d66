// SPDX-License-Identifier: BSD-3-Clause
//
// Capacity loop: a fixed amount of work whose CPU time measures the speed of a CPU. A round has
// three kinds of work (left column), which measure different properties of a CPU (right column).
// Each kind takes about a third of the time on the reference CPU:
//
//   four independent chains of hashes      instructions in parallel
//   operations chosen by hashed bits       branches that cannot be predicted
//   a walk through 256 KiB, random order   the L2 cache
//
// None of these times depends on the clock rate alone. Memory beyond L2 is not measured: other
// programs in a shared L3 cache changed the time of a walk through 4 MiB by a factor of ten.
//
// A changed loop needs a new WEIR_CAPACITY_LOOP_VERSION and a new WEIR_CAPACITY_REFERENCE_NS
// (capacity.h). All builds compile the loop with the same optimization.
//
// Threads: a loop is used by one thread.
#pragma once

#include <stdint.h>

#define WEIR_CAPACITY_LOOP_VERSION 1
#define WEIR_CAPACITY_LOOP_LINES 4096u // lines of 64 bytes: 256 KiB

struct weir_capacity_line {
	uint32_t next; // index of the next line
	uint32_t unused[15];
};

struct weir_capacity_loop {
	struct weir_capacity_line *lines;
	uint32_t at; // current line of the walk
	uint64_t chain[4];
	uint64_t number; // result of the last round
};

// Allocate and initialize the memory of the loop. Returns 0 or -ENOMEM.
int weir_capacity_loop_init(struct weir_capacity_loop *loop);
void weir_capacity_loop_fini(struct weir_capacity_loop *loop);

// Run one round. Returns a number that is computed from the results of all rounds so far, so that
// the compiler cannot remove the work. The number is the same on every CPU.
uint64_t weir_capacity_loop_round(struct weir_capacity_loop *loop);
