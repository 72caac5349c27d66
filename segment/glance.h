// SPDX-License-Identifier: BSD-3-Clause
//
// Glance: what a process that is not attached can see of a running dataplane: whether its workers
// run, and whether it has tables. For `weirctl status` while weir-control does not answer. Reads
// with pread: maps and allocates nothing, and the dataplane does not notice.
//
// Threads: any.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "segment.h"

struct weir_glance {
	pid_t pid; // of the dataplane
	uint32_t workers;
	uint32_t stalled; // of them (heartbeat.h)
	uint32_t stalled_worker[WEIR_WORKERS_MAX]; // [stalled]
	bool has_tables; // control has published a service table
};

// Find the dataplane of a run directory: the process that holds its lock, which the kernel lists in
// /proc/locks for every user. Returns its pid, -ENOENT (none runs), or another negative errno, e.g.
// -EACCES.
pid_t weir_glance_find(const char *run_dir);
// The process that holds a lock of this file, from a line of /proc/locks; 0: a line of others.
// same_device: the line has the device of stat, so it must be the same.
pid_t weir_glance_holder(const char *line, const struct stat *lock, bool same_device);
// Look at a dataplane. now_ns: CLOCK_MONOTONIC. why gets one line. Returns 0, -EACCES (only root
// may, and the dataplane's own user), -ENOENT (no segment: no dataplane, or one that is starting or
// ending), -EPROTO (of another version), or another negative errno.
int weir_glance_at(
	pid_t pid, uint64_t now_ns, struct weir_glance *ret, char *why, size_t why_bytes);
// The same, of memories that are open already.
int weir_glance_memories(int statistics_fd, int tables_fd, uint64_t now_ns, struct weir_glance *ret,
	char *why, size_t why_bytes);
// Whether a process is stopped (SIGSTOP, a debugger) or a zombie. Every user may look.
bool weir_glance_is_stopped(pid_t pid);
