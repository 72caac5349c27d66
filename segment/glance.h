// SPDX-License-Identifier: BSD-3-Clause
//
// Glance: reads the state of a running dataplane without attaching to it: whether the workers
// run, and whether the dataplane has tables. `weirctl status` uses these functions if weir-control
// does not answer. The memory is read with pread, without mappings or allocations, and without any
// effect on the dataplane.
//
// Threads: any.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "segment.h"

struct weir_glance {
	pid_t pid; // pid of the dataplane
	uint32_t workers;
	uint32_t stalled; // number of stalled workers (heartbeat.h)
	// indexes of the stalled workers; `stalled` elements are valid
	uint32_t stalled_worker[WEIR_WORKERS_MAX];
	bool has_tables; // control has published a service table
};

// Find the dataplane of a run directory: the process that holds the lock of the directory, which
// the kernel lists in /proc/locks for every user. Returns the pid of the dataplane, -ENOENT (no
// dataplane is running), or another negative errno, e.g. -EACCES.
pid_t weir_glance_find(const char *run_dir);
// Returns the pid in a line of /proc/locks if the line describes a lock of the file of *lock,
// otherwise 0. same_device: true = the device in the line must also be the device in *lock.
pid_t weir_glance_holder(const char *line, const struct stat *lock, bool same_device);
// Read the state of a dataplane. now_ns: CLOCK_MONOTONIC. why: receives one line that explains an
// error. Returns 0, -EACCES (only root and the dataplane's user are allowed to read), -ENOENT (no
// segment: no dataplane, or the dataplane is starting or exiting), -EPROTO (dataplane of another
// version), or another negative errno.
int weir_glance_at(
	pid_t pid, uint64_t now_ns, struct weir_glance *ret, char *why, size_t why_bytes);
// Read the state of a dataplane from its two memory areas, which are already open. Parameters and
// return values are as for weir_glance_at.
int weir_glance_memories(int statistics_fd, int tables_fd, uint64_t now_ns, struct weir_glance *ret,
	char *why, size_t why_bytes);
// Returns whether a process is stopped (SIGSTOP, a debugger) or a zombie. Needs no privilege.
bool weir_glance_is_stopped(pid_t pid);
