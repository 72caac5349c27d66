// SPDX-License-Identifier: BSD-3-Clause
#include "cpu_usage.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEVELS_MAX 32 // maximum nesting depth of cgroups

// Read the start of a file and terminate it with NUL. Returns 0 or negative errno.
static int read_text(const char *folder, const char *name, char *ret, size_t bytes) {
	char path[PATH_MAX];
	FILE *file;
	size_t n;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path)) {
		return -ENAMETOOLONG;
	}
	file = fopen(path, "re");
	if (file == NULL) {
		return -errno;
	}
	n = fread(ret, 1, bytes - 1, file);
	fclose(file);
	ret[n] = '\0';
	return n == 0 ? -ENODATA : 0;
}

static int read_number(const char *folder, const char *name, int64_t *ret) {
	char text[64];
	int r = read_text(folder, name, text, sizeof(text));

	return r == 0 && sscanf(text, "%" SCNd64, ret) != 1 ? -EINVAL : r;
}

// --- CPU time -----------------------------------------------------------------------------

static int cgroup_used(const char *folder, uint64_t *ret) {
	char text[2048];
	const char *at;
	int64_t ns;
	int r = read_text(folder, "cpu.stat", text, sizeof(text));

	if (r == 0) {
		at = strstr(text, "usage_usec ");
		if (at != NULL && sscanf(at, "usage_usec %" SCNu64, ret) == 1) {
			return 0;
		}
	}
	r = read_number(folder, "cpuacct.usage", &ns); // cgroup v1
	if (r == 0) {
		*ret = (uint64_t)ns / 1000;
	}
	return r;
}

static int machine_used(const char *proc_root, uint64_t *ret) {
	uint64_t user, nice, system, idle, iowait, irq, softirq;
	uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	char text[512];
	int r = read_text(proc_root, "stat", text, sizeof(text));

	if (r) {
		return r;
	}
	if (sscanf(text,
		    "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
		    " %" SCNu64,
		    &user, &nice, &system, &idle, &iowait, &irq, &softirq) != 7) {
		return -EINVAL;
	}
	*ret = (user + nice + system + irq + softirq) * tick_us;
	return 0;
}

// --- number of CPUs ----------------------------------------------------------------------

// Returns the number of CPUs in a list such as "0-3,8". Returns 0 if the text is not a list of
// CPUs.
static uint32_t count_list(const char *text) {
	uint32_t count = 0;
	unsigned int first, last;
	int n;

	for (;;) {
		if (sscanf(text, "%u-%u%n", &first, &last, &n) == 2 && last >= first) {
			count += last - first + 1;
		} else if (sscanf(text, "%u%n", &first, &n) == 1) {
			count++;
		} else {
			return 0;
		}
		text += n;
		if (*text != ',') {
			return count;
		}
		text++;
	}
}

static void limit(double *cpus, double most) {
	if (most > 0 && most < *cpus) {
		*cpus = most;
	}
}

static void limit_by_cpuset(const char *folder, double *cpus) {
	char text[4096];

	if (read_text(folder, "cpuset.cpus.effective", text, sizeof(text)) == 0 ||
		read_text(folder, "cpuset.effective_cpus", text, sizeof(text)) == 0) { // v1
		limit(cpus, count_list(text));
	}
}

static void limit_by_quota(const char *folder, double *cpus) {
	int64_t quota, period;
	char text[128];

	if (read_text(folder, "cpu.max", text, sizeof(text)) == 0) {
		if (sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) == 2 && period > 0) {
			limit(cpus, (double)quota / (double)period);
		}
	} else if (read_number(folder, "cpu.cfs_quota_us", &quota) == 0 && // v1
		   read_number(folder, "cpu.cfs_period_us", &period) == 0 && period > 0) {
		limit(cpus, (double)quota / (double)period); // -1 = no quota
	}
}

// Limit *cpus to the CPU set of a cgroup, and to the quotas of this cgroup and of all its parents,
// because the quota of a cgroup also limits its children.
static void limit_by_cgroups(const char *folder, double *cpus) {
	char path[PATH_MAX], procs[16];

	limit_by_cpuset(folder, cpus);
	if (realpath(folder, path) == NULL) {
		return;
	}
	for (int i = 0; i < LEVELS_MAX; i++) {
		char *slash;
		int r = read_text(path, "cgroup.procs", procs, sizeof(procs));

		if (r != 0 && r != -ENODATA && r != -EOPNOTSUPP) {
			return; // this directory is the parent of the cgroup root
		}
		limit_by_quota(path, cpus);
		slash = strrchr(path, '/');
		if (slash == NULL || slash == path) {
			return;
		}
		*slash = '\0';
	}
}

static double machine_cpus(const char *sys_root) {
	char text[4096];
	uint32_t count = 0;

	if (read_text(sys_root, "devices/system/cpu/online", text, sizeof(text)) == 0) {
		count = count_list(text);
	}
	return count > 0 ? count : (double)sysconf(_SC_NPROCESSORS_ONLN);
}

int weir_cpu_usage_read(const struct weir_cpu_source *source, struct weir_cpu_usage *ret) {
	struct weir_cpu_usage usage = {.cpus = machine_cpus(source->sys_root)};
	int r = -ENOENT;

	if (source->cgroup_count == 0) {
		r = machine_used(source->proc_root, &usage.used_us);
	}
	for (uint32_t i = 0; i < source->cgroup_count; i++) {
		if (r != 0) {
			r = cgroup_used(source->cgroup[i], &usage.used_us);
		}
		limit_by_cgroups(source->cgroup[i], &usage.cpus);
	}
	if (r == 0) {
		*ret = usage;
	}
	return r;
}

uint32_t weir_cpu_mhz(const struct weir_cpu_source *source) {
	char text[4096];
	const char *at;
	double mhz = 0;
	int64_t khz;

	if (read_number(source->sys_root, "devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq",
		    &khz) == 0 &&
		khz > 0) {
		return (uint32_t)(khz / 1000);
	}
	if (read_text(source->proc_root, "cpuinfo", text, sizeof(text)) == 0) {
		at = strstr(text, "cpu MHz");
		at = at != NULL ? strchr(at, ':') : NULL;
		if (at != NULL && sscanf(at, ": %lf", &mhz) == 1 && mhz > 0 && mhz < 1e6) {
			return (uint32_t)mhz;
		}
	}
	return 0;
}
