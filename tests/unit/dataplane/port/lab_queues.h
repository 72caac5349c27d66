// SPDX-License-Identifier: BSD-3-Clause
//
// Lab queues: the ring operations of net_ring and DPDK's mempools, compiled with the test. DPDK's
// libraries are not instrumented, so ThreadSanitizer would detect the threads' accesses to packets
// that pass through the libraries, but not their synchronization.
#pragma once

#include <stdint.h>

#include "device_lab.h"

// Returns a pool of packet buffers, or NULL if there is not enough memory.
struct rte_mempool *lab_queues_pool(const char *name, unsigned int buffers);
// Poll the rings of an open device instead of its driver, until it is stopped.
void lab_queues_poll(struct ring_device *device, uint16_t id);
