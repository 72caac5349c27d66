// SPDX-License-Identifier: BSD-3-Clause
//
// Source ports of connections via the data path: one block of ports. A port is used by one
// connection at a time. The least recently used port is used first, so that late packets of a
// port's previous connection do not reach a new connection.
//
// Threads: one. No I/O, no allocation.
#pragma once

#include <stdint.h>

// Number of ports in a block: at least the number of checks that can be in flight.
#define WEIR_DATA_PATH_PORTS 2048u

struct weir_data_path_ports {
	uint16_t first; // host order
	uint16_t free[WEIR_DATA_PATH_PORTS]; // ring of free ports
	uint32_t head, count; // head and length of the ring
};

// Finds a block of ports outside the range low to high, which the kernel uses for other connections
// (net.ipv4.ip_local_port_range). place: index of the block among the blocks outside the range; 0 =
// the highest block. Returns the first port of the block, or -EADDRINUSE.
int weir_data_path_ports_block(uint16_t low, uint16_t high, unsigned int place);

void weir_data_path_ports_init(struct weir_data_path_ports *ports, uint16_t first);

// Allocates a free port. Returns the port in host order, or -EADDRNOTAVAIL if all ports are in use.
// Cost: O(1).
int weir_data_path_ports_take(struct weir_data_path_ports *ports);
// Frees a port. port: result of weir_data_path_ports_take.
void weir_data_path_ports_give(struct weir_data_path_ports *ports, uint16_t port);
