// SPDX-License-Identifier: BSD-3-Clause
//
// Capacity: the measured speed of one CPU of this host in GCU, and which CPU that is. 1 GCU is one
// CPU of the reference, an AMD EPYC of the Zen 4 generation (family 25, model 17) in a virtual
// machine, which takes WEIR_CAPACITY_REFERENCE_NS for a round of the loop (capacity_loop.h).
//
// What other programs do only adds to the time of a round: so many short slices are measured in CPU
// time, and the result is that of the fastest tenth.
//
// Threads: any.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cpu_model.h"

#define WEIR_CAPACITY_REFERENCE_NS 147000
#define WEIR_CAPACITY_MOST_GCU 65.0
#define WEIR_CAPACITY_LEAST_GCU 0.001

struct weir_capacity_cpu {
	char model[WEIR_CPU_MODEL_BYTES]; // "" = unknown
	char stepping[32]; // family, model and stepping as numbers: "25/17/1"
};

// Of the first CPU. Without a name (arm64): its numbers, such as "CPU 0x41 0xd0c".
void weir_capacity_cpu_read(const char *proc_root, struct weir_capacity_cpu *ret);

// Measure with the lowest priority: sets that of the calling thread (nice 19). Takes 100 ms
// of CPU time, and longer while others use the CPUs. Returns 0, -ENOMEM, or -ERANGE (an impossible
// time: no clock of CPU time).
int weir_capacity_measure(double *ret_gcu);

// The result from the times of slices, which are sorted. count: at least 1.
double weir_capacity_of_slices(uint64_t *slice_ns, size_t count, uint32_t rounds);
