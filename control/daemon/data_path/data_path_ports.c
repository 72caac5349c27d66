// SPDX-License-Identifier: BSD-3-Clause
#include "data_path_ports.h"

#include <errno.h>

#define BLOCKS (65536u / WEIR_DATA_PATH_PORTS)

// Searches the blocks from the highest to the lowest. No block contains port 65535, because policy
// rules of the kernel cannot match this port. The lowest block is not used, because it contains the
// privileged ports.
int weir_data_path_ports_block(uint16_t low, uint16_t high, unsigned int place) {
	for (uint32_t block = BLOCKS - 1; block > 0; block--) {
		uint32_t first = block * WEIR_DATA_PATH_PORTS - 1;
		uint32_t last = first + WEIR_DATA_PATH_PORTS - 1;

		if ((last < low || first > high) && place-- == 0) {
			return (int)first;
		}
	}
	return -EADDRINUSE;
}

void weir_data_path_ports_init(struct weir_data_path_ports *ports, uint16_t first) {
	ports->first = first;
	ports->head = 0;
	ports->count = WEIR_DATA_PATH_PORTS;
	for (uint32_t i = 0; i < WEIR_DATA_PATH_PORTS; i++) {
		ports->free[i] = (uint16_t)(first + i);
	}
}

int weir_data_path_ports_take(struct weir_data_path_ports *ports) {
	uint16_t port;

	if (ports->count == 0) {
		return -EADDRNOTAVAIL;
	}
	port = ports->free[ports->head];
	ports->head = (ports->head + 1) % WEIR_DATA_PATH_PORTS;
	ports->count--;
	return port;
}

void weir_data_path_ports_give(struct weir_data_path_ports *ports, uint16_t port) {
	ports->free[(ports->head + ports->count) % WEIR_DATA_PATH_PORTS] = port;
	ports->count++;
}
