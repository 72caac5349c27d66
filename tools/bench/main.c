// SPDX-License-Identifier: BSD-3-Clause
//
// weir-bench: measures the CPU cycles that a worker's packet pipeline takes for a packet.
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>

#include "help_text.h"
#include "report.h"
#include "standard_output.h"
#include "weir_version.h"

enum exit_code { EXIT_DONE, EXIT_FAILED, EXIT_USAGE };

struct bench {
	struct weir_bench_options options;
	struct weir_bench_balancer balancer;
	struct weir_bench_publisher publisher;
	struct weir_bench_heap heap;
	struct weir_bench_engine engine;
	struct weir_bench_result result;
	int core;
};

static void complain(const char *why) {
	fflush(stdout);
	fprintf(stderr, "weir-bench: %s\n", why);
}

// Chooses the last CPU by default, because the first CPUs handle more interrupts.
static int choose_core(int wanted, int *ret, char *why, size_t why_bytes) {
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0) {
		snprintf(why, why_bytes, "cannot query the CPU affinity: %s", strerror(errno));
		return -errno;
	}
	if (wanted >= 0) {
		if (wanted >= CPU_SETSIZE || !CPU_ISSET(wanted, &set)) {
			snprintf(why, why_bytes,
				"--core %d: this CPU does not exist, or the affinity of this "
				"process (pid %d) does not allow it; see \"taskset -cp $$\"",
				wanted, (int)getpid());
			return -EINVAL;
		}
		*ret = wanted;
		return 0;
	}
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &set)) {
			*ret = cpu;
		}
	}
	return 0;
}

// Starts EAL with little memory, because the flow table and the packet buffers have their own heap
// (pages.h).
static int start_eal(int core, char *why, size_t why_bytes) {
	char lcores[32], prefix[48], name[] = "weir-bench";
	char *argv[] = {name, "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"--iova-mode=va", "--log-level=lib.*:error", "--log-level=*:error", "-m", "64",
		lcores, prefix, NULL};

	snprintf(lcores, sizeof(lcores), "--lcores=0@%d", core);
	snprintf(prefix, sizeof(prefix), "--file-prefix=weir-bench-%d", (int)getpid());
	if (rte_eal_init((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv) < 0) {
		snprintf(why, why_bytes, "cannot start DPDK: %s", rte_strerror(rte_errno));
		return rte_errno > 0 ? -rte_errno : -EIO;
	}
	return 0;
}

static void end_eal(void) {
	char directory[256];

	snprintf(directory, sizeof(directory), "%s", rte_eal_get_runtime_dir());
	rte_eal_cleanup();
	rmdir(directory);
}

static int measure(struct bench *bench, char *why, size_t why_bytes) {
	int r = weir_bench_heap_create(weir_bench_balancer_bytes(&bench->options),
		bench->options.pages, &bench->heap, why, why_bytes);

	if (r == 0) {
		r = weir_bench_engine_create(&bench->options, &bench->balancer, &bench->heap,
			&bench->engine, why, why_bytes);
	}
	if (r == 0) {
		r = weir_bench_run(&bench->engine, &bench->heap, &bench->publisher, &bench->result,
			why, why_bytes);
	}
	return r;
}

static int report(const struct bench *bench, char *why, size_t why_bytes) {
	struct weir_bench_report report = {.options = &bench->options,
		.result = &bench->result,
		.heap = &bench->heap,
		.huge_segment = bench->balancer.huge_pages,
		.tsc_hz = rte_get_tsc_hz(),
		.timer_cost = bench->engine.timer_cost,
		.core = bench->core,
		.publish_us = bench->balancer.publish_us};
	int r = weir_bench_report(stdout, &report);

	if (r < 0) {
		snprintf(why, why_bytes, "cannot write the report");
	}
	return r;
}

static int run(struct bench *bench, char *why, size_t why_bytes) {
	int r = choose_core(bench->options.core, &bench->core, why, why_bytes);

	if (r < 0) {
		return r;
	}
	r = weir_bench_balancer_create(&bench->options, &bench->balancer, why, why_bytes);
	if (r < 0) {
		return r;
	}
	// Start the second process before DPDK creates threads.
	if (bench->options.publications > 0) {
		r = weir_bench_publisher_start(
			&bench->publisher, &bench->options, bench->balancer.segment, bench->core);
		if (r < 0) {
			snprintf(why, why_bytes, "cannot start the process of --publications: %s",
				strerror(-r));
			return r;
		}
	}
	r = start_eal(bench->core, why, why_bytes);
	if (r < 0) {
		return r;
	}
	r = measure(bench, why, why_bytes);
	if (r == 0) {
		r = report(bench, why, why_bytes);
	}
	weir_bench_result_fini(&bench->result);
	if (bench->engine.options != NULL) {
		weir_bench_engine_free(&bench->engine);
	}
	weir_bench_balancer_free(&bench->balancer);
	end_eal();
	return r;
}

int main(int argc, char **argv) {
	struct bench bench = {0};
	char why[512] = "", help[WEIR_HELP_BYTES];
	int r;

	weir_standard_output_claim();
	if (weir_bench_options_parse(argc, argv, &bench.options, why, sizeof(why)) < 0) {
		complain(why);
		fputs("Try: weir-bench --help\n", stderr);
		return EXIT_USAGE;
	}
	if (bench.options.help || bench.options.version) {
		fputs(bench.options.help ? weir_bench_help(help, sizeof(help))
					 : "weir-bench " WEIR_VERSION "\n",
			stdout);
		return weir_standard_output_finish("weir-bench", stdout, stderr) ? EXIT_DONE
										 : EXIT_FAILED;
	}
	r = run(&bench, why, sizeof(why));
	weir_bench_publisher_stop(&bench.publisher);
	if (r < 0) {
		complain(why);
	}
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
