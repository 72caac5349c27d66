// SPDX-License-Identifier: BSD-3-Clause
//
// Hints: settings of this host that prevent it from working as a backend, and the commands that
// change them. Reads sysctls; changes nothing.
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct weir_hints_host {
	const char *sysctl_root; // "/proc/sys"
	const char *interface;
	uint32_t mtu; // of the interface
	uint32_t loopback_addresses; // on lo, other than 127.0.0.0/8 and ::1
};

// Read the settings of this host. Returns 0, -ENODEV (no such interface), or another negative
// errno.
int weir_hints_host_read(const char *interface, struct weir_hints_host *ret);

// MTU that a client's packet of 1,500 bytes needs with any outer header.
#define WEIR_HINTS_MTU 1540u
// The MSS of TCP clients of family 4 or 6 with which each packet and any outer header fit into the
// interface's MTU: the number of docs/guide/backends.md.
uint32_t weir_hints_mss(const struct weir_hints_host *host, uint8_t family);

// Write one paragraph per hint. Returns their number.
unsigned int weir_hints_write(const struct weir_hints_host *host, FILE *out);
