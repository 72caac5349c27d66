// SPDX-License-Identifier: BSD-3-Clause
//
// Lab queues: the ring operations of net_ring and DPDK's mempools, compiled with the test. DPDK's
// libraries are not instrumented for ThreadSanitizer. It would not detect the synchronization in
// their rings, and would report data races between threads that pass packets through these rings.
#pragma once

#include <stdint.h>

#include "device_lab.h"

// Returns a pool of packet buffers, or NULL if there is not enough memory.
struct rte_mempool *lab_queues_pool(const char *name, unsigned int buffers);
// From now on, receive and transmit bursts of an open device access its rings directly, without the
// driver, until the device is stopped.
void lab_queues_poll(struct ring_device *device, uint16_t id);
