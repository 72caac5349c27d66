// SPDX-License-Identifier: BSD-3-Clause
//
// Capacity cache: the measured speed in a file of the run directory, so that it is measured once
// and not at each start. It counts only for the same CPU and the same loop, so a moved virtual
// machine is measured again.
//
// Threads: one.
#pragma once

#include "capacity.h"

#define WEIR_CAPACITY_CACHE "capacity" // in the run directory
#define WEIR_CAPACITY_CACHE_BYTES 256 // always, padded with spaces: written at once

// Open the file; with CREATE, also if there is none. Call it before the privileges are dropped.
// Returns its descriptor, owned by the caller, or negative errno.
int weir_capacity_cache_open(const char *run_dir, int how);
#define WEIR_CAPACITY_CACHE_READ 0
#define WEIR_CAPACITY_CACHE_CREATE 1

// Returns 0, -ENOENT (none: empty, damaged, of another CPU or another loop), or negative errno.
int weir_capacity_cache_read(int fd, const struct weir_capacity_cpu *cpu, double *ret_gcu);
int weir_capacity_cache_write(int fd, const struct weir_capacity_cpu *cpu, double gcu);

// The contents of a file. text: need not end with a NUL. Returns 0 or -ENOENT, as above.
int weir_capacity_cache_parse(
	const char *text, size_t bytes, const struct weir_capacity_cpu *cpu, double *ret_gcu);
