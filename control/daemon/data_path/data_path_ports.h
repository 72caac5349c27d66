// SPDX-License-Identifier: BSD-3-Clause
//
// Source ports of connections along the data path: one block of ports, each used by one connection
// at a time. The port that was free for longest is taken, so that what arrives late for the former
// connection of a port finds no new one.
//
// Threads: one. No I/O, no allocation.
#pragma once

#include <stdint.h>

#define WEIR_DATA_PATH_PORTS 2048u // in a block; as many as checks can be in flight

struct weir_data_path_ports {
	uint16_t first; // host order
	uint16_t free[WEIR_DATA_PATH_PORTS]; // ring
	uint32_t head, count; // of what is free
};

// The first port of a block that the kernel gives to nobody by itself, as low to high is what it
// gives (net.ipv4.ip_local_port_range): the place-th from the top. Returns it, or -EADDRINUSE.
int weir_data_path_ports_block(uint16_t low, uint16_t high, unsigned int place);

void weir_data_path_ports_init(struct weir_data_path_ports *ports, uint16_t first);

// O(1). Returns a port in host order, or -EADDRNOTAVAIL: all are taken.
int weir_data_path_ports_take(struct weir_data_path_ports *ports);
// port: one that was taken.
void weir_data_path_ports_give(struct weir_data_path_ports *ports, uint16_t port);
