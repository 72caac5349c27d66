// SPDX-License-Identifier: BSD-3-Clause
//
// Capacity cache: stores the measured speed in a file in the run directory, so that the speed is
// not measured at each start. The file is valid only for one CPU model and one version of the loop.
// Therefore the speed is measured again after a virtual machine has moved to another CPU model.
//
// Threads: one.
#pragma once

#include "capacity.h"

#define WEIR_CAPACITY_CACHE "capacity" // name of the file in the run directory
#define WEIR_CAPACITY_CACHE_BYTES 256 // fixed size, padded with spaces; written by one call

// Open the file; with CREATE, create a missing file. Call this function before the privileges are
// dropped. Returns the descriptor, owned by the caller, or negative errno.
int weir_capacity_cache_open(const char *run_dir, int how);
#define WEIR_CAPACITY_CACHE_READ 0
#define WEIR_CAPACITY_CACHE_CREATE 1

// Read the stored speed of one CPU. cpu: the CPU of this host. Returns 0, -ENOENT (no valid result:
// the file is empty, damaged, or for another CPU model or another version of the loop), or another
// negative errno.
int weir_capacity_cache_read(int fd, const struct weir_capacity_cpu *cpu, double *ret_gcu);
int weir_capacity_cache_write(int fd, const struct weir_capacity_cpu *cpu, double gcu);

// Parse the contents of a file. text: need not end with a NUL. Returns 0, or -ENOENT in the
// same cases as weir_capacity_cache_read.
int weir_capacity_cache_parse(
	const char *text, size_t bytes, const struct weir_capacity_cpu *cpu, double *ret_gcu);
