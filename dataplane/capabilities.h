// SPDX-License-Identifier: BSD-3-Clause
//
// Capabilities: what the dataplane drops once everything is open. (weir-control changes its user.)
//
// Opening devices needs nearly all of root's capabilities: BPF programs, raw and AF_XDP sockets,
// taps, pinned memory, VFIO. Forwarding through open devices needs none. CAP_NET_ADMIN stays only
// with devices that belong to the kernel: without it the process could not detach the steer program
// or stop a tap at exit.
//
// Threads: called by main. Capabilities belong to a thread, and DPDK has created threads by then: a
// signal interrupts each of them, and its handler drops the capabilities of that thread.
#pragma once

#include <stdbool.h>

// Prevent programs started by this process from gaining capabilities. Called first in main, so that
// all threads inherit it. Returns 0 or negative errno.
int weir_capabilities_freeze(void);

// Give up all capabilities of the calling thread, but CAP_NET_ADMIN where keep_net_admin.
// Returns 0 or negative errno.
int weir_capabilities_drop(bool keep_net_admin);

// Give up the capabilities of all threads: main, DPDK's workers, and those for interrupts and
// telemetry. None may create threads meanwhile.
// Returns 0, -EPERM (a thread has kept more), -ETIMEDOUT, or negative errno.
int weir_capabilities_drop_everywhere(bool keep_net_admin);
