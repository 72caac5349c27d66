// SPDX-License-Identifier: BSD-3-Clause
//
// Device plan: the parameters for opening a device and a pool of packet buffers. Computed from the
// configuration by plan.c; device.c and buffers.c carry out the plan.
//
// Threads: one, before the workers exist.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "devargs.h"
#include "layout.h"
#include "rss.h"

#define WEIR_DEVICES_MAX (2 * WEIR_PORTS_MAX) // each port and its exception device
#define WEIR_QUEUES_MAX 64 // maximum number of queues of one device
#define WEIR_POOLS_MAX 4 // maximum number of sizes of packet buffers
#define WEIR_INTERFACE_BYTES 16
#define WEIR_TX_RING 1024 // size of a ring to the owner of a transmit queue, in packets

struct weir_device_plan {
	struct weir_devargs devargs;
	uint8_t port; // index of the port in the configuration
	bool exception; // this is the port's exception device, not the port itself
	bool spreads; // a flow stays on one queue; for PCI, known only after opening
	bool interrupts; // enable interrupts: workers sleep until packets arrive
	uint16_t queues; // number of receive queues; for PCI, the maximum
	uint16_t descriptors; // number of descriptors of each queue
	uint16_t mtu;
	uint16_t room; // data room of receive buffers
	char interface[WEIR_INTERFACE_BYTES]; // name of the kernel's interface, "" = unknown
	// RSS key, the same for all devices. It is secret, because an attacker who knows the key
	// can choose flows that all go to one queue. If a driver rejects the key, the driver's own
	// key is used.
	uint8_t rss_key[WEIR_RSS_KEY_ROOM];
};

struct weir_pool_plan {
	uint16_t room;
	uint32_t buffers;
};
