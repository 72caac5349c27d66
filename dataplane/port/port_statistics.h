// SPDX-License-Identifier: BSD-3-Clause
//
// Port statistics: counters of a device, and of the kernel for AF_XDP, of packets that no worker
// received.
//
// Threads: main. Reading takes system calls, with some drivers milliseconds: never a worker.
#pragma once

#include "device.h"
#include "layout.h"

// The AF_XDP sockets of this process that are not in listed[0..n). Returns how many of them were
// put into ret, at most `room`.
uint32_t weir_xdp_sockets(const int *listed, uint32_t n, int *ret, uint32_t room);

struct weir_port_statistics {
	uint16_t device; // DPDK's port id
	bool counts_refused; // as errors: packets that did not fit its queue, at each try
	uint32_t sockets; // of AF_XDP
	int socket[WEIR_QUEUES_MAX]; // the driver's
	uint32_t xstats;
	uint64_t xstat[WEIR_PORT_XSTATS]; // DPDK's numbers of those that are shown
};

// Prepare to read a device that was opened. Writes the names of the extended statistics.
void weir_port_statistics_init(struct weir_port_statistics *statistics,
	const struct weir_device *device, struct weir_port_counters *counters);

// Read the device's statistics into the segment.
void weir_port_statistics_read(const struct weir_port_statistics *statistics, uint64_t now_ns,
	struct weir_port_counters *counters);
