// SPDX-License-Identifier: BSD-3-Clause
//
// Publisher: a second process that works like control a number of times a second: builds and
// publishes a selection as when weights change, or reads all counters, lists flows or captures
// packets as for an operator. Called by main.c.
//
// Threads: forked before EAL and before any thread. It attaches to the segment through the
// descriptor, with a mapping of its own, and writes only on request.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "balancer.h"

struct weir_bench_publisher {
	pid_t pid; // 0 = none
	int to_child, from_child;
	const struct weir_segment *segment;
	uint64_t *looks; // shared with it: scrapes, pieces of the flow table, readings of a capture
};

// Start it, idle. It keeps off CPU `core` if there is another one. options is borrowed.
// Returns 0 or negative errno.
int weir_bench_publisher_start(struct weir_bench_publisher *publisher,
	const struct weir_bench_options *options, const struct weir_segment *segment, int core);
// Start or stop publishing; returns when it has. 0, -EIO (it died).
int weir_bench_publisher_go(struct weir_bench_publisher *publisher);
int weir_bench_publisher_pause(struct weir_bench_publisher *publisher);
// Publications, or readings, so far.
uint64_t weir_bench_publisher_count(const struct weir_bench_publisher *publisher);
// End it. Does nothing when there is none.
void weir_bench_publisher_stop(struct weir_bench_publisher *publisher);
