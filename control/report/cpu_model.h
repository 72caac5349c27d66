// SPDX-License-Identifier: BSD-3-Clause
//
// CPU model: the name of a kind of CPU, as the kernel has it ("AMD EPYC 7763 64-Core Processor").
// Datagrams have a number in its place, because they have no room for the name: agent and
// weir-control derive the number from the name.
//
// Threads: pure functions.
#pragma once

#include <stdint.h>

#define WEIR_CPU_MODEL_BYTES 48 // with a NUL; a CPU's own name is not longer
#define WEIR_CPU_MODEL_NUMBERS (1u << 24)

// Copy a name without spaces at its ends, with single spaces inside and with '?' for what is not
// printable ASCII, up to a line feed or the size of ret.
void weir_cpu_model_set(char ret[static WEIR_CPU_MODEL_BYTES], const char *name);

// 1 to 2^24 - 1, and 0 for "": FNV-1a with 32 bits of the name as above, folded to 24 bits
// (http://www.isthe.com/chongo/tech/comp/fnv/), and 1 if that is 0.
uint32_t weir_cpu_model_number(const char *name);
