// SPDX-License-Identifier: BSD-3-Clause
//
// Makes memory allocations fail. Programs that depend on `starved` are linked with --wrap=malloc,
// calloc, realloc. Allocations of shared libraries are not affected.
//
// Threads: one.
#pragma once

// The next n allocations succeed, and all later allocations fail. If n is below 0, all allocations
// succeed again.
void starved_after(long n);
