// SPDX-License-Identifier: BSD-3-Clause
//
// Memory: chooses the pages for DPDK's memory. These are huge pages if enough are free, otherwise
// ordinary pages, which cause more cache and TLB misses but need no preparation.
//
// Threads: one, before the workers exist.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan.h"

struct weir_memory_facts { // memory of the machine
	uint64_t page_bytes; // huge page size with most free memory, 0 = no free huge pages
	uint64_t huge_free_bytes; // bytes of free huge pages of this size
	uint64_t available_bytes; // ordinary memory available without swapping
};

struct weir_memory {
	bool huge_pages;
	uint64_t bytes; // bytes of memory for DPDK
};

// Get how much free memory the machine has. Returns 0 or negative errno.
int weir_memory_facts(struct weir_memory_facts *ret);

// Choose huge pages or ordinary pages for the memory that the plan needs. Writes a warning to why
// if ordinary pages are used, otherwise "". On failure, why contains how much memory is needed and
// available, and which keys to lower. Returns 0 or -ENOMEM.
int weir_memory_choose(const struct weir_plan *plan, const struct weir_memory_facts *facts,
	struct weir_memory *ret, char *why, size_t why_bytes);

// Populate all of DPDK's memory, so that no worker later waits for a page fault or fails for lack
// of memory. Call after rte_eal_init; does nothing with huge pages or before Linux 5.14. Calls
// `stops` before each step of at most 64 MiB, and stops if `stops` returns true. Returns 0,
// -ECANCELED (stopped) or -ENOMEM.
int weir_memory_take(bool (*stops)(void *context), void *context);
