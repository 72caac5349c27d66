// SPDX-License-Identifier: BSD-3-Clause
//
// CPU usage: the CPU time that a service's cgroup has used, and how much of it it may use. Without
// a cgroup: that of the whole machine. Reads files of the kernel; needs no privilege.
//
// cgroup v2 has everything in one folder. cgroup v1 has a folder for each controller (cpu, cpuacct,
// cpuset), and machines that have both may have CPU time in v2 and quotas in v1: name them all.
//
// Threads: one. No logging.
#pragma once

#include <stdint.h>

#define WEIR_CPU_CGROUPS_MAX 4

struct weir_cpu_source {
	const char *cgroup[WEIR_CPU_CGROUPS_MAX]; // folders
	uint32_t cgroup_count; // 0 = the whole machine
	const char *proc_root; // "/proc"
	const char *sys_root; // "/sys"
};

struct weir_cpu_usage {
	uint64_t used_us; // CPU time since some start
	double cpus; // that it may use: by its quota and those of the cgroups around it, its
		     // cpuset, and what the machine has
};

// Returns 0, -ENOENT (none of the folders tells the CPU time), or another negative errno.
int weir_cpu_usage_read(const struct weir_cpu_source *source, struct weir_cpu_usage *ret);

// Highest frequency of a CPU. 0 = the machine does not tell.
uint32_t weir_cpu_mhz(const struct weir_cpu_source *source);
