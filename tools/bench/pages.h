// SPDX-License-Identifier: BSD-3-Clause
//
// Pages: memory for the flow table and the packet buffers, as a DPDK heap of its own, so that it
// has 2 MiB pages without any preparation of the machine: transparent ones, else from the pool of
// huge pages when that has enough. Called by main.c before anything is allocated.
//
// Threads: set-up only, after rte_eal_init.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

enum weir_bench_page_kind {
	WEIR_BENCH_PAGE_POOL, // hugetlb, 2 MiB
	WEIR_BENCH_PAGE_TRANSPARENT, // 2 MiB, at least nine tenths of it
	WEIR_BENCH_PAGE_SMALL, // 4 KiB
};

struct weir_bench_heap {
	int socket; // to allocate from it
	enum weir_bench_page_kind kind;
	uint64_t bytes;
	uint64_t huge_bytes; // of these, in 2 MiB pages
};

// Make a heap of at least `bytes`. It lives as long as the process.
// Returns 0, -ENOMEM, or -ENOSPC (huge pages required and not available) with one line in why.
int weir_bench_heap_create(uint64_t bytes, enum weir_bench_pages wanted,
	struct weir_bench_heap *ret, char *why, size_t why_bytes);

const char *weir_bench_page_name(enum weir_bench_page_kind kind);
