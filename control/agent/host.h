// SPDX-License-Identifier: BSD-3-Clause
//
// Host: what the checks of the doctor need of this backend. Changes nothing.
//
// Threads: any. No logging.
#pragma once

#include <stdint.h>

struct weir_agent_host {
	uint32_t mtu; // of the interface
	uint32_t loopback4, loopback6; // addresses of lo, other than 127.0.0.0/8 and ::1
};

// Returns 0, -ENODEV (no such interface), or another negative errno.
int weir_agent_host_read(const char *interface, struct weir_agent_host *ret);

// MTU that a client's packet of 1,500 bytes needs with any outer header.
#define WEIR_AGENT_MTU 1540u
// The MSS of TCP clients of family 4 or 6 with which each packet and any outer header fit into the
// MTU: the number of docs/guide/backends.md.
uint32_t weir_agent_host_mss(const struct weir_agent_host *host, uint8_t family);
