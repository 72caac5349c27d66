// SPDX-License-Identifier: BSD-3-Clause
//
// The distance of two CPUs: the round trip of one cache line between them. On a virtual machine
// this changes at run time, when the host moves a virtual CPU to a core with another L3 cache, and
// so does the data rate of two processes that share memory.
// Called by generator.c between trials.
//
// Threads: the caller, on its own CPU, and one on the other CPU for the length of the call. It
// shares that CPU with any polling process there, so do not call it while a trial runs.
#pragma once

// ret_ns: median round trip. Takes a few milliseconds.
// Returns 0, -EAGAIN (one of the CPUs was busy all the time), negative errno of the thread.
int rig_distance(unsigned int other_cpu, double *ret_ns);
