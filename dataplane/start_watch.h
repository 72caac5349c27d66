// SPDX-License-Identifier: BSD-3-Clause
//
// Start watch: a thread that watches a descriptor while the main thread is in a long call that does
// not return early. DPDK allocates all huge pages in one call, which takes seconds.
//
// Threads: begin and end are called by the main thread, outside the packet path. Between begin and
// end, a separate thread calls on_readable.
#pragma once

#include <pthread.h>

struct weir_start_watch {
	int fd; // borrowed
	int end; // eventfd that ends the thread
	pthread_t thread;
	void (*on_readable)(void *context);
	void *context;
};

// Call on_readable whenever fd is readable; on_readable must read from fd. The thread blocks the
// signals that the caller blocks. Returns 0 or negative errno. `watch` must stay at the same
// address until weir_start_watch_end.
int weir_start_watch_begin(
	struct weir_start_watch *watch, int fd, void (*on_readable)(void *context), void *context);
// End the watch. Afterwards on_readable does not run and is not called.
void weir_start_watch_end(struct weir_start_watch *watch);
