// SPDX-License-Identifier: BSD-3-Clause
//
// Tests how CPU usage is read from kernel files: files in the formats of several kernels, and the
// files of this machine.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu_usage.h"
#include "put_file.h"
#include "shell.h"
#include "test.h"

struct lab {
	char folder[64];
	char cgroup[2][128];
	char proc[128], sys[128];
	struct weir_cpu_source source;
};

// Write a file of the lab, and create its folders.
static void put(const struct lab *lab, const char *name, const char *text) {
	SHELL("mkdir -p \"$(dirname %s/%s)\"", lab->folder, name);
	put_file(lab->folder, name, text);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	strcpy(lab->folder, "/tmp/weir-cpu-XXXXXX");
	assert_non_null(mkdtemp(lab->folder));
	snprintf(lab->cgroup[0], sizeof(lab->cgroup[0]), "%s/v2/web.slice/nginx", lab->folder);
	snprintf(lab->cgroup[1], sizeof(lab->cgroup[1]), "%s/v1/cpu/nginx", lab->folder);
	snprintf(lab->proc, sizeof(lab->proc), "%s/proc", lab->folder);
	snprintf(lab->sys, sizeof(lab->sys), "%s/sys", lab->folder);
	lab->source = (struct weir_cpu_source){
		.cgroup = {lab->cgroup[0], lab->cgroup[1]},
		.proc_root = lab->proc,
		.sys_root = lab->sys,
	};
	put(lab, "sys/devices/system/cpu/online", "0-6,8\n");
	put(lab, "proc/stat", "cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n");
	put(lab, "proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2445.404\n");
	put(lab, "v2/cgroup.procs", "");
	put(lab, "v2/web.slice/cgroup.procs", "");
	put(lab, "v2/web.slice/cpu.max", "max 100000\n");
	put(lab, "v2/web.slice/nginx/cgroup.procs", "12\n");
	put(lab, "v2/web.slice/nginx/cpu.stat",
		"usage_usec 5000123\nuser_usec 4\nsystem_usec 5\nnr_throttled 0\n");
	put(lab, "v2/web.slice/nginx/cpu.max", "max 100000\n");
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", lab->folder);
	SHELL("%s", command);
	free(lab);
	return 0;
}

static void expect(struct lab *lab, uint32_t cgroups, uint64_t used_us, double cpus) {
	struct weir_cpu_usage usage;

	lab->source.cgroup_count = cgroups;
	assert_int_equal(weir_cpu_usage_read(&lab->source, &usage), 0);
	assert_int_equal(usage.used_us, used_us);
	if (usage.cpus != cpus) {
		fail_msg("%g CPUs, expected %g", usage.cpus, cpus);
	}
}

TEST(cpu_usage_of_a_machine, setup, teardown) {
	uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);

	expect(*state, 0, 163 * tick_us, 8); // excludes idle, iowait and steal time
}

TEST(cpu_usage_of_a_cgroup, setup, teardown) {
	struct lab *lab = *state;

	expect(lab, 1, 5000123, 8);
	put(lab, "v2/web.slice/nginx/cpu.max", "150000 100000\n");
	expect(lab, 1, 5000123, 1.5);
	// the smaller quota of the parent slice applies
	put(lab, "v2/web.slice/cpu.max", "50000 100000\n");
	expect(lab, 1, 5000123, 0.5);
	put(lab, "v2/web.slice/cpu.max", "700000 100000\n");
	expect(lab, 1, 5000123, 1.5);
	put(lab, "v2/web.slice/nginx/cpuset.cpus.effective", "3\n");
	expect(lab, 1, 5000123, 1);
	put(lab, "v2/web.slice/nginx/cpu.max", "broken\n");
	put(lab, "v2/web.slice/nginx/cpuset.cpus.effective", "1,4-6\n");
	expect(lab, 1, 5000123, 4);
}

TEST(cpu_usage_of_both_kinds_of_cgroups, setup, teardown) {
	struct lab *lab = *state;

	put(lab, "v1/cpu/nginx/cgroup.procs", "12\n");
	put(lab, "v1/cpu/nginx/cpu.cfs_quota_us", "-1\n");
	put(lab, "v1/cpu/nginx/cpu.cfs_period_us", "100000\n");
	expect(lab, 2, 5000123, 8);
	put(lab, "v1/cpu/nginx/cpu.cfs_quota_us", "25000\n");
	expect(lab, 2, 5000123, 0.25);
	lab->source.cgroup[0] = lab->cgroup[1];
	put(lab, "v1/cpu/nginx/cpuacct.usage", "7000999\n");
	expect(lab, 1, 7000, 0.25);
}

TEST(cpu_usage_of_no_cgroup, setup, teardown) {
	struct lab *lab = *state;
	struct weir_cpu_usage usage = {.used_us = 77};

	lab->source.cgroup[0] = "/nowhere";
	lab->source.cgroup_count = 1;
	assert_int_equal(weir_cpu_usage_read(&lab->source, &usage), -ENOENT);
	assert_int_equal(usage.used_us, 77);
}

TEST(cpu_mhz_from_either_file, setup, teardown) {
	struct lab *lab = *state;

	assert_int_equal(weir_cpu_mhz(&lab->source), 2445);
	put(lab, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3700000\n");
	assert_int_equal(weir_cpu_mhz(&lab->source), 3700);
	lab->source.proc_root = lab->source.sys_root = "/nowhere";
	assert_int_equal(weir_cpu_mhz(&lab->source), 0);
}

// The CPU usage of this machine grows while this process uses CPU time.
TEST(cpu_usage_of_this_machine_grows) {
	const struct weir_cpu_source source = {.proc_root = "/proc", .sys_root = "/sys"};
	struct weir_cpu_usage before, after;
	clock_t start = clock();

	assert_int_equal(weir_cpu_usage_read(&source, &before), 0);
	while (clock() - start < CLOCKS_PER_SEC / 5) {
	}
	assert_int_equal(weir_cpu_usage_read(&source, &after), 0);
	assert_true(after.used_us - before.used_us >= 150000);
	assert_true(after.cpus >= 1 && after.cpus <= (double)sysconf(_SC_NPROCESSORS_CONF));
}
