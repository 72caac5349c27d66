// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl config init: writes a first configuration.
#pragma once

#include "command.h"

int weir_init_run(struct weir_cli *cli, const struct weir_cli_command *command);

// The interface of the default route with the lowest metric, of IPv4 or, if that has none, of IPv6,
// from the tables of the kernel: the texts of /proc/net/route and /proc/net/ipv6_route, which has
// the routes of all tables, so that of checks via the data path as well. Never one that Weir made.
// Returns false if there is none that a device can name.
#define WEIR_INIT_INTERFACE_BYTES 16
bool weir_init_interface(
	const char *route, const char *ipv6_route, char interface[WEIR_INIT_INTERFACE_BYTES]);
