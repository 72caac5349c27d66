// SPDX-License-Identifier: BSD-3-Clause
//
// Port statistics: reads the counters of a device and, for AF_XDP, the kernel's counters of packets
// that did not reach a worker.
//
// Threads: main, never a worker: reading makes system calls, which take milliseconds with some
// drivers.
#pragma once

#include "device.h"
#include "layout.h"

// List the AF_XDP sockets of this process that are not in listed[0..n). Returns the number of
// sockets written to ret, at most `room`.
uint32_t weir_xdp_sockets(const int *listed, uint32_t n, int *ret, uint32_t room);

struct weir_port_statistics {
	uint16_t device; // DPDK's port id
	bool counts_refused; // the device counts a packet as an error if the transmit queue is full
	uint32_t sockets; // number of AF_XDP sockets
	int socket[WEIR_QUEUES_MAX]; // sockets owned by the driver
	uint32_t xstats;
	uint64_t xstat[WEIR_PORT_XSTATS]; // DPDK's ids of the statistics that are shown
};

// Prepare to read the statistics of an open device. Writes the names of the extended statistics to
// `counters`, the port's counters in the segment.
void weir_port_statistics_init(struct weir_port_statistics *statistics,
	const struct weir_device *device, struct weir_port_counters *counters);

// Read the device's statistics into its counters in the segment. now_ns: CLOCK_MONOTONIC.
void weir_port_statistics_read(const struct weir_port_statistics *statistics, uint64_t now_ns,
	struct weir_port_counters *counters);
