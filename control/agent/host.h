// SPDX-License-Identifier: BSD-3-Clause
//
// Host: the settings of this backend that weir-agent doctor checks. Changes nothing.
//
// Threads: any. No logging.
#pragma once

#include <stdint.h>

struct weir_agent_host {
	uint32_t mtu; // MTU of the interface
	uint32_t loopback4, loopback6; // addresses of lo, other than 127.0.0.0/8 and ::1
};

// Returns 0, -ENODEV (no such interface), or another negative errno.
int weir_agent_host_read(const char *interface, struct weir_agent_host *ret);

// MTU that a client's packet of 1,500 bytes needs with any outer header.
#define WEIR_AGENT_MTU 1540u
// Returns the MSS to advertise to TCP clients of family 4 or 6. With this MSS, each packet fits
// into the MTU with any outer header. docs/guide/backends.md has the same numbers.
uint32_t weir_agent_host_mss(const struct weir_agent_host *host, uint8_t family);
