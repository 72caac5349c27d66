// SPDX-License-Identifier: BSD-3-Clause
//
// Capacity: the measured speed of one CPU of this host in GCU, and the model of the CPU. 1 GCU is
// the speed of the reference CPU: one CPU of a virtual machine on an AMD EPYC of the Zen 4
// generation (family 25, model 17). The reference CPU takes WEIR_CAPACITY_REFERENCE_NS for a round
// of the loop (capacity_loop.h).
//
// Other programs on the host can make a round slower, but never faster. Therefore the CPU time of
// many short slices is measured, and the result is computed from the 10th percentile of the times.
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

// Read the model of the first CPU. If the kernel reports no model name (arm64), the name is
// composed of the CPU's identification numbers, such as "CPU 0x41 0xd0c".
void weir_capacity_cpu_read(const char *proc_root, struct weir_capacity_cpu *ret);

// Measure the speed. The calling thread gets the lowest priority (nice 19), and keeps it. Takes 100
// ms of CPU time, less on a CPU above 1.5 GCU, more below 0.12 GCU, and more real time while other
// programs use the CPUs. Returns 0, -ENOMEM, or -ERANGE (the result is impossible: the host has no
// CPU-time clock).
int weir_capacity_measure(double *ret_gcu);

// Compute the speed in GCU from the CPU times of slices. slice_ns: the times; this function sorts
// the array. count: number of slices, at least 1. rounds: number of rounds in each slice.
double weir_capacity_of_slices(uint64_t *slice_ns, size_t count, uint32_t rounds);
