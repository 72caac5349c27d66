// SPDX-License-Identifier: BSD-3-Clause
#include "capacity_command.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capacity_cache.h"

struct shown {
	struct weir_capacity_cpu cpu;
	double cpus, gcu; // gcu: speed of one CPU
	bool measured; // this process has measured gcu
	// result of writing the cache: negative errno, or 0; also 0 if the cache was not written
	int stored;
};

static int read_cache(const struct weir_agent_options *options, struct shown *shown) {
	int fd = weir_capacity_cache_open(options->run_dir, WEIR_CAPACITY_CACHE_READ), r;

	if (fd < 0) {
		return fd;
	}
	r = weir_capacity_cache_read(fd, &shown->cpu, &shown->gcu);
	close(fd);
	return r;
}

static int store(const struct weir_agent_options *options, const struct shown *shown) {
	int fd = weir_capacity_cache_open(options->run_dir, WEIR_CAPACITY_CACHE_CREATE), r;

	if (fd < 0) {
		return fd;
	}
	r = weir_capacity_cache_write(fd, &shown->cpu, shown->gcu);
	close(fd);
	return r;
}

static double count_cpus(const struct weir_agent_options *options) {
	struct weir_cpu_source source = {
		.cgroup_count = options->cgroup_count, .proc_root = "/proc", .sys_root = "/sys"};
	struct weir_cpu_usage usage = {.cpus = 0};

	memcpy(source.cgroup, options->cgroups, sizeof(source.cgroup));
	return weir_cpu_usage_read(&source, &usage) == 0 ? usage.cpus : 0;
}

static void print(const struct weir_agent_options *options, const struct shown *shown) {
	const double gcu = shown->cpus * shown->gcu;
	json_t *json;

	if (!options->json) {
		printf("%.2f GCU: %.6g CPU%s with %.2f GCU each (%s), %s\n", gcu, shown->cpus,
			shown->cpus == 1 ? "" : "s", shown->gcu,
			shown->cpu.model[0] != '\0' ? shown->cpu.model : "unknown model",
			shown->measured ? "measured" : "measured earlier");
		return;
	}
	json = json_pack("{s:s, s:s, s:f, s:f, s:f, s:b}", "cpu", shown->cpu.model, "stepping",
		shown->cpu.stepping, "cpus", shown->cpus, "gcu_per_cpu", shown->gcu, "gcu", gcu,
		"measured", shown->measured);
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6) | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(json);
}

enum weir_agent_exit weir_capacity_command(const struct weir_agent_options *options) {
	struct shown shown = {.stored = 0};
	int r;

	weir_capacity_cpu_read("/proc", &shown.cpu);
	shown.cpus = count_cpus(options);
	if (shown.cpus == 0) {
		fprintf(stderr, "weir-agent: no CPU time found in --cgroup; check the path\n");
		return WEIR_AGENT_REFUSED;
	}
	if (options->measure || read_cache(options, &shown) < 0) {
		r = weir_capacity_measure(&shown.gcu);
		if (r) {
			fprintf(stderr, "weir-agent: cannot measure the speed of the CPUs: %s\n",
				strerror(-r));
			return WEIR_AGENT_REFUSED;
		}
		shown.measured = true;
	}
	if (options->measure) {
		shown.stored = store(options, &shown);
	}
	print(options, &shown);
	if (shown.stored < 0) {
		fprintf(stderr, "weir-agent: cannot store the result in %s: %s%s\n",
			options->run_dir, strerror(-shown.stored),
			shown.stored == -EACCES ? "; run as root"
			: shown.stored == -ENOENT
				? "; start weir-agent run, which creates the directory"
				: "");
	}
	return WEIR_AGENT_DONE;
}
