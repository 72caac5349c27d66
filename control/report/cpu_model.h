// SPDX-License-Identifier: BSD-3-Clause
//
// CPU model: the model name of a CPU in /proc/cpuinfo ("AMD EPYC 7763 64-Core Processor").
// Datagrams have no room for the name and contain a number instead, which weir-agent and
// weir-control compute from the name.
//
// Threads: any; no shared state.
#pragma once

#include <stdint.h>

#define WEIR_CPU_MODEL_BYTES 48 // includes a NUL; no CPU reports a longer name
#define WEIR_CPU_MODEL_NUMBERS (1u << 24)

// Copies a name, up to a newline or the size of ret. Removes spaces and tabs at the beginning and
// at the end. Replaces consecutive spaces and tabs by one space, and each other byte that is not
// printable ASCII by '?'.
void weir_cpu_model_set(char ret[static WEIR_CPU_MODEL_BYTES], const char *name);

// Returns the number of a name: the 32-bit FNV-1a hash (http://www.isthe.com/chongo/tech/comp/fnv/)
// of the text that weir_cpu_model_set makes from the name, folded to 24 bits. If this hash is 0,
// returns 1. Returns 0 only if the text is "".
uint32_t weir_cpu_model_number(const char *name);
