// SPDX-License-Identifier: BSD-3-Clause
#include "pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_errno.h>
#include <rte_malloc.h>

#define HEAP "weir-bench"
#define HUGE_BYTES ((uint64_t)2 << 20)
#define SMALL_BYTES ((uint64_t)4096)
#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

static uint64_t round_up(uint64_t bytes) {
	return (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
}

static uint8_t *map_pool(uint64_t bytes) {
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

// Maps memory aligned to 2 MiB: maps more memory than needed, and unmaps the rest.
static uint8_t *map_aligned(uint64_t bytes) {
	uint8_t *at = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t before;

	if (at == MAP_FAILED) {
		return NULL;
	}
	before = (HUGE_BYTES - (uintptr_t)at % HUGE_BYTES) % HUGE_BYTES;
	if (before > 0) {
		munmap(at, before);
	}
	munmap(at + before + bytes, HUGE_BYTES - before);
	return at + before;
}

static void touch(uint8_t *at, uint64_t bytes) {
	for (uint64_t i = 0; i < bytes; i += SMALL_BYTES) {
		((volatile uint8_t *)at)[i] = 0;
	}
}

// Returns how many bytes of a mapping are in transparent huge pages, according to the kernel's
// smaps.
static uint64_t transparent_bytes(const uint8_t *at, uint64_t bytes) {
	FILE *file = fopen("/proc/self/smaps", "re");
	uint64_t first = (uintptr_t)at, sum = 0, start, end, kib;
	bool inside = false;
	char line[512];

	if (file == NULL) {
		return 0;
	}
	while (fgets(line, sizeof(line), file) != NULL) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2) {
			inside = start < first + bytes && end > first;
		} else if (inside && sscanf(line, "AnonHugePages: %" SCNu64 " kB", &kib) == 1) {
			sum += kib << 10;
		}
	}
	fclose(file);
	return sum < bytes ? sum : bytes;
}

static uint8_t *map_transparent(struct weir_bench_heap *heap, bool huge) {
	uint8_t *at = map_aligned(heap->bytes);

	if (at == NULL) {
		return NULL;
	}
	madvise(at, heap->bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	touch(at, heap->bytes);
	heap->huge_bytes = transparent_bytes(at, heap->bytes);
	heap->kind = heap->huge_bytes >= heap->bytes / 10 * 9 ? WEIR_BENCH_PAGE_TRANSPARENT
							      : WEIR_BENCH_PAGE_SMALL;
	return at;
}

// Maps memory, if possible in transparent huge pages. The pool of huge pages is used only if
// transparent huge pages are not available, because a dataplane on this machine may need the pool.
static int map(enum weir_bench_pages wanted, struct weir_bench_heap *heap, uint8_t **ret) {
	uint8_t *at = map_transparent(heap, wanted != WEIR_BENCH_PAGES_SMALL), *pool;

	if (at == NULL) {
		return -ENOMEM;
	}
	if (wanted != WEIR_BENCH_PAGES_SMALL && heap->kind == WEIR_BENCH_PAGE_SMALL) {
		pool = map_pool(heap->bytes);
		if (pool != NULL) {
			munmap(at, heap->bytes);
			at = pool;
			touch(at, heap->bytes);
			heap->kind = WEIR_BENCH_PAGE_POOL;
			heap->huge_bytes = heap->bytes;
		}
	}
	*ret = at;
	return 0;
}

static int add(uint8_t *at, struct weir_bench_heap *heap) {
	uint64_t page = heap->kind == WEIR_BENCH_PAGE_SMALL ? SMALL_BYTES : HUGE_BYTES;
	unsigned int pages = (unsigned int)(heap->bytes / page);
	rte_iova_t *iova = malloc(((size_t)pages + 1) * sizeof(*iova));

	if (iova == NULL) {
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < pages; i++) {
		iova[i] = (uintptr_t)at + i * page; // no device uses this memory
	}
	if (rte_malloc_heap_create(HEAP) < 0 ||
		rte_malloc_heap_memory_add(HEAP, at, heap->bytes, iova, pages, page) < 0) {
		free(iova);
		return rte_errno > 0 ? -rte_errno : -ENOMEM;
	}
	free(iova);
	heap->socket = rte_malloc_heap_get_socket(HEAP);
	return 0;
}

int weir_bench_heap_create(uint64_t bytes, enum weir_bench_pages wanted,
	struct weir_bench_heap *ret, char *why, size_t why_bytes) {
	struct weir_bench_heap heap = {.bytes = round_up(bytes)};
	uint8_t *at = NULL;
	int r = map(wanted, &heap, &at);

	if (r == 0 && wanted == WEIR_BENCH_PAGES_HUGE && heap.kind == WEIR_BENCH_PAGE_SMALL) {
		snprintf(why, why_bytes,
			"not enough 2 MiB pages for %" PRIu64 " MiB: set vm.nr_hugepages=%" PRIu64
			", or write \"madvise\" to /sys/kernel/mm/transparent_hugepage/enabled",
			heap.bytes >> 20, heap.bytes / HUGE_BYTES);
		munmap(at, heap.bytes);
		return -ENOSPC;
	}
	if (r == 0) {
		r = add(at, &heap);
	}
	if (r < 0) {
		snprintf(why, why_bytes, "cannot allocate %" PRIu64 " MiB: %s", heap.bytes >> 20,
			strerror(-r));
		return r;
	}
	*ret = heap;
	return 0;
}

const char *weir_bench_page_name(enum weir_bench_page_kind kind) {
	static const char *const names[] = {
		[WEIR_BENCH_PAGE_POOL] = "2 MiB (huge page pool)",
		[WEIR_BENCH_PAGE_TRANSPARENT] = "2 MiB (transparent)",
		[WEIR_BENCH_PAGE_SMALL] = "4 KiB",
	};

	return names[kind];
}
