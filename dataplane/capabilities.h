// SPDX-License-Identifier: BSD-3-Clause
//
// Capabilities: what the dataplane drops once everything is open. (weir-control changes its user.)
//
// Opening devices takes nearly all of root's rights: BPF programs, raw and AF_XDP sockets, taps,
// pinned memory, VFIO. None of it is needed to move packets through what is open. What stays is
// CAP_NET_ADMIN, and only where there are devices of the kernel's: without it the steer program
// could not be detached from an interface, nor a tap be stopped, at the end.
//
// Threads: main calls. Capabilities belong to a thread, and DPDK has made some by then: each of
// them is interrupted by a signal, in whose handler it drops its own.
#pragma once

#include <stdbool.h>

// No program started from here can gain rights. First thing in main, so that all threads inherit
// it. Returns 0 or negative errno.
int weir_capabilities_freeze(void);

// Give up all capabilities of the calling thread, but CAP_NET_ADMIN where keep_net_admin.
// Returns 0 or negative errno.
int weir_capabilities_drop(bool keep_net_admin);

// Give up the capabilities of all threads: main, DPDK's workers, and those for interrupts and
// telemetry. None may make further ones meanwhile.
// Returns 0, -EPERM (a thread has kept more), -ETIMEDOUT, or negative errno.
int weir_capabilities_drop_everywhere(bool keep_net_admin);
