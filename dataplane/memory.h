// SPDX-License-Identifier: BSD-3-Clause
//
// Memory: where DPDK's memory comes from. Huge pages when there are enough free ones, else ordinary
// pages, which cost more cache and TLB misses but need no preparation.
//
// Threads: one, before the workers exist.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan.h"

struct weir_memory_facts { // what the machine has
	uint64_t page_bytes; // the size of huge page with most free memory, 0 = none
	uint64_t huge_free_bytes; // free ones of that size
	uint64_t available_bytes; // ordinary memory available without swapping
};

struct weir_memory {
	bool huge_pages;
	uint64_t bytes; // to give to DPDK
};

// Returns 0 or negative errno.
int weir_memory_facts(struct weir_memory_facts *ret);

// Choose the kind of pages. why gets a warning when ordinary pages are used, else ""; on failure,
// what is missing and which key to lower. Returns 0 or -ENOMEM.
int weir_memory_choose(const struct weir_plan *plan, const struct weir_memory_facts *facts,
	struct weir_memory *ret, char *why, size_t why_bytes);

// Populate all of DPDK's memory now, so that no worker waits for a page fault and none fails for
// lack of memory later. After rte_eal_init; does nothing with huge pages. Calls `stops` every 64
// MiB, and ends if it returns true. Returns 0, -ECANCELED (stopped) or -ENOMEM.
int weir_memory_take(bool (*stops)(void *context), void *context);
