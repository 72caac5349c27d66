// SPDX-License-Identifier: BSD-3-Clause
//
// Checks memory: huge pages for weir-dataplane, and causes of slow memory.
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "memory_need.h"
#include "tree.h"

#define MIB (UINT64_C(1) << 20)
#define NODES "/sys/devices/system/node"
// Finds the huge page size that has the most free memory. folder: directory whose subdirectory
// hugepages has a directory for each size. Returns the number of free bytes. *ret_page: the page
// size; 2 MiB if no page is free.
static uint64_t free_bytes(
	const struct weir_doctor *doctor, const char *folder, uint64_t *ret_page) {
	static const uint32_t sizes_kib[] = {2048, 1048576, 65536, 524288, 32768};
	uint64_t most = 0;

	*ret_page = 2 * MIB;
	for (size_t i = 0; i < sizeof(sizes_kib) / sizeof(sizes_kib[0]); i++) {
		int64_t pages;

		if (weir_tree_number(doctor->root, &pages, "%s/hugepages-%ukB/free_hugepages",
			    folder, sizes_kib[i]) == 0 &&
			pages > 0 && (uint64_t)pages * sizes_kib[i] * 1024 > most) {
			most = (uint64_t)pages * sizes_kib[i] * 1024;
			*ret_page = sizes_kib[i] * 1024ull;
		}
	}
	return most;
}

// Returns the page size to which vm.nr_hugepages applies, for example 1 GiB with
// default_hugepagesz=1G.
static uint64_t default_page_bytes(const struct weir_doctor *doctor) {
	char text[8192];
	int64_t kib = -1;

	if (weir_tree_text(doctor->root, text, sizeof(text), "/proc/meminfo") > 0) {
		kib = weir_tree_field(text, "Hugepagesize");
	}
	return kib > 0 ? (uint64_t)kib * 1024 : 2 * MIB;
}

// Returns the number of pages that a pool of huge pages needs, so that `wanted` pages are free in
// addition to the pages in use. total, unused: the current pool. The result is never below `total`.
static uint64_t pages_for(uint64_t wanted, int64_t total, int64_t unused) {
	const int64_t used = total > unused ? total - unused : 0;
	const uint64_t pages = (uint64_t)used + wanted;

	return pages > (uint64_t)total ? pages : (uint64_t)total;
}

// Returns the value of vm.nr_hugepages with which enough huge pages are free for the start of
// weir-dataplane with this configuration.
static uint64_t wanted_pages(const struct weir_doctor *doctor) {
	const uint64_t page = default_page_bytes(doctor);
	int64_t total = 0, unused = 0;

	(void)weir_tree_number(doctor->root, &total, "/proc/sys/vm/nr_hugepages");
	(void)weir_tree_number(doctor->root, &unused,
		"/sys/kernel/mm/hugepages/hugepages-%" PRIu64 "kB/free_hugepages", page / 1024);
	return pages_for(weir_memory_pages(weir_memory_need(doctor->root, doctor->config), page),
		total, unused);
}

static void check_running(struct weir_doctor *doctor) {
	char status[4096];
	int64_t kib;

	if (weir_tree_text(doctor->root, status, sizeof(status), "/proc/%d/status",
		    (int)doctor->dataplane) <= 0) {
		return;
	}
	kib = weir_tree_field(status, "HugetlbPages");
	if (kib > 0) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "weir-dataplane",
			"uses %" PRId64 " MiB of huge pages", kib / 1024);
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "weir-dataplane",
		"runs without huge pages, which is slower: too few huge pages were free when it "
		"started");
	weir_findings_cure(&doctor->findings,
		"sysctl -w vm.nr_hugepages=%" PRIu64 " && systemctl restart weir-dataplane",
		wanted_pages(doctor));
}

void weir_doctor_check_huge_pages(struct weir_doctor *doctor) {
	uint64_t page, need, available;

	if (doctor->config == NULL || !weir_tree_has(doctor->root, "/proc/sys/vm/nr_hugepages")) {
		return;
	}
	if (doctor->dataplane != 0) {
		check_running(doctor);
		return;
	}
	if (doctor->found_dataplane.elsewhere.pid != 0) {
		// Another weir-dataplane is running. The pages that it uses are not free now, so
		// the check would report too few pages.
		return;
	}
	available = free_bytes(doctor, "/sys/kernel/mm/hugepages", &page);
	need = weir_memory_pages(weir_memory_need(doctor->root, doctor->config), page) * page;
	if (available >= need) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_OK, "vm.nr_hugepages",
			"%" PRIu64 " MiB free, about %" PRIu64 " MiB needed", available / MIB,
			need / MIB);
		return;
	}
	weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING, "vm.nr_hugepages",
		"%" PRIu64 " MiB free, about %" PRIu64
		" MiB needed: weir-dataplane would use normal pages, which is slower",
		available / MIB, need / MIB);
	weir_findings_cure(
		&doctor->findings, "sysctl -w vm.nr_hugepages=%" PRIu64, wanted_pages(doctor));
}

static bool node_of(const struct weir_doctor *doctor, uint32_t cpu, uint32_t *ret) {
	for (uint32_t node = 0; node < 64; node++) {
		struct weir_cpus cpus;
		char text[1024];

		if (weir_tree_text(
			    doctor->root, text, sizeof(text), NODES "/node%u/cpulist", node) > 0 &&
			weir_cpus_parse(text, &cpus) == 0 && weir_cpus_has(&cpus, cpu)) {
			*ret = node;
			return true;
		}
	}
	return false;
}

void weir_doctor_check_huge_nodes(struct weir_doctor *doctor) {
	uint64_t nodes = 0, page;
	uint32_t node, count = 0;

	if (doctor->config == NULL || doctor->dataplane != 0 ||
		doctor->found_dataplane.elsewhere.pid != 0 ||
		!weir_tree_has(doctor->root, NODES "/node1")) {
		return;
	}
	for (uint32_t i = 0; i < doctor->config->workers.count; i++) {
		if (node_of(doctor, doctor->config->workers.cores[i], &node)) {
			count += (nodes >> node & 1) == 0;
			nodes |= 1ull << node;
		}
	}
	for (node = 0; node < 64; node++) {
		uint64_t need, available;
		char folder[128], subject[32];

		if ((nodes >> node & 1) == 0) {
			continue;
		}
		snprintf(folder, sizeof(folder), NODES "/node%u/hugepages", node);
		snprintf(subject, sizeof(subject), "node %u", node);
		available = free_bytes(doctor, folder, &page);
		need = weir_memory_need(doctor->root, doctor->config) / count;
		weir_findings_add(&doctor->findings,
			available >= need ? WEIR_FINDING_OK : WEIR_FINDING_WARNING, subject,
			"%" PRIu64 " MiB of huge pages free, about %" PRIu64
			" MiB needed by its workers",
			available / MIB, need / MIB);
		if (available < need) {
			int64_t total = 0, unused = 0;

			(void)weir_tree_number(
				doctor->root, &total, "%s/hugepages-2048kB/nr_hugepages", folder);
			(void)weir_tree_number(doctor->root, &unused,
				"%s/hugepages-2048kB/free_hugepages", folder);
			weir_findings_cure(&doctor->findings,
				"echo %" PRIu64 " > %s/hugepages-2048kB/nr_hugepages",
				pages_for(weir_memory_pages(need, 2 * MIB), total, unused), folder);
		}
	}
}

void weir_doctor_check_transparent(struct weir_doctor *doctor) {
	char text[128];

	if (doctor->config == NULL || doctor->config->workers.idle != WEIR_IDLE_POLL ||
		weir_tree_text(doctor->root, text, sizeof(text),
			"/sys/kernel/mm/transparent_hugepage/enabled") <= 0) {
		return;
	}
	if (strstr(text, "[always]") != NULL) {
		weir_findings_add(&doctor->findings, WEIR_FINDING_NOTICE, "transparent_hugepage",
			"always: the kernel compacts memory for every process, which stalls "
			"threads");
		weir_findings_cure(&doctor->findings,
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
	} else {
		weir_findings_add(
			&doctor->findings, WEIR_FINDING_OK, "transparent_hugepage", "%s", text);
	}
}

void weir_doctor_check_swap(struct weir_doctor *doctor) {
	const struct {
		const char *name;
		pid_t pid;
	} processes[] = {{"weir-dataplane", doctor->dataplane}, {"weir-control", doctor->control}};
	uint32_t looked = 0, swapped = 0;

	for (int i = 0; i < 2; i++) {
		char status[4096];
		int64_t kib;

		if (processes[i].pid == 0 ||
			weir_tree_text(doctor->root, status, sizeof(status), "/proc/%d/status",
				(int)processes[i].pid) <= 0) {
			continue;
		}
		looked++;
		kib = weir_tree_field(status, "VmSwap");
		if (kib > 0) {
			swapped++;
			weir_findings_add(&doctor->findings, WEIR_FINDING_WARNING,
				processes[i].name,
				"%" PRId64 " KiB of its memory are swapped out: the process stalls "
				"when it accesses swapped memory",
				kib);
			weir_findings_cure(&doctor->findings, "swapoff -a");
		}
	}
	if (looked > 0 && swapped == 0) {
		weir_findings_add(
			&doctor->findings, WEIR_FINDING_OK, "VmSwap", "no memory is swapped out");
	}
}
