// SPDX-License-Identifier: BSD-3-Clause
//
// Start watch: follows a descriptor while the main thread is in a call that takes seconds and
// cannot be interrupted: DPDK takes all huge pages in one.
//
// Threads: begin and end are called by the main thread, outside the packet path. In between a
// thread of its own calls on_readable.
#pragma once

#include <pthread.h>

struct weir_start_watch {
	int fd; // borrowed
	int end; // eventfd
	pthread_t thread;
	void (*on_readable)(void *context);
	void *context;
};

// Call on_readable whenever fd is readable, which must read it. The thread blocks the signals that
// the caller blocks. Returns 0 or negative errno. `watch` must stay where it is until the end.
int weir_start_watch_begin(
	struct weir_start_watch *watch, int fd, void (*on_readable)(void *context), void *context);
// Afterwards on_readable neither runs nor is called.
void weir_start_watch_end(struct weir_start_watch *watch);
