// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl config init: writes an initial configuration.
#pragma once

#include "command.h"

int weir_init_run(struct weir_cli *cli, const struct weir_cli_command *command);

// Find the interface of the default route with the lowest metric. IPv6 routes are used only if
// no IPv4 default route is usable. Ignores interfaces that Weir has created, and interfaces whose
// names cannot be written in DPDK devargs. route, ipv6_route: contents of /proc/net/route and
// /proc/net/ipv6_route; NULL = none. /proc/net/ipv6_route contains the routes of all tables,
// including the table for health checks via the data path. Returns false if there is no such
// interface.
#define WEIR_INIT_INTERFACE_BYTES 16
bool weir_init_interface(
	const char *route, const char *ipv6_route, char interface[WEIR_INIT_INTERFACE_BYTES]);

// Returns the lowest online CPU other than CPU 0, which serves most interrupts; CPU 0 if no other
// CPU is online. online: contents of /sys/devices/system/cpu/online, such as "0-3" or "0,2-5";
// NULL = unknown: returns 1.
uint32_t weir_init_core(const char *online);
