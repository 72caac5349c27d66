// SPDX-License-Identifier: BSD-3-Clause
//
// Host: the settings of this backend that weir-agent doctor checks. Changes nothing.
//
// Threads: any. No logging.
#pragma once

#include <stdint.h>

#include "forwarding_mode.h"

struct weir_agent_host {
	uint32_t mtu; // MTU of the interface
	uint32_t loopback4, loopback6; // addresses of lo, other than 127.0.0.0/8 and ::1
};

// Returns 0, -ENODEV (no such interface), or another negative errno.
int weir_agent_host_read(const char *interface, struct weir_agent_host *ret);

// Returns the bytes of the outer headers of a forwarding mode, with the larger address family.
uint32_t weir_agent_host_outer_bytes(enum weir_forwarding_mode mode);
// Returns the MSS to advertise to TCP clients of family 4 or 6. With this MSS, each packet fits
// into the MTU with outer headers of this length. docs/guide/backends.md has the same numbers.
uint32_t weir_agent_host_mss(
	const struct weir_agent_host *host, uint8_t family, uint32_t outer_bytes);
