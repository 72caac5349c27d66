// SPDX-License-Identifier: BSD-3-Clause
//
// Device: one DPDK Ethernet device, opened as described by its device plan. It is a port or the
// exception device of a port.
//
// Threads: main; open, close and pair while no worker runs. The struct is read-only for workers.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "buffers.h"
#include "device_plan.h"

#define WEIR_FRAME_OVERHEAD 22 // Ethernet header, two VLAN tags

struct weir_device {
	uint16_t id; // DPDK's port id
	uint8_t port; // index of the port that the device belongs to
	bool exception;
	bool open;
	bool spreads; // a flow stays on one receive queue
	struct weir_rss rss; // RSS of a device that spreads flows
	bool multi_segment; // the device can send a packet that is in several buffers
	bool any_mac; // the device has no MAC address: accepts frames to any unicast MAC address
	bool kernel_has_copy; // the kernel also receives the packets of this device
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t tx_descriptors; // number of descriptors of each transmit queue
	uint16_t mtu;
	uint32_t frame_max; // longest frame to send, bytes
	uint8_t mac[6];
	char interface[WEIR_INTERFACE_BYTES]; // interface of the kernel, "" = none
	uint32_t ifindex; // index of the kernel's interface; 0 = none
	char name[WEIR_DEVICE_NAME_BYTES];
	uint32_t xdp_sockets;
	int xdp_socket[WEIR_QUEUES_MAX]; // AF_XDP sockets, owned by the driver
};

// Probe, configure and start a device. buffers: pools for the device's receive buffers. workers:
// number of workers, which is the requested number of transmit queues of a PCI device. Returns 0,
// or negative errno with one line in why (DPDK logs the details); on failure *ret is closed.
int weir_device_open(const struct weir_device_plan *plan, struct weir_buffers *buffers,
	uint32_t workers, struct weir_device *ret, char *why, size_t why_bytes);
void weir_device_close(struct weir_device *device); // does nothing if the device is not open

// Give an exception device the MAC address of its port, so that the kernel answers ARP and ND with
// that address, and make the port receive multicast frames. Returns 0 or negative errno with one
// line in why. After an error the device can be used, but the kernel does not receive all of its
// packets.
int weir_device_pair(
	struct weir_device *port, struct weir_device *exception, char *why, size_t why_bytes);

// Returns true if the link is up, according to the driver and the kernel.
bool weir_device_link(const struct weir_device *device);

// State of the kernel's interface of a device. Drivers do not detect that the interface was removed
// or replaced.
enum weir_device_interface {
	WEIR_INTERFACE_PRESENT, // present, or the device has no interface of the kernel
	WEIR_INTERFACE_REMOVED,
	WEIR_INTERFACE_REPLACED, // removed, and a new interface has the same name
};
enum weir_device_interface weir_device_interface(const struct weir_device *device);
