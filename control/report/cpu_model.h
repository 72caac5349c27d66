// SPDX-License-Identifier: BSD-3-Clause
//
// CPU model: the name of a kind of CPU, as in /proc/cpuinfo ("AMD EPYC 7763 64-Core Processor").
// Datagrams contain a number instead, because they have no room for the name: weir-agent and
// weir-control derive the number from the name.
//
// Threads: pure functions.
#pragma once

#include <stdint.h>

#define WEIR_CPU_MODEL_BYTES 48 // includes a NUL; no CPU reports a longer name
#define WEIR_CPU_MODEL_NUMBERS (1u << 24)

// Copy a name up to a line feed or the size of ret. Spaces at the ends are removed, several spaces
// become one, and bytes that are not printable ASCII become '?'.
void weir_cpu_model_set(char ret[static WEIR_CPU_MODEL_BYTES], const char *name);

// Returns 1 to 2^24 - 1, or 0 for "": the 32-bit FNV-1a hash of a name of weir_cpu_model_set,
// folded to 24 bits (http://www.isthe.com/chongo/tech/comp/fnv/); a hash of 0 becomes 1.
uint32_t weir_cpu_model_number(const char *name);
