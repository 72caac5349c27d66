// SPDX-License-Identifier: BSD-3-Clause
//
// Publisher: a second process that does a part of weir-control's work, as many times per second as
// --publications specifies. --publish selects the work: building and publishing a selection, as
// after a change of weights; publishing the headers of a backend; reading all counters; listing
// flows; or capturing packets. Called by main.c and run.c.
//
// Threads: the second process is forked before EAL is started and before any thread exists. The
// second process maps the segment separately through the file descriptor, and writes to it only
// between weir_bench_publisher_go and weir_bench_publisher_pause.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "balancer.h"

struct weir_bench_publisher {
	pid_t pid; // process id of the second process; 0 = there is none
	int to_child, from_child;
	const struct weir_segment *segment;
	// Number of scrapes, of listed parts of the flow table, or of reads of a capture that found
	// packets (idle-captures: of all reads). The number is in memory that is shared with the
	// second process.
	uint64_t *looks;
};

// Starts the second process, which is idle at first. The process runs on CPUs other than `core`, if
// there are any. options is borrowed. Returns 0 or negative errno.
int weir_bench_publisher_start(struct weir_bench_publisher *publisher,
	const struct weir_bench_options *options, const struct weir_segment *segment, int core);
// Start or stop publishing, and wait until the publisher has started or stopped. Returns 0, or -EIO
// (the publisher has exited).
int weir_bench_publisher_go(struct weir_bench_publisher *publisher);
int weir_bench_publisher_pause(struct weir_bench_publisher *publisher);
// Returns the number of publications so far, including the publications of the set-up, plus the
// number of readings (*looks).
uint64_t weir_bench_publisher_count(const struct weir_bench_publisher *publisher);
// End the second process. Does nothing without a publisher.
void weir_bench_publisher_stop(struct weir_bench_publisher *publisher);
