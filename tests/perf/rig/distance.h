// SPDX-License-Identifier: BSD-3-Clause
//
// Measures the distance between two CPUs: the round-trip time of one cache line between them. On
// a virtual machine the distance changes when the host moves a virtual CPU to a core with another
// L3 cache. The data rate of two processes that share memory then also changes. Called by
// generator.c between trials.
//
// Threads: the calling thread, pinned to its CPU, and a thread on the other CPU during the call.
// The second thread takes CPU time from a process that polls on the other CPU, so do not call this
// function while a trial runs.
#pragma once

// ret_ns: median round-trip time. The call takes a few milliseconds. Returns 0, -EAGAIN (one of
// the CPUs was busy all the time), or another negative errno.
int rig_distance(unsigned int other_cpu, double *ret_ns);
