// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_eal.h>
#include <rte_memory.h>

#define HUGE_PAGES_FOLDER "/sys/kernel/mm/hugepages"
#define MIB (1ull << 20)
#define TAKE_BYTES (64 * MIB) // bytes to populate per step; a step takes 20 to 100 ms
#define GIB_PAGE (1ull << 30)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // since Linux 5.14
#endif

static uint64_t free_pages(const char *folder) {
	char path[512];
	uint64_t pages = 0;
	FILE *file;

	snprintf(path, sizeof(path), HUGE_PAGES_FOLDER "/%s/free_hugepages", folder);
	file = fopen(path, "re");
	if (file == NULL) {
		return 0;
	}
	if (fscanf(file, "%" SCNu64, &pages) != 1) {
		pages = 0;
	}
	fclose(file);
	return pages;
}

// Finds the size of huge pages that has the most free memory.
static void find_huge_pages(struct weir_memory_facts *facts) {
	DIR *folder = opendir(HUGE_PAGES_FOLDER);
	struct dirent *entry;

	if (folder == NULL) {
		return;
	}
	while ((entry = readdir(folder)) != NULL) {
		uint64_t kib, bytes;

		if (sscanf(entry->d_name, "hugepages-%" SCNu64 "kB", &kib) != 1) {
			continue;
		}
		bytes = kib * 1024 * free_pages(entry->d_name);
		if (bytes > facts->huge_free_bytes) {
			facts->huge_free_bytes = bytes;
			facts->page_bytes = kib * 1024;
		}
	}
	closedir(folder);
}

int weir_memory_facts(struct weir_memory_facts *ret) {
	struct weir_memory_facts facts = {0};
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t kib;

	if (file == NULL) {
		return -errno;
	}
	while (fgets(line, sizeof(line), file) != NULL) {
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) {
			facts.available_bytes = kib * 1024;
		}
	}
	fclose(file);
	find_huge_pages(&facts);
	*ret = facts;
	return 0;
}

static uint64_t mib(uint64_t bytes) {
	return (bytes + MIB - 1) / MIB;
}

int weir_memory_choose(const struct weir_plan *plan, const struct weir_memory_facts *facts,
	struct weir_memory *ret, char *why, size_t why_bytes) {
	uint64_t need = plan->total_bytes;
	uint64_t page = facts->page_bytes != 0 ? facts->page_bytes : 2 * MIB;
	// Add eight pages of less than 1 GiB, because several heaps and pools each begin on a
	// separate page.
	uint64_t huge_need = (need + page - 1) / page * page + 8 * (page < GIB_PAGE ? page : 0);

	why[0] = '\0';
	if (facts->huge_free_bytes >= huge_need) {
		*ret = (struct weir_memory){.huge_pages = true, .bytes = need};
		return 0;
	}
	if (facts->available_bytes < need) {
		snprintf(why, why_bytes,
			"not enough memory: %" PRIu64 " MiB needed (flow tables %" PRIu64
			", packet buffers %" PRIu64 "), %" PRIu64
			" MiB available; lower flow_table.flows_per_worker%s, or add memory",
			mib(need), mib(plan->flow_bytes), mib(plan->buffer_bytes),
			mib(facts->available_bytes),
			plan->buffer_bytes > plan->flow_bytes ? ", ports[].queues or workers.cores"
							      : "");
		return -ENOMEM;
	}
	*ret = (struct weir_memory){.huge_pages = false, .bytes = need};
	snprintf(why, why_bytes,
		"running without huge pages, which is slower: %" PRIu64 " MiB needed, %" PRIu64
		" MiB free; run \"sysctl vm.nr_hugepages=%" PRIu64 "\" (pages of %" PRIu64 " MiB)",
		mib(huge_need), mib(facts->huge_free_bytes), huge_need / page, mib(page));
	return 0;
}

struct taking {
	bool (*stops)(void *context);
	void *context;
	int error;
};

static int take(const struct rte_memseg_list *list, const struct rte_memseg *segment, size_t bytes,
	void *context) {
	struct taking *taking = context;
	char *addr = segment->addr;

	(void)list;
	for (size_t done = 0; done < bytes && taking->error == 0; done += TAKE_BYTES) {
		const size_t part = bytes - done < TAKE_BYTES ? bytes - done : TAKE_BYTES;

		if (taking->stops(taking->context)) {
			taking->error = -ECANCELED;
		} else if (madvise(addr + done, part, MADV_POPULATE_WRITE) < 0 && errno != EINVAL) {
			// EINVAL: the kernel is older than 5.14 and populates the memory at first
			// use.
			taking->error = -ENOMEM;
		}
	}
	return taking->error != 0;
}

int weir_memory_take(bool (*stops)(void *context), void *context) {
	struct taking taking = {.stops = stops, .context = context};

	if (rte_eal_has_hugepages() == 0) {
		rte_memseg_contig_walk(take, &taking);
	}
	return taking.error;
}
