// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that runs out. Programs that depend on `starved` are linked with --wrap=malloc, calloc,
// realloc; allocations of shared libraries are not affected.
//
// Threads: one.
#pragma once

// The next n allocations succeed, all later ones fail; below 0: all succeed again.
void starved_after(long n);
