// SPDX-License-Identifier: BSD-3-Clause
//
// Publisher: a second process that does the work of weir-control several times a second: it builds
// and publishes a selection like after a change of weights, reads all counters, lists flows, or
// captures packets. Called by main.c.
//
// Threads: forked before EAL and before any thread. The second process maps the segment separately
// through the descriptor, and writes only on request.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "balancer.h"

struct weir_bench_publisher {
	pid_t pid; // 0 = none
	int to_child, from_child;
	const struct weir_segment *segment;
	// Number of scrapes, of listed parts of the flow table, or of readings of a capture; in
	// memory shared with the second process
	uint64_t *looks;
};

// Start the second process, idle. It runs on another CPU than `core` if there is another CPU.
// options is borrowed. Returns 0 or negative errno.
int weir_bench_publisher_start(struct weir_bench_publisher *publisher,
	const struct weir_bench_options *options, const struct weir_segment *segment, int core);
// Start or stop publishing, and wait until the publisher has done so. Returns 0, or -EIO (the
// publisher has exited).
int weir_bench_publisher_go(struct weir_bench_publisher *publisher);
int weir_bench_publisher_pause(struct weir_bench_publisher *publisher);
// Number of publications or readings so far.
uint64_t weir_bench_publisher_count(const struct weir_bench_publisher *publisher);
// End the second process. Does nothing without a publisher.
void weir_bench_publisher_stop(struct weir_bench_publisher *publisher);
