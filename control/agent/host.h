// SPDX-License-Identifier: BSD-3-Clause
//
// Host: settings of this backend that weir-agent doctor checks. The functions change no settings.
//
// Threads: any. No logging.
#pragma once

#include <stdint.h>

#include "forwarding_mode.h"

struct weir_agent_host {
	uint32_t mtu; // MTU of the interface
	uint32_t loopback4, loopback6; // number of addresses of lo, without 127.0.0.0/8 and ::1
};

// Read the settings of an interface. Returns 0, -ENODEV (no such interface), or another negative
// errno.
int weir_agent_host_read(const char *interface, struct weir_agent_host *ret);

// Returns the length of the outer headers of a forwarding mode, in bytes, for the address family
// with the larger headers.
uint32_t weir_agent_host_outer_bytes(enum weir_forwarding_mode mode);
// Returns the MSS to advertise to TCP clients of address family 4 or 6. With this MSS, each packet
// fits into the MTU together with outer headers of this length. Returns 0 if the MTU is too small.
// docs/guide/backends.md has the same numbers.
uint32_t weir_agent_host_mss(
	const struct weir_agent_host *host, uint8_t family, uint32_t outer_bytes);
