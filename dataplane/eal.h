// SPDX-License-Identifier: BSD-3-Clause
//
// EAL: makes DPDK's arguments from the configuration, and starts and stops DPDK.
//
// The main thread is lcore 0; it can run on every CPU in the affinity that the process had at its
// start. Worker w is lcore w + 1, pinned to workers.cores[w]; several workers may share a CPU.
//
// Threads: main.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "log.h"
#include "memory.h"
#include "plan.h"

struct weir_eal_params {
	const struct weir_config *config;
	const struct weir_plan *plan;
	const struct weir_memory *memory;
	const char *run_dir;
	const char *extra; // --eal: arguments, separated by white space; quote with '...' or "..."
	bool telemetry; // serve DPDK's telemetry socket (telemetry.h)
	enum weir_log_level log_level;
};

// Make the argument vector, NULL-terminated; free with weir_eal_arguments_free. Returns the number
// of arguments, -EINVAL (a CPU that the process cannot use, or a missing closing quote), -E2BIG
// (too many arguments) or another negative errno, all with one line in why, or -ENOMEM.
int weir_eal_arguments(
	const struct weir_eal_params *params, char ***ret, char *why, size_t why_bytes);
void weir_eal_arguments_free(char **arguments); // NULL is allowed

// Start DPDK; the arguments must stay valid while DPDK runs. Returns 0 or negative errno with one
// line in why (DPDK logs the details).
int weir_eal_init(int count, char **arguments, char *why, size_t why_bytes);
// Stops DPDK, and removes DPDK's telemetry socket and then DPDK's run-time directory, if this
// directory is empty.
void weir_eal_fini(void);

// Returns the lcore of a worker.
static inline unsigned int weir_eal_lcore(uint32_t worker) {
	return worker + 1;
}
