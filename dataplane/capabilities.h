// SPDX-License-Identifier: BSD-3-Clause
//
// Capabilities: drops the capabilities of the dataplane after all devices and sockets are open.
// (weir-control changes its user instead.)
//
// Opening devices needs nearly all of root's capabilities, for BPF programs, raw and AF_XDP
// sockets, taps, pinned memory and VFIO. Forwarding through open devices needs no capability.
// CAP_NET_ADMIN is kept only if a device belongs to the kernel: without this capability the process
// could not detach the steer program or stop a tap at exit.
//
// Threads: called by main. Each thread has its own capabilities, and DPDK creates threads before
// the call. Therefore main sends a signal to each other thread that has too many capabilities, and
// the signal handler drops the capabilities of the thread.
#pragma once

#include <stdbool.h>

// Prevent programs started by this process from gaining capabilities. Call before any other thread
// exists, so that all threads inherit the setting. Returns 0 or negative errno.
int weir_capabilities_freeze(void);

// Drop all capabilities of all threads. keep_net_admin: keep CAP_NET_ADMIN, except in the
// inheritable set. The threads are main, DPDK's workers, and DPDK's threads for interrupts and
// telemetry. No thread may create another thread during the call. Returns 0, -EPERM (a thread still
// has more capabilities), -ETIMEDOUT (a thread did not run the signal handler), or another negative
// errno. After -ETIMEDOUT the process must exit.
int weir_capabilities_drop_everywhere(bool keep_net_admin);
