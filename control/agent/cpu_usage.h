// SPDX-License-Identifier: BSD-3-Clause
//
// CPU usage: the CPU time that a service's cgroup has used, and the number of CPUs that the cgroup
// may use. Without a cgroup, the values cover the whole machine. Reads kernel files; needs no
// privilege.
//
// cgroup v2 has all files in one directory. cgroup v1 has a directory for each controller (cpu,
// cpuacct, cpuset). On a machine with both versions, the CPU time may be in v2 and the quotas in
// v1. Therefore struct weir_cpu_source lists the directories of both versions.
//
// Threads: one. No logging.
#pragma once

#include <stdint.h>

#define WEIR_CPU_CGROUPS_MAX 4

struct weir_cpu_source {
	const char *cgroup[WEIR_CPU_CGROUPS_MAX]; // directories
	uint32_t cgroup_count; // 0 = the whole machine
	const char *proc_root; // "/proc"
	const char *sys_root; // "/sys"
};

struct weir_cpu_usage {
	uint64_t used_us; // CPU time since an arbitrary point in time
	// Number of CPUs that may be used: the minimum of the cgroup's quota, the quotas of its
	// parents, its cpuset and the CPUs of the machine.
	double cpus;
};

// Read the CPU time and the number of CPUs. Returns 0, -ENOENT (none of the directories contains a
// CPU time), or another negative errno.
int weir_cpu_usage_read(const struct weir_cpu_source *source, struct weir_cpu_usage *ret);

// Returns the maximum frequency of CPU 0 in MHz. If the maximum is unknown, returns the first
// frequency in /proc/cpuinfo, or 0 if there is none.
uint32_t weir_cpu_mhz(const struct weir_cpu_source *source);
