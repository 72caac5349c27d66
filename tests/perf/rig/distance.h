// SPDX-License-Identifier: BSD-3-Clause
//
// The distance of two CPUs: the round-trip time of one cache line between them. On a virtual
// machine the distance changes at run time, when the host moves a virtual CPU to a core with
// another L3 cache; the data rate of two processes that share memory then changes, too. Called by
// generator.c between trials.
//
// Threads: the caller, on its own CPU, and a thread on the other CPU for the length of the call.
// That thread shares its CPU with any process that polls on it, so do not call this function while
// a trial runs.
#pragma once

// ret_ns: median round trip. Takes a few milliseconds.
// Returns 0, -EAGAIN (one of the CPUs was busy all the time), negative errno of the thread.
int rig_distance(unsigned int other_cpu, double *ret_ns);
