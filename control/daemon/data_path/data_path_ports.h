// SPDX-License-Identifier: BSD-3-Clause
//
// Source ports of connections via the data path: one block of ports, each used by one connection at
// a time. The least recently used port is taken, so that late packets of a port's previous
// connection do not reach a new one.
//
// Threads: one. No I/O, no allocation.
#pragma once

#include <stdint.h>

#define WEIR_DATA_PATH_PORTS 2048u // in a block; as many as checks can be in flight

struct weir_data_path_ports {
	uint16_t first; // host order
	uint16_t free[WEIR_DATA_PATH_PORTS]; // ring
	uint32_t head, count; // of the ring
};

// The first port of a block outside the range from low to high, from which the kernel assigns ports
// (net.ipv4.ip_local_port_range): the place-th such block from the top. Returns it, or -EADDRINUSE.
int weir_data_path_ports_block(uint16_t low, uint16_t high, unsigned int place);

void weir_data_path_ports_init(struct weir_data_path_ports *ports, uint16_t first);

// O(1). Returns a port in host order, or -EADDRNOTAVAIL: all are taken.
int weir_data_path_ports_take(struct weir_data_path_ports *ports);
// port: returned by weir_data_path_ports_take.
void weir_data_path_ports_give(struct weir_data_path_ports *ports, uint16_t port);
