// SPDX-License-Identifier: BSD-3-Clause
//
// Device lab: DPDK devices (net_ring) whose received packets come from the test, and whose sent
// packets go to the test. Also a separate network namespace for devices of the kernel.
#pragma once

#include <stdint.h>

#include <rte_mbuf.h>

#include "plan.h"
#include "shell.h"

#define DEVICE_LAB_WORKERS 3
#define DEVICE_LAB_RING 8192

struct ring_device {
	char name[WEIR_DEVICE_NAME_BYTES]; // device name for devargs
	uint16_t queues;
	struct rte_ring *to[4]; // packets that the device will receive, by queue
	struct rte_ring *from[4]; // packets that the device has sent
};

// cmocka group set-up: a network namespace if permitted, and DPDK with three lcores, all on the
// first CPU, without huge pages.
int device_lab_eal(void **state);
// Skip the test unless it runs as root, in its own namespace.
void device_lab_need_root(void);

// Create a device with this number of queue pairs. The device is opened by its name. Each name can
// be used only once.
void ring_device_make(const char *name, uint16_t queues, struct ring_device *ret);
// Release the device, and free the packets in its rings.
void ring_device_free(struct ring_device *device);
// Give the device a packet to receive. Returns false if the ring is full.
bool ring_device_feed(struct ring_device *device, uint16_t queue, const uint8_t *bytes, uint32_t n);
// Returns the next packet that the device has sent on a queue, or NULL.
struct rte_mbuf *ring_device_take(struct ring_device *device, uint16_t queue);

// Returns the pool of the test's packet buffers.
struct rte_mempool *device_lab_pool(void);
uint32_t device_lab_in_use(void);

// Makes a plan for one device, like a plan of weir_plan_make.
void device_lab_plan(const char *device, uint16_t queues, struct weir_plan *ret);
