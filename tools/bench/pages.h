// SPDX-License-Identifier: BSD-3-Clause
//
// Pages: memory for the flow table and the packet buffers, as a separate DPDK heap. Unless small
// pages are wanted, the heap uses transparent huge pages, because these need no preparation of the
// machine. If transparent huge pages are not available, the heap uses the pool of huge pages,
// provided that the pool has enough 2 MiB pages, otherwise small pages. Called by main.c and
// report.c.
//
// Threads: only during set-up, after rte_eal_init.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

enum weir_bench_page_kind {
	WEIR_BENCH_PAGE_POOL, // 2 MiB pages from the pool of huge pages (hugetlb)
	WEIR_BENCH_PAGE_TRANSPARENT, // at least nine tenths of the memory are in 2 MiB pages
	WEIR_BENCH_PAGE_SMALL, // 4 KiB pages
};

struct weir_bench_heap {
	int socket; // socket id for allocations from the heap
	enum weir_bench_page_kind kind;
	uint64_t bytes;
	uint64_t huge_bytes; // bytes of the heap in 2 MiB pages
};

// Make a heap of at least `bytes` bytes. wanted: the kind of pages to use. The heap exists until
// the process ends. Returns 0, or negative errno with one line in why: -ENOSPC if huge pages are
// required and not available.
int weir_bench_heap_create(uint64_t bytes, enum weir_bench_pages wanted,
	struct weir_bench_heap *ret, char *why, size_t why_bytes);

const char *weir_bench_page_name(enum weir_bench_page_kind kind);
