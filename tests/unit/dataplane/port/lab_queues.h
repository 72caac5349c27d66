// SPDX-License-Identifier: BSD-3-Clause
//
// Lab queues: what net_ring and DPDK's mempools do with rings, compiled with the test. DPDK's
// libraries are not instrumented: of packets that pass through them, ThreadSanitizer would see each
// thread's accesses and not what orders them.
#pragma once

#include <stdint.h>

#include "device_lab.h"

// A pool of packet buffers. NULL: no memory.
struct rte_mempool *lab_queues_pool(const char *name, unsigned int buffers);
// Poll the rings of an open device in place of its driver, until it is stopped.
void lab_queues_poll(struct ring_device *device, uint16_t id);
