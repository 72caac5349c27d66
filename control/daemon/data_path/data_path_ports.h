// SPDX-License-Identifier: BSD-3-Clause
//
// Source ports of connections via the data path: one block of ports. A port is used by one
// connection at a time. The least recently used port is taken first, so that late packets of a
// port's previous connection do not reach a new connection.
//
// Threads: one. No I/O, no allocation.
#pragma once

#include <stdint.h>

// Ports in a block; at least as many as checks that can be in flight.
#define WEIR_DATA_PATH_PORTS 2048u

struct weir_data_path_ports {
	uint16_t first; // host order
	uint16_t free[WEIR_DATA_PATH_PORTS]; // ring of free ports
	uint32_t head, count; // head and length of the ring
};

// Find a block of ports outside the range low to high, from which the kernel assigns ports
// (net.ipv4.ip_local_port_range). place: index of the block among such blocks, counted from the
// highest. Returns the first port of the block, or -EADDRINUSE.
int weir_data_path_ports_block(uint16_t low, uint16_t high, unsigned int place);

void weir_data_path_ports_init(struct weir_data_path_ports *ports, uint16_t first);

// O(1). Returns a port in host order, or -EADDRNOTAVAIL: all ports are taken.
int weir_data_path_ports_take(struct weir_data_path_ports *ports);
// port: as returned by weir_data_path_ports_take.
void weir_data_path_ports_give(struct weir_data_path_ports *ports, uint16_t port);
